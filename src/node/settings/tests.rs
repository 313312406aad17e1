//! Precedence, refusals with their place, and what is shown.

use super::*;
use crate::limits::UPSTREAM_TOKEN_MAX;

fn load(text: &str, flags: &PartialSettings) -> Result<RelaySettings, String> {
    let file = Some(("relay.toml", text));
    RelaySettings::of(flags, file, Pipes::Refused).map_err(|error| error.to_string())
}

#[test]
fn a_flag_beats_the_file_and_the_file_beats_the_default() {
    let flags = PartialSettings {
        shards: Some(3),
        ..PartialSettings::default()
    };
    let settings = load(
        "shards = 2\nupstream = \"a:1, b:2\"\nlog_format = \"json\"\n",
        &flags,
    )
    .unwrap();
    assert_eq!((settings.shards, settings.log_format), (3, LogFormat::Json));
    assert_eq!(settings.upstream, ["a:1", "b:2"]);
    assert_eq!(settings.listen, RelaySettings::default().listen);
}

/// Each refusal names file, line and key, and the bound or what is known.
#[test]
fn a_bad_file_is_refused_with_line_key_and_bound() {
    let none = PartialSettings::default();
    let refused = |text: &str| load(text, &none).unwrap_err();
    for (text, words) in [
        (
            "shards = 2\nsessions_max = 0\n",
            &["relay.toml, line 2: sessions_max is 0", "1 to"][..],
        ),
        (
            "\n\nshards = \"two\"\n",
            &["relay.toml, line 3: shards: invalid type: string \"two\": give a whole number from 1 to 64"],
        ),
        (
            "# a comment\nsharts = 2\n",
            &["relay.toml, line 2: there is no key sharts: did you mean shards?"],
        ),
        (
            "speed = 2\n",
            &["relay.toml, line 1: there is no key speed: ackline relay --print-config shows"],
        ),
        (
            "shards = -1\n",
            &[
                "line 1: shards: invalid value",
                "-1",
                "give a whole number from 1 to 64",
            ],
        ),
        (
            "drain_deadline_s = 1.5\n",
            &["drain_deadline_s: invalid type", "1.5", "from 1 to 3600"],
        ),
        (
            "upstream_token = 1234\n",
            &["line 1: upstream_token: it is no text: give a text of at most 512 bytes"],
        ),
        (
            "log_format = \"xml\"\n",
            &["log_format: unknown variant `xml`: give \"human\" or \"json\""],
        ),
        (
            "upstream = [\"a:1\"]\n",
            &["line 1: upstream: invalid type: sequence: give a text such as"],
        ),
        (
            "listen = \"nowhere\"\n",
            &["relay.toml, line 1: listen:", "address"],
        ),
        (
            "shards = 2\nupstream = \"a\"\n",
            &["relay.toml, line 2: upstream \"a\" is not host:port"],
        ),
        ("upstream = \"\"\n", &["line 1: upstream \"\" is not host:port"]),
        ("shards = \n", &["relay.toml, line 1"]),
        ("log = \"a=b=c\"\n", &["line 1: log"]),
        (
            "shards = 2\nlog = \"infoo\"\n",
            &["line 2: log \"infoo\": \"infoo\" is no level: did you mean info?"],
        ),
        (
            "log = \"\"\n",
            &["line 1: log \"\": it is empty: give off, error"],
        ),
        (
            "upstream = \"tcp://a:7700\"\n",
            &["line 1: upstream \"tcp://a:7700\" is a URL and not host:port: give for example"],
        ),
        (
            "upstream = \"a:1, a_b..c:7700\"\n",
            &["line 1: upstream \"a_b..c:7700\" has a host that can be nobody's name"],
        ),
        (
            "admin_token = \"hunter2\\nhunter3\"\n",
            &["line 1: admin_token: it has more than one line: give the token alone"],
        ),
        (
            "upstream_token = \"hunter2 \"\n",
            &["line 1: upstream_token: it begins or ends with white space"],
        ),
        (
            "insecure = true\nshards = 2\ninsecure = true\n",
            &["line 3: insecure: it stands in this file twice: leave out one of the lines"],
        ),
        (
            "shards = 2\n[log]\nlevel = \"info\"\n",
            &["line 2: [log] begins a table, and settings are in none"],
        ),
        (
            "[relay]\nshards = 2\n",
            &["line 1: [relay] begins a table, and settings are in none"],
        ),
        (
            "log.level = \"info\"\n",
            &["line 1: log: invalid type: map: give a level"],
        ),
        (
            "listen = \"239.1.2.3:7777\"\n",
            &["line 1: listen is 239.1.2.3:7777, which is no address of this host"],
        ),
        (
            "admin = \"255.255.255.255:8000\"\n",
            &["line 1: admin is 255.255.255.255:8000"],
        ),
        (
            "public_addresses = \"0.0.0.0:5\"\n",
            &["line 1: public_addresses: nobody can send to 0.0.0.0:5"],
        ),
        (
            "public_addresses = \"203.0.113.7:0\"\n",
            &["nobody can send to 203.0.113.7:0"],
        ),
        (
            "upstream = \"a:1,b:1,a:1\"\n",
            &["line 1: upstream \"a:1\" stands there twice"],
        ),
        (
            "drain_deadline_s = 5\ndrain_spread_s = 5\n",
            &[
                "line 2: drain_spread_s is 5, not below drain_deadline_s 5",
                "give 0 to 4",
            ],
        ),
        (
            "tier_dense = 10\ntier_crowded = 5\n",
            &["line 2: tier_crowded is 5, below tier_dense 10: give 10 to 1000000, or 0 for never"],
        ),
        (
            "view = \"radius:9\"\n",
            &["line 1: view: \"radius:9\" is no view: give whole, radius[:ENTER,LEAVE] or spectator"],
        ),
    ] {
        let error = refused(text);
        assert!(
            words.iter().all(|word| error.contains(word)),
            "{text:?} gave {error:?}"
        );
        assert!(!error.contains('\n'), "{error:?}");
    }
    for good in [
        "tier_dense = 10",
        "tier_crowded = 5",
        "tier_dense = 5\ntier_crowded = 5",
    ] {
        load(good, &PartialSettings::default()).expect(good);
    }
    let flags = PartialSettings {
        shards: Some(65),
        ..PartialSettings::default()
    };
    assert_eq!(
        load("", &flags).unwrap_err(),
        "--shards or ACKLINE_SHARDS: shards is 65: give 1 to 64"
    );
}

