//! `ackline top` and `ackline health` against a relay of this process that has no origin.
#![cfg(feature = "node")]
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

use ackline::node::relay::RelayHandle;
use ackline::node::settings::RelaySettings;

fn ackline(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ackline"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ACKLINE_")) {
        command.env_remove(name);
    }
    command.args(words).output().unwrap()
}

/// Exit code, standard output, standard error.
fn told(words: &[&str]) -> (Option<i32>, String, String) {
    let output = ackline(words);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_running_relay_is_shown_and_asked_for_its_health() {
    let relay = RelayHandle::start(RelaySettings {
        admin_token: "hunter2".into(),
        shards: 2,
        ..RelaySettings::loopback(([127, 0, 0, 1], 1).into())
    })
    .unwrap();
    let admin = format!("localhost:{}", relay.admin_addr().port());
    let file = std::env::temp_dir().join(format!("ackline-top-{}.token", std::process::id()));
    std::fs::write(&file, "hunter2\n").unwrap();
    let top = ["top", "--once", "--interval", "0.2", "--admin", &admin];

    let with_token = [&top[..], &["--admin-token-file", file.to_str().unwrap()]].concat();
    let (code, picture, said) = told(&with_token);
    assert_eq!(code, Some(0), "{said}");
    for words in [
        "ackline top  localhost:",
        "relay     !no keyframe has come from the upstream yet",
        "upstream  !away, no tick yet",
        "process    version ",
        ", up ",
        "clients    0 of 10000, 0.0 opened/s",
        "withheld   - of ticks due: none\n",
        "\n0 ",
        "\n1 ",
        "worst sessions of 0\n",
    ] {
        assert!(picture.contains(words), "{words:?} is not in\n{picture}");
    }
    assert!(!picture.contains('\x1b'), "no terminal, no codes: {picture}");

    let (code, _, said) = told(&top);
    assert_eq!(code, Some(1));
    assert!(
        said.contains("asks for its admin_token: give --admin-token-file"),
        "{said}"
    );
    std::fs::remove_file(&file).unwrap();
    let (code, _, said) = told(&with_token);
    assert_eq!(code, Some(2));
    assert!(
        said.contains("--admin-token-file") && said.lines().count() == 1,
        "{said}"
    );
    let (code, _, said) = told(&["top", "--admin", "8000"]);
    assert_eq!(
        (code, said.as_str()),
        (Some(2), "ackline: --admin 8000: give host:port\n")
    );

    assert_eq!(told(&["health", "--admin", &admin]).0, Some(0), "it lives");
    let (code, _, said) = told(&["health", "--ready", "--admin", &admin]);
    assert_eq!(code, Some(1), "and has no world");
    assert!(
        said.contains("status 503") && said.contains("no keyframe") && said.lines().count() == 1,
        "{said}"
    );
    relay.shutdown();
    let (code, _, said) = told(&["health", "--admin", &admin]);
    assert_eq!(code, Some(1));
    assert!(said.contains("no answer"), "{said}");
}
