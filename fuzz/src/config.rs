//! The text of a configuration file: settings, or one line that says where and what; what is accepted prints as a
//! file that loads to the same settings again, and no error and no print tells a token.

use std::path::Path;

use ackline::node::settings::{KEYS, PartialSettings, RelaySettings};

/// A token that seeds give, so that it can be looked for in what is said.
pub const SECRET: &str = "90210777";

pub fn run(data: &[u8]) {
    let none = PartialSettings::default();
    let settings = match load(data, &none) {
        Ok(settings) => settings,
        Err(error) => return refused(data, &error),
    };
    assert_eq!(settings.validate(), Ok(()), "what a file gives is within bounds");
    let shown = settings.to_toml().expect("settings print");
    if settings.upstream_token.expose() == SECRET.as_bytes() {
        assert!(!shown.contains(SECRET) || count(data, SECRET) > 1, "{shown}");
    }
    let again = load(shown.as_bytes(), &none).unwrap_or_else(|error| panic!("{error}: {shown}"));
    assert_eq!(
        RelaySettings {
            upstream_token: settings.upstream_token.clone(),
            insecure: settings.insecure,
            ..again.clone()
        },
        settings,
        "{shown}"
    );
    // Left out it depends on the address; printed it is said, but for a false without keys, which no relay takes.
    assert_eq!(again.is_insecure(), settings.is_insecure(), "{shown}");
    assert!(again.insecure.is_some() || !settings.is_insecure(), "{shown}");
    let changed: &[&str] = if settings.upstream_token.is_empty() {
        &[]
    } else {
        &["upstream_token"]
    };
    assert_eq!(settings.changed(&again), changed);
    assert_eq!(again.to_toml().as_deref(), Ok(&*unmasked(&shown)), "one form");
}

/// What is printed once the token, which it does not tell, is gone.
fn unmasked(shown: &str) -> String {
    let lines = shown.lines().map(|line| match line {
        token if token.starts_with("# upstream_token is set") => "# upstream_token = \"\"",
        other => other,
    });
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// An error is one line, names the file, is no longer than what it quotes, and does not tell a token.
fn refused(data: &[u8], error: &str) {
    assert!(error.starts_with("fuzz.toml") && error.len() > 12, "{error}");
    assert!(!error.contains('\n'), "{error:?}");
    assert!(
        error.len() <= 1024 + 12 * data.len(),
        "{} bytes of error",
        error.len()
    );
    let Ok(text) = core::str::from_utf8(data) else {
        return;
    };
    let told = |line: &str| {
        let Some((key, value)) = line.split_once('=') else {
            return false;
        };
        let key = key.trim().trim_matches(['"', '\'']);
        key == "upstream_token" && value.contains(SECRET) && !KEYS.iter().any(|other| value.contains(other))
    };
    // Strings of several lines, tables and arrays may make the line something else than it seems.
    let plain = !text.contains(['[', '{', '\r']) && !text.contains("'''") && !text.contains("\"\"\"");
    if plain && count(data, SECRET) == 1 && text.lines().any(told) {
        assert!(!error.contains(SECRET), "{error}");
    }
}

fn count(data: &[u8], word: &str) -> usize {
    data.windows(word.len())
        .filter(|window| *window == word.as_bytes())
        .count()
}

/// Loads a file with these bytes. It is a real file, since files are what settings are read from.
fn load(bytes: &[u8], flags: &PartialSettings) -> Result<RelaySettings, String> {
    std::thread_local! {
        static FILE: std::path::PathBuf = {
            let name = format!("ackline-config-{}-{:?}.toml", std::process::id(), std::thread::current().id());
            std::env::temp_dir().join(name)
        };
    }
    FILE.with(|file| {
        std::fs::write(file, bytes).expect("the directory for temporary files takes one");
        let loaded = RelaySettings::load(flags, Some(file));
        let _ = std::fs::remove_file(file);
        loaded.map_err(|error| named(&error.to_string(), file))
    })
}

/// The error with the file's name as a user's would be.
fn named(error: &str, file: &Path) -> String {
    error.replacen(&file.display().to_string(), "fuzz.toml", 1)
}

/// Files that are right, files that are nearly right, and files that are none.
pub fn seeds() -> Vec<Vec<u8>> {
    let printed = RelaySettings {
        shards: 4,
        upstream_token: "told".into(),
        ..RelaySettings::default()
    };
    let mut seeds = vec![printed.to_toml().expect("settings print").into_bytes()];
    let texts = [
        "",
        "# nothing\n\n",
        "shards = 2\nupstream = \"a:1, b:2\"\nlog_format = \"json\"\n",
        "listen = \"[::1]:7777\"\nadmin = \"127.0.0.1:0\"\nlog = \"info,ackline=debug\"\n",
        "upstream_token = \"90210777\"\nshards = 7\n",
        "upstream_token = 90210777\n",
        "\nupstream_token = \"90210777\nshards = 2\n",
        "upstream_token = \"90210777\"\nshards = 0\n",
        "shards = 2\nsessions_max = 0\n",
        "shards = -1\n",
        "shards = 99999999999999999999\n",
        "drain_deadline_s = 1.5\n",
        "budget_bytes_per_s = 1_000_000\nbudget_burst_bytes = 0x10000\n",
        "receive_buffer_bytes = 65536\nsend_buffer_bytes = 1073741824\n",
        "upstream = [\"a:1\"]\n",
        "upstream = \"a:1\\n,b:2\"\n",
        "upstream = \"\u{e9}:1\"\n",
        "upstream = \"\"\"\na:1\"\"\"\n",
        "listen = \"nowhere\"\n",
        "log = \"a=b=c\"\n",
        "log = \"[span{field=1}]=debug\"\n",
        "log_format = \"xml\"\n",
        "sharts = 2\n",
        "shards = 1\nshards = 2\n",
        "[relay]\nshards = 2\n",
        "shards.x = 1\n",
        "relay = { shards = 2 }\n",
        "shards = \n",
        "= 2\n",
        "shards = 2\r\nlog = 'warn'\r\n",
        "\"shards\" = 3\n",
    ];
    seeds.extend(texts.iter().map(|text| text.as_bytes().to_vec()));
    seeds.push(vec![0xFF, 0xFE, b's']);
    seeds.push(b"a = [".repeat(80));
    seeds
}