/// What is shown is a file that gives the same settings again, but for secrets.
#[test]
fn what_is_shown_loads_again_and_hides_secrets() {
    let flags = PartialSettings {
        upstream_token: Some("hunter2".into()),
        ..PartialSettings::default()
    };
    let settings = load("shards = 7\nview = \"radius:30,40.5\"\n", &flags).unwrap();
    assert_eq!(settings.view.to_string(), "radius:30,40.5");
    let shown = settings.to_toml().unwrap();
    assert!(
        !shown.contains("hunter2") && shown.contains("# upstream_token is set"),
        "{shown}"
    );
    let default = RelaySettings::default().to_toml().unwrap();
    assert!(
        default.ends_with("\n# admin_token = \"\"\n# upstream_token = \"\"\n"),
        "{default}"
    );
    for comment in ["# shards = ", "# insecure = false, and there are no token keys: "] {
        assert!(default.contains(&format!("\n{comment}")), "{default}");
    }
    // Each setting stands below what it is for.
    let lines: Vec<&str> = default.lines().collect();
    for pair in lines.windows(2) {
        assert!(
            pair.iter().any(|line| line.starts_with("# ")) && pair[0].chars().count() <= 100,
            "{pair:?}"
        );
    }
    let again = load(&default, &PartialSettings::default()).unwrap();
    assert!(
        again.insecure.is_none() && !again.places.is_given("shards"),
        "what this host has, and what nobody said, is not said by the file"
    );
    for key in KEYS {
        assert!(
            default.contains(&format!("{key} = ")),
            "every key is shown: {key}"
        );
    }
    let again = load(&shown, &PartialSettings::default()).unwrap();
    assert_eq!(again.upstream_token, "".into(), "what is masked is left out");
    assert_eq!(settings.changed(&again), ["upstream_token"]);
    assert_eq!(
        RelaySettings {
            upstream_token: settings.upstream_token.clone(),
            ..again
        },
        settings
    );
}

