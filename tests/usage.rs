//! The program with wrong flags, files and variables: exit code 2, one plain sentence on stderr that names what,
//! the bound and the way out, and nothing done.
#![cfg(all(feature = "node", feature = "scenes"))]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A small demo whose report goes to standard output.
const REPORTED: [&str; 11] = [
    "demo",
    "--clients",
    "2",
    "--entities",
    "20",
    "--seconds",
    "0.6",
    "--loss",
    "0",
    "--report",
    "-",
];

fn ackline(line: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ackline"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ACKLINE_")) {
        command.env_remove(name);
    }
    command
        .args(line)
        .envs(variables.iter().copied())
        .output()
        .expect("runs")
}

/// Exit code and stderr.
fn told(line: &[&str]) -> (Option<i32>, String) {
    let output = ackline(line, &[]);
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// A refusal: code 2 and one line that holds `words`, each once.
#[track_caller]
fn refused(line: &[&str], words: &[&str]) {
    let (code, text) = told(line);
    assert_eq!(code, Some(2), "{line:?}: {text}");
    assert_eq!(text.lines().count(), 1, "{line:?}: {text}");
    for word in words {
        assert_eq!(
            text.matches(word).count(),
            1,
            "{line:?} should say {word:?} once: {text}"
        );
    }
}

/// A file of this test's own.
fn scratch(name: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("ackline-usage-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).expect("is written");
    path
}

#[test]
fn a_scene_that_cannot_be_is_refused_once_and_as_usage() {
    for command in ["demo", "bench", "origin"] {
        refused(
            &[command, "--hz", "0"],
            &["--hz: ", "scene cubes at 0 Hz", "choose 1 to 128"],
        );
        refused(
            &[command, "--hz", "nan"],
            &["scene cubes at NaN Hz", "choose 1 to 128"],
        );
        refused(
            &[command, "--entities", "0"],
            &["--entities: ", "with 0 entities", "choose "],
        );
        refused(
            &[command, "--entities", "999999999"],
            &["with 999999999 entities", "choose "],
        );
        refused(
            &[command, "--scene", "moon"],
            &["no scene \"moon\"", "cubes, arena, crowd"],
        );
        refused(&[command, "--loop"], &["--loop: a scene has no end"]);
        refused(
            &[command, "--loop", "--scene", "cubes"],
            &["--loop: a scene has no end"],
        );
        refused(
            &[command, "--tables", "/nowhere/tables"],
            &["--tables /nowhere/tables: it cannot be read"],
        );
        refused(
            &[
                command,
                "--tables",
                concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
            ],
            &[
                "--tables ",
                "it holds more than digits",
                "a file made by ackline trace tune",
            ],
        );
        refused(
            &[command, "--speed", "2"],
            &["--speed: a scene runs in real time"],
        );
        refused(
            &[command, "--entities", "-1"],
            &["--entities -1: give a whole number"],
        );
        refused(
            &[command, "--seed", "-1"],
            &["--seed -1: give a whole number from 0 to "],
        );
    }
}

#[test]
fn a_recording_that_is_none_is_refused_in_plain_words() {
    let plain = scratch("plain.jsonl", b"{\"name\":\"x\"}\n");
    let other = scratch("other", b"#!/bin/sh\n");
    let header = r#"{"name":"x","format":"gst-trace 1","family":"f","licence":"l","tick_hz":20.0,"bounds":{"min":[0,0,0],"max":[1,1,1]},"unit":"m","fields":["px","py","pz","qx","qy","qz","qw"]}"#;
    let record = r#"{"t":0,"time":0,"spawn":[{"id":1,"gen":0,"kind":"car"}],"despawn":[],"obs":[[1,0,0,NaN,0,0,0,0,0,1]],"event":[]}"#;
    let pack = |text: String| zstd_of(text.as_bytes());
    let alone = scratch("alone.zst", &pack(format!("{header}\n")));
    let not_a_number = scratch("nan.zst", &pack(format!("{header}\n{record}\n")));
    let directory = env!("CARGO_MANIFEST_DIR").to_owned();
    let name = |path: &PathBuf| path.display().to_string();
    for (file, words) in [
        (name(&plain), "is no zstd file: it begins as plain JSON"),
        (name(&other), "is no zstd file: give a recording"),
        (directory, "is a directory: give a recording"),
        (name(&alone), "there is a header but no record"),
        (name(&not_a_number), "line 2: NaN near byte "),
    ] {
        refused(&["trace", "info", &file], &[words, &file]);
        refused(&["demo", "--trace", &file], &["--trace ", words, &file]);
        refused(&["origin", "--trace", &file], &["--trace ", words]);
    }
    for path in [plain, other, alone, not_a_number] {
        let _ = std::fs::remove_file(path);
    }
}

/// A zstd frame of one raw block: what a compressor would write of what cannot be compressed.
fn zstd_of(text: &[u8]) -> Vec<u8> {
    let mut out = vec![0x28, 0xB5, 0x2F, 0xFD, 0xA0];
    let length = u32::try_from(text.len()).expect("short");
    out.extend_from_slice(&length.to_le_bytes());
    // The last block, raw, of this length.
    let block = (length << 3 | 1).to_le_bytes();
    out.extend_from_slice(&block[..3]);
    out.extend_from_slice(text);
    out
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_the_run() {
    for path in ["/no-such-directory/report.json", env!("CARGO_MANIFEST_DIR")] {
        refused(
            &["demo", "--report", path],
            &["--report ", path, "cannot be written"],
        );
        refused(
            &["bench", "--relay", "127.0.0.1:9", "--report", path],
            &["--report ", "cannot be written"],
        );
    }
}

/// A truth that is nowhere is named; a typo in a figure's name suggests a few, not a hundred.
#[test]
fn wrong_words_of_a_bench_are_answered_with_the_way_out() {
    refused(
        &["bench", "--threshold", "latency_p98<20ms"],
        &[
            "no figure 'latency_p98', did you mean one of latency_p99, latency_p50, ",
            "ackline bench --help lists",
        ],
    );
    refused(
        &["bench", "--relay", "127.0.0.1:9", "--hz", "20"],
        &["leave out the flags of the origin"],
    );
    let (code, text) = told(&["bench", "--relay", "127.0.0.1:9", "--truth", "nowhere"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("--truth nowhere is no file, and no address"),
        "{text}"
    );
}

/// Where nobody answers, the bench says so before the run's end and in its verdict, and that nothing is verified.
/// A demo has no relay but its own; a bench of another's does not set that one's budget.
#[test]
fn a_demo_knows_no_other_relay_and_a_bench_sets_no_budget_of_one() {
    let help = ackline(&["demo", "--help"], &[]);
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(
        text.contains("--view <KIND>") && text.contains("--budget-bytes-per-s"),
        "{text}"
    );
    assert!(!text.contains("--relay"), "{text}");
    refused(
        &["bench", "--relay", "127.0.0.1:9", "--budget-bytes-per-s", "8000"],
        &[
            "--budget-bytes-per-s is of a relay of this process",
            "leave out either",
        ],
    );
    refused(
        &[
            "relay",
            "--print-config",
            "--tier-dense",
            "10",
            "--tier-crowded",
            "5",
        ],
        &[
            "--tier-crowded",
            "tier_crowded is 5, below tier_dense 10: give 10 to 1000000",
        ],
    );
}

#[test]
fn a_bench_of_nobody_says_that_nothing_answers() {
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let nobody = nobody.expect("a port").to_string();
    let output = ackline(
        &["bench", "--relay", &nobody, "--clients", "2", "--seconds", "0.5"],
        &[],
    );
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert!(err.starts_with("no --truth: "), "{err}");
    assert!(err.contains("nothing has reached a client yet"), "{err}");
    assert!(
        out.contains(&format!(
            "clients.lost is 2, must be 0: nothing answers at {nobody}"
        )),
        "{out}"
    );
    assert!(
        out.contains("records checked    not checked") && !out.contains("reconnects"),
        "{out}"
    );
}

/// A run against a relay that is not there ends long before its time.
#[test]
fn a_bench_of_nobody_does_not_run_on() {
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let nobody = nobody.expect("a port").to_string();
    let begun = std::time::Instant::now();
    let line = ["bench", "--relay", &nobody, "--clients", "2", "--seconds", "600"];
    let output = ackline(&line, &[]);
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(120),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert!(
        out.contains(&format!(
            "note: ended before its time: {nobody} answered nobody for 5 s"
        )) && out.contains(&format!(
            "clients.lost is 2, must be 0: nothing answers at {nobody}"
        )),
        "{out}"
    );
}

/// A report that is named twice, or is there under two names, would count twice.
#[test]
fn a_report_is_merged_once() {
    let run = ackline(&REPORTED, &[]);
    let (one, copy) = (
        scratch("one.json", &run.stdout),
        scratch("copy.json", &run.stdout),
    );
    let (one_name, copy_name) = (one.to_str().unwrap(), copy.to_str().unwrap());
    let alone = ackline(&["bench", "merge", one_name], &[]);
    let sum: serde_json::Value =
        serde_json::from_slice(&alone.stdout).expect("JSON, as no terminal reads it");
    assert_eq!(sum["clients"]["requested"], 2);
    refused(
        &["bench", "merge", one_name, one_name],
        &["is named twice: each report counts once"],
    );
    refused(
        &["bench", "merge", one_name, copy_name],
        &["copy.json is the same report as"],
    );
    for file in [one, copy] {
        std::fs::remove_file(file).unwrap();
    }
}

/// Where the log is JSON the last words are a line of it, whatever ends the relay.
#[test]
fn the_last_words_of_a_relay_are_in_the_form_of_its_log() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    let admin = taken.local_addr().expect("has one").to_string();
    let line = ["relay", "--listen", "127.0.0.1:0", "--admin", &admin];
    for (more, code, words) in [
        (&["--log-format", "json"][..], 1, "the admin address"),
        (
            &["--log-format", "json", "--shards", "1", "--drain-spread-s", "10"],
            2,
            "drain_spread_s is 10",
        ),
        (&["--log-format", "json", "--log", "off"], 1, "the admin address"),
        (
            &["--log-format", "json", "--insecure=false"],
            2,
            "insecure is false",
        ),
    ] {
        let output = ackline(&[&line[..], more].concat(), &[]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{text}");
        let last = text.lines().last().unwrap_or_default();
        let last: serde_json::Value = serde_json::from_str(last).expect(last);
        assert_eq!(last["level"], "ERROR", "{text}");
        assert!(
            last["message"].as_str().is_some_and(|said| said.contains(words)),
            "{text}"
        );
    }
    let output = ackline(&line, &[]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = text.lines().last().unwrap_or_default();
    assert!(last.starts_with("ackline: the admin address"), "{text}");
}

/// Links that lose everything show nothing, and a run that shows nothing is not ok; a flag that says
/// nothing of the links leaves the demo's own loss.
#[test]
fn a_demo_keeps_its_loss_and_a_demo_without_links_fails() {
    let small = ["demo", "--clients", "2", "--entities", "20", "--seconds", "0.6"];
    let output = ackline(&small, &[]);
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(out.contains("links              loss 5%"), "{out}");
    let output = ackline(&[&small[..], &["--loss", "100%"]].concat(), &[]);
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert!(
        out.contains("links              loss 100%") && out.contains("failed: packets.received_in_run is 0"),
        "{out}"
    );
}

#[test]
fn a_configuration_that_cannot_be_is_refused() {
    let file = scratch("relay.toml", b"shards = \"two\"\n");
    let name = file.display().to_string();
    refused(
        &["check", "--config", &name],
        &["line 1: shards: invalid type", "give a whole number from 1 to 64"],
    );
    std::fs::write(&file, "sharts = 2\n").expect("is written");
    refused(
        &["check", "--config", &name],
        &["no key sharts: did you mean shards?"],
    );
    refused(
        &["check", "--config", "/dev/zero"],
        &["it is a device or a socket and no file"],
    );
    let _ = std::fs::remove_file(file);
}

/// FAULTS 108: what a variable gives is named by its name; a variable that gives nothing is said.
#[test]
fn faults_108_variables_are_named() {
    let output = ackline(&["relay", "--print-config"], &[("ACKLINE_SHARDS", "-1")]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("ACKLINE_SHARDS -1: give a whole number from 1 to 64"),
        "{text}"
    );

    for (name, value, words) in [
        (
            "ACKLINE_INSECURE",
            "yes",
            "ACKLINE_INSECURE yes: give true or false",
        ),
        ("ACKLINE_INSECURE", "1", "ACKLINE_INSECURE 1: give true or false"),
        (
            "ACKLINE_INSECURE",
            "TRUE",
            "ACKLINE_INSECURE TRUE: give true or false",
        ),
        ("ACKLINE_INSECURE", "", "ACKLINE_INSECURE '': give "),
        (
            "ACKLINE_LIMIT_LOOPBACK",
            "on",
            "ACKLINE_LIMIT_LOOPBACK on: give true or false",
        ),
        (
            "ACKLINE_LOG_FORMAT",
            "xml",
            "ACKLINE_LOG_FORMAT xml: give human or json",
        ),
        (
            "ACKLINE_CONFIG",
            "",
            "ACKLINE_CONFIG '': give a value, or leave the variable out",
        ),
        ("ACKLINE_SHARDS", "", "ACKLINE_SHARDS '': give a whole number"),
        (
            "ACKLINE_LOG",
            "infoo",
            "ACKLINE_LOG: log \"infoo\": \"infoo\" is no level: did you mean info?",
        ),
    ] {
        let output = ackline(&["relay", "--print-config"], &[(name, value)]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{name}={value}: {text}");
        assert!(
            text.starts_with(&format!("ackline: {words}")) && text.lines().count() == 1,
            "{name}={value}: {text}"
        );
    }

    let file = scratch("open.toml", b"insecure = true\n");
    let output = ackline(
        &["check", "--config", &file.display().to_string()],
        &[("ACKLINE_SHARTS", "3")],
    );
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.contains("ACKLINE_SHARTS is not known and changes nothing: did you mean ACKLINE_SHARDS?"),
        "{text}"
    );

    // What a relay with keys is printed as is a configuration for another host with keys.
    let output = ackline(&["relay", "--print-config"], &[]);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let keys = scratch("printed.keys", format!("7:{}\n", "ab".repeat(32)).as_bytes());
    std::fs::set_permissions(&keys, PermissionsExt::from_mode(0o644)).expect("a mode");
    std::fs::write(&file, &printed).expect("is written");
    let output = ackline(
        &["check", "--config", &file.display().to_string()],
        &[("ACKLINE_TOKEN_KEYS_FILE", &keys.display().to_string())],
    );
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{printed}{text}");
    assert!(
        text.contains("may be read by others of this host (mode 0644)"),
        "a check warns of what a relay warns of: {text}"
    );
    let is_it = |line: &str| line.starts_with("token_keys_file = ");
    let line = printed.lines().position(is_it).expect("every key is printed") + 1;
    assert!(
        text.contains(&format!(
            "token_keys_file in {}, line {line} is beaten by ACKLINE_TOKEN_KEYS_FILE",
            file.display()
        )),
        "and of what a variable beats: {text}"
    );
    let _ = std::fs::remove_file(keys);
    let output = ackline(
        &["check", "--config", &file.display().to_string()],
        &[("ACKLINE_INSECURE", "true")],
    );
    assert_eq!(output.status.code(), Some(0), "and for one without");

    // What is printed with a secret is a configuration that loads.
    let output = ackline(
        &["relay", "--print-config"],
        &[
            ("ACKLINE_UPSTREAM_TOKEN", "hunter2"),
            ("ACKLINE_INSECURE", "true"),
        ],
    );
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        !printed.contains("hunter2") && printed.contains("# upstream_token is set"),
        "{printed}"
    );
    std::fs::write(&file, &printed).expect("is written");
    let (code, text) = told(&["check", "--config", &file.display().to_string()]);
    assert_eq!(code, Some(0), "{text}");
    let _ = std::fs::remove_file(file);
}

/// `-` is standard output: the report is there alone, the summary beside it, and no file has that name.
#[test]
fn a_report_can_go_to_standard_output() {
    let output = ackline(&REPORTED, &[]);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert_eq!(report["clients"]["requested"], 2);
    assert!(report["verdict"]["inconclusive"].is_boolean());
    assert!(
        err.contains("records checked") && err.contains("missing at end"),
        "{err}"
    );
    assert!(!std::path::Path::new("-").exists());
}

/// A flag that another one would leave without effect is refused before any run.
#[cfg(feature = "sim")]
#[test]
fn a_simulation_refuses_a_flag_without_effect() {
    refused(
        &["sim", "--seeds", "1", "--calm", "--epoch-every", "20"],
        &["--epoch-every 20: ", "--calm", "give one of the two"],
    );
    refused(
        &["sim", "--seeds", "1", "--epoch-every", "300"],
        &["--epoch-every 300: ", "give --seconds 301 or more"],
    );
    refused(
        &["sim", "--seeds", "1", "--seconds", "5", "--flips", "20"],
        &["--flips 20: ", "give --seconds 11 or more"],
    );
}

/// A simulation says how it ended; a reader that goes away does not turn its exit code.
#[cfg(feature = "sim")]
#[test]
fn a_simulation_ends_with_a_verdict_also_where_nobody_reads_it() {
    let line = [
        "sim",
        "--seed",
        "1",
        "--seeds",
        "2",
        "--clients",
        "1",
        "--entities",
        "5",
        "--seconds",
        "5",
    ];
    let output = ackline(&line, &[]);
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{out}");
    let last = out.lines().last().unwrap_or_default();
    assert!(last.starts_with("ok: every client"), "{out}");
    let mut child = Command::new(env!("CARGO_BIN_EXE_ackline"))
        .args(line)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ends");
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(0), &b""[..])
    );
}

/// Every key of a relay is printed, also the one that is a secret.
#[test]
fn the_printed_configuration_has_every_key() {
    let output = ackline(&["relay", "--print-config"], &[]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("# upstream_token = \"\"\n") && text.contains("listen = "),
        "{text}"
    );
}

/// Keys and tokens: what is printed is what a relay reads; a relay that others can reach begins with keys or not at all.
#[test]
fn keys_are_made_tokens_minted_and_an_open_relay_needs_either() {
    let made = ackline(&["token", "key", "--id", "7"], &[]);
    let line = String::from_utf8(made.stdout).unwrap();
    assert!(made.status.success() && line.starts_with("7:") && line.trim().len() == 2 + 64);
    let file = scratch("token.keys", line.as_bytes());
    let name = file.to_str().unwrap();
    let mint = [
        "token",
        "mint",
        "--token-keys-file",
        name,
        "--relay",
        "203.0.113.7:7777",
    ];
    let minted = ackline(&mint, &[]);
    let text = String::from_utf8(minted.stdout).unwrap();
    let token = ackline::token::ConnectToken::from_text(&text).expect("a token");
    assert_eq!(token.relays, ["203.0.113.7:7777".parse().unwrap()]);
    let keys = ackline::token::TokenKeys::parse(&line).unwrap();
    assert!(ackline::token::open(&keys, token.expires_s - 1, &token.sealed).is_ok());
    refused(&[&mint[..], &["--life-s", "301"]].concat(), &["301", "300"]);
    refused(
        &[&mint[..4], &["--relay", "0.0.0.0:7777"]].concat(),
        &["0.0.0.0:7777: nobody can send to it"],
    );
    refused(
        &[&mint[..], &["--budget-bytes-per-s", "3999"]].concat(),
        &["--budget-bytes-per-s 3999: give a whole number from 4000 to"],
    );
    let shown = ackline(&["token", "show", text.trim(), "--token-keys-file", name], &[]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.contains("key       7\n") && shown.contains("\ngood  "),
        "{shown}"
    );
    let other = scratch("other.keys", format!("7:{}\n", "ab".repeat(32)).as_bytes());
    let other_name = other.to_str().unwrap();
    let shown = ackline(
        &["token", "show", text.trim(), "--token-keys-file", other_name],
        &[],
    );
    let said = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.status.code() == Some(1) && said.contains("\nrefused   forged"),
        "{said}"
    );
    std::fs::remove_file(other).unwrap();
    refused(&["token", "show", "xyz"], &["this is no connect token"]);
    let next = ackline(&["token", "key", "--next-after", name], &[]);
    assert!(next.stdout.starts_with(b"8:"), "the number after the highest");

    refused(
        &["relay", "--listen", "0.0.0.0:0"],
        &["no token keys", "token_keys_file", "insecure"],
    );
    refused(
        &[
            "relay",
            "--listen",
            "0.0.0.0:0",
            "--token-keys-file",
            name,
            "--insecure",
        ],
        &[
            "--insecure: insecure is set beside",
            "which --token-keys-file gives",
            "leave out one of them",
        ],
    );
    // A check looks at what the relay would look at.
    let check = ackline(
        &["check"],
        &[("ACKLINE_TOKEN_KEYS_FILE", name), ("ACKLINE_INSECURE", "true")],
    );
    let said = String::from_utf8_lossy(&check.stderr).into_owned();
    assert_eq!(check.status.code(), Some(2), "{said}");
    assert!(
        said.contains(
            "ACKLINE_INSECURE: insecure is set beside token_keys_file, which ACKLINE_TOKEN_KEYS_FILE gives"
        ),
        "{said}"
    );
    let check = ackline(&["check"], &[("ACKLINE_TOKEN_KEYS_FILE", name)]);
    let said = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(
        check.status.success() && said.contains("tokens of key 7"),
        "{said}"
    );
    refused(
        &["relay", "--listen", "127.0.0.1:0", "--insecure=false"],
        &["--insecure: insecure is false and there are no token keys"],
    );
    refused(
        &["relay", "--token-keys-file", "/nowhere/token.keys"],
        &["cannot be read"],
    );
    let secret = line.trim().split_once(':').unwrap().1;
    let broken = scratch("broken.keys", format!("7;{secret}").as_bytes());
    let (code, said) = told(&["relay", "--token-keys-file", broken.to_str().unwrap()]);
    assert!(
        code == Some(2) && said.contains("line 1 is no key") && !said.contains(secret),
        "{said}"
    );
    for command in ["relay", "check"] {
        let (code, said) = told(&[command, "--token-keys-file", line.trim()]);
        assert!(
            code == Some(2) && said.contains("not the name of a file") && !said.contains(secret),
            "{said}"
        );
    }
    let (code, said) = told(&[
        "token",
        "mint",
        "--relay",
        "203.0.113.7:7777",
        "--token-keys-file",
        line.trim(),
    ]);
    assert!(code == Some(2) && !said.contains(secret), "{said}");
    let shown = ackline(&["relay", "--print-config", "--token-keys-file", name], &[]);
    assert!(
        !String::from_utf8_lossy(&shown.stdout).contains(secret),
        "secrets are not shown"
    );
    for file in [file, broken] {
        std::fs::remove_file(file).unwrap();
    }
}
