//! The relay as a process: SIGHUP reads its configuration again (INTERFACE: it reloads what can be reloaded and says
//! what cannot; THREATS 97: all or nothing).
#![cfg(feature = "node")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A file of this test's own.
fn scratch(ending: &str) -> PathBuf {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    std::env::temp_dir().join(format!("ackline-reload-{}-{test}.{ending}", std::process::id()))
}

struct Relay {
    process: Child,
    said: Receiver<serde_json::Value>,
    file: PathBuf,
}

impl Relay {
    fn start(name: &str, text: &str) -> Relay {
        let file = std::env::temp_dir().join(format!("ackline-{name}-{}.toml", std::process::id()));
        std::fs::write(&file, text).expect("is written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_ackline"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ACKLINE_")) {
            command.env_remove(name);
        }
        let mut process = command
            .args(["relay", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(["--upstream", "127.0.0.1:1", "--log-format", "json", "--config"])
            .arg(&file)
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let lines = BufReader::new(process.stderr.take().expect("piped")).lines();
        let (sender, said) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let line = serde_json::from_str(&line).expect("JSON");
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Relay { process, said, file }
    }

    /// The next line whose message begins so.
    fn next(&self, begin: &str) -> serde_json::Value {
        loop {
            let line = self.said.recv_timeout(Duration::from_secs(20)).expect(begin);
            if line["message"]
                .as_str()
                .is_some_and(|text| text.starts_with(begin))
            {
                return line;
            }
        }
    }

    /// Gives it another configuration; what it says to that.
    fn reload(&self, text: &str) -> String {
        self.reload_line(text)["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The same, the whole line of the log.
    fn reload_line(&self, text: &str) -> serde_json::Value {
        std::fs::write(&self.file, text).expect("is written");
        let told = Command::new("kill")
            .args(["-HUP", &self.process.id().to_string()])
            .status();
        assert!(told.expect("runs").success());
        self.next("SIGHUP")
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.file);
    }
}

fn get(admin: &str, path: &str) -> String {
    let mut socket = TcpStream::connect(admin).expect("connects");
    write!(socket, "GET {path} HTTP/1.0\r\nHost: relay\r\n\r\n").expect("writes");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("reads");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    body.to_owned()
}

fn config(admin: &str) -> serde_json::Value {
    serde_json::from_str(&get(admin, "/config")).expect("JSON")
}

/// Reloads taken and refused, and whether the last was refused, as the metrics tell.
fn counted(admin: &str) -> [u64; 3] {
    let text = get(admin, "/metrics");
    let value = |series: &str| {
        let found = text
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        found.expect(series).parse().expect("a whole number")
    };
    [
        value("ackline_reloads_total{result=\"taken\"}"),
        value("ackline_reloads_total{result=\"refused\"}"),
        value("ackline_reload_refused"),
    ]
}

/// Where a file of secrets has become a pipe that nobody writes to, a reload says so and the relay still ends when it is told to;
/// before that it said that others can read the file.
#[test]
fn a_reload_waits_for_no_pipe() {
    use std::os::unix::fs::PermissionsExt;
    let keys = scratch("keys");
    let key = Command::new(env!("CARGO_BIN_EXE_ackline"))
        .args(["token", "key"])
        .output();
    std::fs::write(&keys, key.expect("runs").stdout).expect("is written");
    std::fs::set_permissions(&keys, PermissionsExt::from_mode(0o644)).expect("a mode");
    let text = format!("shards = 1\ntoken_keys_file = {keys:?}\n");
    let mut relay = Relay::start("pipe", &text);
    relay.next("relay started");
    let said = relay.next("token_keys_file ")["message"].to_string();
    assert!(
        said.contains("may be read by others of this host (mode 0644): chmod 600"),
        "{said}"
    );
    std::fs::remove_file(&keys).expect("is removed");
    let made = Command::new("mkfifo").arg(&keys).status();
    assert!(made.expect("runs").success());
    let said = relay.reload(&text);
    assert!(said.starts_with("SIGHUP: nothing was changed: "), "{said}");
    assert!(
        said.contains("it is a pipe, which is read when a program starts"),
        "{said}"
    );
    let told = Command::new("kill")
        .args(["-TERM", &relay.process.id().to_string()])
        .status();
    assert!(told.expect("runs").success());
    relay.next("relay ended");
    let _ = std::fs::remove_file(&keys);
    assert!(relay.process.wait().expect("ends").success());
}

#[test]
fn threats_97_a_reload_takes_what_it_can_and_names_what_it_cannot() {
    let relay = Relay::start("reload", "shards = 1\ndrain_deadline_s = 7\nlog = \"info\"\n");
    let started = relay.next("relay started");
    let admin = started["admin"].as_str().expect("an address").to_owned();
    assert_eq!(config(&admin)["drain_deadline_s"], 7);

    assert_eq!(counted(&admin), [0, 0, 0]);
    let line = relay.reload_line("shards = 2\nsessions_max = 9\ndrain_deadline_s = 3\nlog = \"warn\"\n");
    assert_eq!(
        line["level"], "INFO",
        "what went well is no warning, and a narrower filter does not hide it"
    );
    let said = line["message"].as_str().expect("a sentence");
    assert_eq!(counted(&admin), [1, 0, 0]);
    assert!(
        said.starts_with("SIGHUP: reloaded drain_deadline_s, log; changed, but in force only after a restart: shards, sessions_max ("),
        "{said}"
    );
    let shown = config(&admin);
    assert_eq!(
        (&shown["drain_deadline_s"], &shown["log"]),
        (&3.into(), &"warn".into())
    );
    assert_eq!(
        (&shown["shards"], &shown["sessions_max"]),
        (&1.into(), &10_000.into())
    );
    assert_eq!(
        shown["admin"].as_str(),
        Some(admin.as_str()),
        "the port that was chosen"
    );

    let said = relay.reload("drain_deadline_s = 4\nlog = \"debug\"\nshards = 0\n");
    assert!(
        said.starts_with("SIGHUP: nothing was changed: ")
            && said.contains("line 3: shards is 0: give 1 to 64"),
        "{said}"
    );
    assert_eq!(config(&admin)["drain_deadline_s"], 3, "all or nothing");
    assert_eq!(counted(&admin), [1, 1, 1]);

    let text = "shards = 1\ndrain_deadline_s = 3\nlog = \"info\"\n";
    let said = relay.reload(text);
    assert!(said.starts_with("SIGHUP: reloaded log ("), "{said}");
    let said = relay.reload(text);
    assert!(said.starts_with("SIGHUP: reloaded nothing: "), "{said}");
    assert_eq!(counted(&admin), [3, 1, 0]);
}

/// FAULTS 108: a reload names the lines of the file that a flag beats, and says again that others can read a file of secrets; a
/// filter that would silence the log changes nothing.
#[test]
fn faults_108_a_reload_says_what_a_flag_beats() {
    use std::os::unix::fs::PermissionsExt;
    let token = scratch("token");
    std::fs::write(&token, "hunter2\n").expect("is written");
    std::fs::set_permissions(&token, PermissionsExt::from_mode(0o600)).expect("a mode");
    let text = format!("shards = 1\nadmin_token_file = {token:?}\n");
    let relay = Relay::start("beaten", &text);
    relay.next("relay started");
    std::fs::set_permissions(&token, PermissionsExt::from_mode(0o644)).expect("a mode");
    let said = relay.reload(&format!(
        "{text}log_format = \"human\"\nupstream = \"127.0.0.1:1\"\n"
    ));
    assert!(said.starts_with("SIGHUP: reloaded nothing"), "{said}");
    let said = relay.next("log_format in ")["message"].to_string();
    assert!(
        said.contains("line 3 is beaten by --log-format"),
        "{said}: and upstream, which agrees with its flag, is not"
    );
    let said = relay.next("admin_token_file ")["message"].to_string();
    assert!(said.contains("(mode 0644): chmod 600"), "{said}");

    let said = relay.reload(&format!("{text}log = \"infoo\"\n"));
    assert!(
        said.starts_with("SIGHUP: nothing was changed: ")
            && said.contains("line 3: log \"infoo\": \"infoo\" is no level: did you mean info?"),
        "{said}"
    );
    std::fs::remove_file(token).expect("is removed");
}

/// A deadline that a reload brings below the spread in force would cut off sessions that were not told yet.
#[test]
fn a_reload_keeps_the_deadline_above_the_spread() {
    let relay = Relay::start("spread", "shards = 1\ndrain_deadline_s = 9\ndrain_spread_s = 5\n");
    relay.next("relay started");
    let said = relay.reload("shards = 1\ndrain_deadline_s = 4\n");
    assert!(
        said.contains("nothing was changed: drain_deadline_s is 4, not above the 5 s of drain_spread_s"),
        "{said}"
    );
    let said = relay.reload("shards = 1\ndrain_deadline_s = 6\ndrain_spread_s = 0\n");
    assert!(
        said.starts_with(
            "SIGHUP: reloaded drain_deadline_s; changed, but in force only after a restart: drain_spread_s ("
        ),
        "{said}"
    );
}

/// Keys that were added are in force after a SIGHUP, which says their numbers; what a relay would not start with changes nothing.
#[test]
fn keys_are_read_again_and_named_by_their_numbers() {
    let keys = std::env::temp_dir().join(format!("ackline-reload-{}.keys", std::process::id()));
    let (one, two) = (
        format!("1:{}\n", "11".repeat(32)),
        format!("2:{}\n", "22".repeat(32)),
    );
    std::fs::write(&keys, &one).expect("is written");
    let text = format!("token_keys_file = {:?}\n", keys.display().to_string());
    let relay = Relay::start("reload-keys", &text);
    let started = relay.next("relay started");
    assert_eq!(relay.next("token keys")["message"], "token keys in force: key 1");
    let admin = started["admin"].as_str().expect("an address").to_owned();
    assert_eq!(config(&admin)["insecure"], false);

    std::fs::write(&keys, format!("{one}{two}")).expect("is written");
    let said = relay.reload(&text);
    assert!(said.starts_with("SIGHUP: reloaded token_keys_file ("), "{said}");
    let line = relay.next("token keys");
    assert_eq!(
        (&line["message"], &line["level"]),
        (&"token keys in force: keys 1, 2".into(), &"INFO".into())
    );

    std::fs::write(&keys, format!("{one}1:{}\n", "00".repeat(32))).expect("is written");
    let said = relay.reload(&text);
    assert!(
        said.starts_with("SIGHUP: nothing was changed: ")
            && said.contains("line 1: token_keys_file: ")
            && said.contains(&format!("{}, line 2 is a key of zeros", keys.display())),
        "{said}"
    );
    std::fs::write(&keys, &two).expect("is written");
    let said = relay.reload(&format!("{text}insecure = true\n"));
    assert!(
        said.contains("nothing was changed: ") && said.contains("line 2: insecure is set beside"),
        "{said}"
    );
    std::fs::remove_file(keys).expect("is removed");
}