/// A token may be in a file of its own, which is shown by its name; given beside the token itself it is refused.
#[test]
fn tokens_come_from_files_that_no_list_of_processes_shows() {
    let file = std::env::temp_dir().join(format!("ackline-token-file-{}", std::process::id()));
    let name = file.display().to_string();
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write("  hunter2\n");
    let none = PartialSettings::default();
    for (key, plain) in [
        ("admin_token_file", "admin_token"),
        ("upstream_token_file", "upstream_token"),
    ] {
        let text = format!("{key} = {name:?}\n");
        let settings = load(&text, &none).unwrap();
        let token = |settings: &RelaySettings| match plain {
            "admin_token" => settings.admin_token.clone(),
            _ => settings.upstream_token.clone(),
        };
        assert_eq!(token(&settings), "hunter2".into());
        let shown = settings.to_toml().unwrap();
        assert!(
            shown.contains(&format!("{key} = ")) && shown.contains(&name),
            "{shown}"
        );
        assert!(shown.contains(&format!("# {plain} is what {plain}_file holds")));
        for text in [&shown, &format!("{:?} {settings:?}", settings.shown())] {
            assert!(!text.contains("hunter2"), "{text}");
        }
        let said = serde_json::to_value(settings.shown()).unwrap();
        let unset = serde_json::to_value(RelaySettings::default().shown()).unwrap();
        assert_eq!((&said[plain], &unset[plain]), (&"(set)".into(), &"".into()));
        let again = load(&shown, &none).unwrap();
        assert!(settings.changed(&again).is_empty());
        write("hunter3");
        assert_eq!(settings.changed(&load(&text, &none).unwrap()), [key]);
        let changed = RelaySettings::default().changed(&settings);
        assert!(changed.contains(&key), "{changed:?}");

        let both = load(&format!("{text}{plain} = \"x\"\n"), &none).unwrap_err();
        let fault = format!("{key} is given beside {plain}: leave out one of them");
        assert!(both.to_string().ends_with(&fault), "{both}");
        write(" \n");
        let empty = load(&text, &none).unwrap_err().to_string();
        assert!(
            empty.contains("it is empty: give a file of the token alone"),
            "{empty}"
        );
        write("hunter2\nhunter3\n");
        let lines = load(&text, &none).unwrap_err().to_string();
        assert!(
            lines.contains(&format!("{key} "))
                && lines.contains("more than one line")
                && !lines.contains("hunter"),
            "{lines}"
        );
        write(&"x".repeat(UPSTREAM_TOKEN_MAX + 1));
        let long = load(&text, &none).unwrap_err().to_string();
        assert!(long.contains("is 513: give 0 to 512"), "{long}");
        write("  hunter2\n");
    }
    std::fs::remove_file(&file).unwrap();
    let gone = load(&format!("admin_token_file = {name:?}\n"), &none).unwrap_err();
    assert!(gone.to_string().contains("it cannot be read: "), "{gone}");
}

