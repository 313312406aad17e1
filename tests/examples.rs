//! The examples of a game server and of its player: one joins the other through a relay, and each says what is wrong with its
//! arguments.
#![cfg(feature = "node")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod rig;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use rig::process::{free_tcp, free_udp, relay};

/// An example as cargo built it beside the tests.
fn example(name: &str) -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_ackline")).with_file_name("examples");
    let path = beside.join(name);
    // A whole `cargo test` builds them; one of this file alone does not.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("examples/{name}.rs"));
    let written = |path: &Path| path.metadata().and_then(|known| known.modified()).ok();
    let is_new = written(&path) >= written(&source);
    assert!(
        is_new,
        "{} is not there, or old: cargo build --examples",
        path.display()
    );
    path
}

struct Running(Child);

impl Running {
    fn start(name: &str, arguments: &[&str]) -> (Running, BufReader<ChildStdout>) {
        let mut child = Command::new(example(name))
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        (Running(child), said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// SPEC PRE1, PRE2: the player runs by its own inputs, sees the drone, and the server moves it by the same rules: hardly a state
/// moves its picture.
#[test]
fn pre2_the_example_player_joins_the_example_origin() {
    let (upstream, listen) = (free_tcp(), free_udp());
    let (_origin, _) = Running::start("origin", &[&upstream]);
    let _relay = relay(&upstream, &listen);
    let (_player, said) = Running::start("player", &[&listen]);
    let (mut fired, mut seen) = (false, Vec::new());
    for line in said.lines().map_while(Result::ok) {
        fired |= line.starts_with("fires at 0#0: Some(Quote");
        // "at 3.99 2.54 m, 2 inputs on their way, 0 of 37 states moved it"
        let words: Vec<&str> = line.split(' ').collect();
        if let [
            "at",
            _,
            _,
            "m,",
            waiting,
            ..,
            moved,
            "of",
            states,
            "states",
            "moved",
            "it",
        ] = words[..]
        {
            seen.push([waiting, moved, states].map(|number| number.parse::<u64>().unwrap()));
            if seen.len() == 5 {
                break;
            }
        }
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
    let [waiting, moved, states] = seen[4];
    assert!(
        fired && states >= 60 && moved * 5 <= states && waiting < 15,
        "{seen:?}"
    );
}

/// What is wrong, where, and the way out, in one line.
#[test]
fn arguments_that_are_wrong_are_told_with_the_way_out() {
    let file = std::env::temp_dir().join(format!("ackline-examples-{}-token", std::process::id()));
    std::fs::write(&file, "no token").unwrap();
    let file = file.to_str().unwrap();
    for (name, arguments, words) in [
        (
            "minimal",
            &["nowhere"][..],
            &["relay nowhere: ", "give HOST:PORT"][..],
        ),
        ("player", &["nowhere"], &["relay nowhere: ", "give HOST:PORT"]),
        ("watch", &["nowhere"], &["relay nowhere: ", "give HOST:PORT"]),
        ("watch", &[], &["no relay: ", "give the HOST:PORT"]),
        ("watch", &["--seconds", "ten"], &["--seconds ten: ", "as 10"]),
        (
            "watch",
            &["--token", "/nowhere/t"],
            &["token file /nowhere/t: No such", "`ackline token mint`"],
        ),
        (
            "minimal",
            &["127.0.0.1:9", file],
            &["token file ", "`ackline token mint`"],
        ),
        (
            "player",
            &["127.0.0.1:9", file],
            &["token file ", "`ackline token mint`"],
        ),
        (
            "origin",
            &["192.0.2.1:7700"],
            &["cannot listen at 192.0.2.1:7700: ", "of this host that is free"],
        ),
    ] {
        let output = Command::new(example(name)).args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), text.lines().count()),
            (Some(1), 1),
            "{name}: {text}"
        );
        for word in words {
            assert!(
                text.contains(word),
                "{name} {arguments:?} should say {word:?}: {text}"
            );
        }
    }
    std::fs::remove_file(file).unwrap();
}
