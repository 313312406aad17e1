//! How a bench judges itself.

use super::*;

/// FAULTS 96: who was short of a core is said of the right one: the bench where its thread used all of one, the
/// host where a thread with little to do was woken late.
#[test]
fn faults_96_a_busy_host_is_not_called_a_busy_bench() {
    let judged = |cpu_share: f64, late_ms: f64| {
        let mut report = Report::default();
        report.bench.cpu_share = cpu_share;
        report.bench.late_ms.p99 = Some(late_ms);
        judge_bench(&mut report);
        report.bench
    };
    let calm = judged(0.5, 2.0);
    assert!(
        !calm.saturated && !calm.host_busy && calm.notes.is_empty(),
        "{calm:?}"
    );
    let bench = judged(0.97, 30.0);
    assert!(bench.saturated && !bench.host_busy, "{bench:?}");
    assert!(
        bench.notes[0].starts_with("the bench itself was the bottleneck"),
        "{bench:?}"
    );
    assert!(judged(0.7, 30.0).saturated, "late, and with much to do");
    let host = judged(0.3, 30.0);
    assert!(
        !host.saturated && host.host_busy && host.notes.len() == 1,
        "{host:?}"
    );
    assert!(
        host.notes[0].starts_with("the host was too busy") && host.notes[0].contains("only 30% of a core"),
        "{host:?}"
    );
}

/// Who brings no token to a relay that asks for one is told so at once, and which flag brings them; nobody waits for the end of
/// a run that cannot be.
#[test]
fn a_relay_that_asks_for_tokens_ends_a_bench_without_keys_at_once() {
    use crate::node::relay::RelayHandle;
    use crate::node::settings::RelaySettings;
    use crate::token::{TokenKey, TokenKeys};
    let nobody = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    let relay = RelayHandle::start(RelaySettings {
        token_keys: TokenKeys::new(vec![TokenKey::new(1, [7; 32])]).ok(),
        shards: 1,
        ..RelaySettings::loopback(nobody)
    })
    .expect("starts");
    let plan = Plan {
        command: String::new(),
        target: Target::Remote {
            relay: relay.data_addr(),
            minter: None,
            admin: None,
            truth: None,
            truth_token: SecretText::default(),
            truth_trust: None,
        },
        clients: 2,
        seconds: 60.0,
        ramp_per_s: None,
        churn_per_s: 0.0,
        threads: Some(1),
        down: ImpairmentSettings::default(),
        up: ImpairmentSettings::default(),
        seed: 1,
        view: None,
        budget_bytes_per_s: None,
        input_hz: 0.0,
        render_fps: None,
        attack: None,
        plot: None,
        thresholds: Vec::new(),
    };
    let begun = std::time::Instant::now();
    let error = run(&plan, |_| {}).expect_err("nobody is let in");
    assert!(
        error.is::<FlagError>() && error.to_string().contains("give --token-keys-file"),
        "{error}"
    );
    assert!(begun.elapsed() < Duration::from_secs(20), "at once");
}