/// A device has no end, and a binary is no text: refused before either fills memory.
#[test]
fn a_file_that_is_no_configuration_is_refused() {
    let none = PartialSettings::default();
    let refused = |path: &str| {
        RelaySettings::load(&none, Some(Path::new(path)))
            .unwrap_err()
            .to_string()
    };
    let error = refused("/dev/zero");
    assert!(
        error.starts_with("/dev/zero: ") && error.contains("a device or a socket and no file"),
        "{error}"
    );
    let error = refused(env!("CARGO_MANIFEST_DIR"));
    assert!(error.contains("it is a directory: give a TOML file"), "{error}");
    let error = refused(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/rl_2016_3v3_800.jsonl.zst"
    ));
    assert!(error.contains("not UTF-8 text"), "{error}");
}

/// The list of keys is that of the file and of what is shown; each has its wish.
#[test]
fn every_key_is_in_the_list_and_has_a_wish() {
    let shown = toml::to_string(&RelaySettings::default().shown()).unwrap();
    let keys: Vec<&str> = shown
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(key, _)| key)
        .collect();
    assert_eq!(keys, KEYS);
    assert!(KEYS.iter().all(|key| bounds::wish_of(key).is_some()));
    let mut other = RelaySettings::default();
    (other.log, other.sessions_max) = ("debug".to_owned(), 7);
    assert_eq!(RelaySettings::default().changed(&other), ["sessions_max", "log"]);
}

/// What is shown of `insecure` is what holds: on loopback without keys whoever asks is let in, whether or not that was said. False
/// said aloud, without keys, is refused there too; so is true beside keys, and each is named with where it was given.
#[test]
fn insecure_is_shown_as_it_is_and_refused_where_it_contradicts() {
    let keys = std::env::temp_dir().join(format!("ackline-settings-{}.keys", std::process::id()));
    std::fs::write(&keys, format!("7:{}\n", "ab".repeat(32))).unwrap();
    let file = format!("token_keys_file = {:?}\n", keys.display().to_string());
    let here = "listen = \"127.0.0.1:0\"\n";
    for (text, insecure) in [
        (here.to_owned(), true),
        (format!("{here}insecure = true"), true),
        ("insecure = true".to_owned(), true),
        (format!("{here}{file}"), false),
        (file.clone(), false),
        (format!("{file}insecure = false"), false),
    ] {
        let settings = load(&text, &PartialSettings::default()).unwrap();
        assert_eq!(settings.check_admission(), Ok(()), "{text}");
        assert_eq!(settings.shown().insecure, Some(insecure), "{text}");
        assert!(
            settings
                .to_toml()
                .unwrap()
                .contains(&format!("\ninsecure = {insecure}\n")),
            "{text}"
        );
    }
    let mut said = PartialSettings {
        insecure: Some(true),
        ..PartialSettings::default()
    };
    said.note_words(["--insecure".to_owned()].into_iter());
    for (text, flags, words) in [
        (
            format!("{here}insecure = false"),
            None,
            "relay.toml, line 2: insecure is false and there are no token keys",
        ),
        (
            String::new(),
            None,
            "listen by default: others can reach 0.0.0.0:7777",
        ),
        (
            file.clone(),
            Some(&said),
            "--insecure: insecure is set beside token_keys_file, which relay.toml, line 1 gives: leave out one of them",
        ),
    ] {
        let settings = load(&text, flags.unwrap_or(&PartialSettings::default())).unwrap();
        let error = settings.check_admission().unwrap_err().to_string();
        assert!(error.starts_with(words), "{error}");
    }
    std::fs::write(&keys, "# one\n\nx\n").unwrap();
    let error = load(&file, &PartialSettings::default()).unwrap_err();
    assert!(
        error.starts_with("relay.toml, line 1: token_keys_file: ")
            && error.contains(&format!("{}, line 3 is no key", keys.display())),
        "{error}"
    );
    let secret = "7:".to_owned() + &"ab".repeat(32);
    let error = load(
        &format!("token_keys_file = \"{secret}\"\n"),
        &PartialSettings::default(),
    )
    .unwrap_err();
    assert!(
        error.contains("not the name of a file") && !error.contains("abab"),
        "{error}"
    );
    std::fs::remove_file(keys).unwrap();
}
