//! The whole system over real loopback sockets, small and short: an origin, a relay, verifying clients.
#![cfg(feature = "node")]

use std::net::SocketAddr;
use std::path::PathBuf;

use ackline::bench::run::{Plan, Target, run};
use ackline::impairment::settings::ImpairmentSettings;
use ackline::node::origin::{OriginHandle, OriginSettings, OriginSource};
use ackline::node::relay::RelayHandle;
use ackline::node::secret::SecretText;
use ackline::node::settings::RelaySettings;
use ackline::state::coding::Coding;

fn plan(trace: &str, link: ImpairmentSettings) -> Plan {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(trace);
    Plan {
        command: "test".to_owned(),
        target: Target::Local(
            OriginSource::Trace {
                path,
                repeat: true,
                speed: 1.0,
            },
            Coding::Standard,
        ),
        clients: 8,
        seconds: 2.0,
        ramp_per_s: None,
        churn_per_s: 0.0,
        threads: None,
        down: link,
        up: link,
        seed: 1,
        view: None,
        budget_bytes_per_s: None,
        render_fps: None,
        plot: None,
        attack: None,
        input_hz: 0.0,
        thresholds: vec!["mismatches==0".to_owned(), "records_checked>100".to_owned()],
    }
}

/// SPEC TAB2, CTL3, WIN1: under loss, delay, disorder and copies every record a client decodes is the origin's, every
/// event comes once and in order, and after a second of clean network every table is whole.
#[test]
fn clients_on_bad_links_see_what_the_origin_published() {
    let link = ImpairmentSettings {
        loss: 0.1,
        delay_us: 30_000,
        jitter_us: 20_000,
        reorder: 0.02,
        duplicate: 0.01,
        ..ImpairmentSettings::default()
    };
    let report = run(&plan("qw_4on4_dm2_600.jsonl.zst", link), |_| {}).expect("runs");
    assert!(
        report.verdict.ok,
        "{:?} {:?} {:?}",
        report.verdict, report.truth, report.clients
    );
    assert_eq!((report.clients.connected, report.clients.lost), (8, 0));
    assert!(
        report.truth.tables_checked >= 8 && report.events.delivered > 0,
        "{:?} {:?}",
        report.truth,
        report.events
    );
    assert!(report.impairment.down.lost > 0 && report.impairment.up.lost > 0);
    assert!(
        report.latency_ms.p50.is_some_and(|p50| p50 > 30.0),
        "the delay is in it: {:?}",
        report.latency_ms
    );
    assert!(
        report.relay.packets.is_some() && report.fallbacks.is_some(),
        "{:?}",
        report.relay
    );
    let json = report.to_json().expect("writes");
    assert!(json.contains("\"records_checked\"") && json.ends_with("}\n"));
}

/// Clients come and go; those that stay, and those that come, are right.
#[test]
fn clients_that_come_and_go_disturb_nobody() {
    let mut plan = plan("rl_2016_3v3_800.jsonl.zst", ImpairmentSettings::default());
    plan.churn_per_s = 10.0;
    let report = run(&plan, |_| {}).expect("runs");
    assert!(
        report.verdict.ok,
        "{:?} {:?} {:?}",
        report.verdict, report.truth, report.clients
    );
    assert!(
        report.clients.churned > 0 && report.clients.reconnects == 0,
        "{:?}",
        report.clients
    );
    assert_eq!(report.clients.connected, 8);
}

/// FAULTS 44: an origin that dies and comes back in the middle of a run leaves no record unchecked, whoever meets it
/// first, and no client without the new world.
#[test]
fn faults_44_an_origin_that_comes_back_leaves_nothing_unchecked() {
    let mut plan = plan("rl_2016_3v3_800.jsonl.zst", ImpairmentSettings::default());
    let Target::Local(source, _) = plan.target.clone() else {
        return;
    };
    let begin = |listen: SocketAddr| {
        OriginHandle::start(OriginSettings {
            listen,
            ..OriginSettings::loopback(source.clone())
        })
        .expect("an origin")
    };
    let mut origin = Some(begin(SocketAddr::from(([127, 0, 0, 1], 0))));
    let address = origin.as_ref().expect("runs").addr();
    let relay = RelayHandle::start(RelaySettings::loopback(address)).expect("a relay");
    plan.target = Target::Remote {
        relay: relay.data_addr(),
        minter: None,
        admin: None,
        truth: Some(address.to_string()),
        truth_token: SecretText::default(),
        truth_trust: None,
    };
    (plan.seconds, plan.clients) = (4.0, 20);
    let mut again = None;
    let report = run(&plan, |glance| {
        if glance.seconds > 1.5
            && let Some(origin) = origin.take()
        {
            origin.stop(false);
            again = Some(begin(address));
        }
    })
    .expect("runs");
    assert!(again.is_some(), "it died");
    let (truth, verdict) = (&report.truth, &report.verdict);
    println!("{truth:?}");
    assert_eq!((truth.unchecked, truth.mismatches), (0, 0), "{truth:?}");
    assert!(verdict.ok || verdict.inconclusive, "{verdict:?} {truth:?}");
    relay.shutdown();
}

/// THREATS 1, 90: an attack is done beside clients that notice nothing, and the report says what was promised and seen.
#[test]
fn threats_1_90_bystanders_do_not_notice_an_attack() {
    use ackline::bench::attack::{Kind, pair};
    for kind in [Kind::Flood, Kind::Copies] {
        let plan = Plan {
            clients: 20,
            seconds: 4.0,
            ..plan("qw_4on4_dm2_600.jsonl.zst", ImpairmentSettings::default())
        };
        let report = pair(&plan, kind, |_| {}).expect("runs");
        let attack = &report.attacks[0];
        assert!(attack.kept && attack.attempts > 100, "{attack:?}");
        assert_eq!(
            (attack.bystanders.clients, attack.bystanders.lost),
            (20, 0),
            "{attack:?}"
        );
        assert!(attack.bystanders.latency_ratio.is_some(), "{attack:?}");
    }
}
