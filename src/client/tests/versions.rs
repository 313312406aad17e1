//! Two versions of the protocol, as a client meets them.

use super::relay::{Relay, complete, record};
use crate::client::inbox::Ending;
use crate::client::refusal::Refusal;
use crate::client::session::{Client, Received, SessionState};
use crate::client::settings::ClientSettings;
use crate::limits::DATAGRAM_MAX;
use crate::wire::handshake::*;
use crate::wire::version::{Agreed, PROTOCOL_VERSION, Versions};

const OLD: u16 = PROTOCOL_VERSION - 1;
const NEW: u16 = PROTOCOL_VERSION;

fn speaking(lowest: u16, highest: u16) -> ClientSettings {
    ClientSettings {
        versions: Versions::between(lowest, highest).unwrap(),
        ..ClientSettings::default()
    }
}

/// A client that was challenged by a relay which offers so much; the version of its Response.
fn challenged(settings: ClientSettings, offered: u16) -> (Client, u16) {
    let mut client = Client::new(settings, [1; 16], 0);
    let (mut challenge, mut out) = (Vec::new(), Vec::new());
    put_challenge(&mut challenge, offered, &[1; 16], &[5; COOKIE_BYTES]);
    assert_eq!(client.receive(0, &mut challenge), Received::Challenged);
    assert!(client.poll_transmit(0, &mut out));
    let version = read_response(&out[1..]).unwrap().version;
    (client, version)
}

/// A client chooses the highest that both speak, and its keys are those of what was agreed: where the relay's offer was
/// changed on the way, nothing opens, down to the version that does not hold it.
#[test]
fn threats_20_a_client_chooses_the_highest_that_both_speak() {
    for (settings, offered, chosen) in [
        (speaking(OLD, NEW), NEW, NEW),
        (speaking(OLD, NEW), OLD, OLD),
        (speaking(OLD, OLD), NEW, OLD),
        (speaking(OLD, NEW), NEW + 5, NEW),
        (speaking(NEW, NEW), OLD, NEW),
    ] {
        let (mut client, version) = challenged(settings, offered);
        assert_eq!(version, chosen);
        for other in [OLD, NEW, NEW + 1, NEW + 5] {
            let changed = Agreed {
                version,
                offered: other,
            };
            if other != offered && changed.is_bound() {
                let mut welcome = Relay::speaking(changed, [1; 16], [2; 16], 77).welcome();
                assert_eq!(
                    client.receive(1, &mut welcome),
                    Received::Refused(Refusal::Forged)
                );
            }
        }
        let mut relay = Relay::speaking(Agreed { version, offered }, [1; 16], [2; 16], 77);
        assert_eq!(client.receive(1, &mut relay.welcome()), Received::Welcomed);
        assert!(relay.hear_all(1, &mut client) > 0);
    }
}

/// A client that a relay cannot speak to is told so, and ends.
#[test]
fn a_client_of_no_spoken_version_ends() {
    let (mut client, _) = challenged(speaking(NEW, NEW), OLD);
    let mut denied = Vec::new();
    put_denied(&mut denied, OLD, &[1; 16], Denial::Version);
    client.receive(1, &mut denied);
    assert!(client.next_timer() <= 500_001 && !client.poll_transmit(500_001, &mut Vec::new()));
    assert_eq!(
        client.state(),
        SessionState::Closed(Ending::Denied(Denial::Version))
    );
}

/// THREATS 89: a client that misses a snapshot pads its next datagrams, before the next one is due and for a second; one of the
/// version before does not.
#[test]
fn threats_89_a_client_that_misses_its_snapshots_pads() {
    for (version, padded) in [(OLD, 0..1), (NEW, 8..12)] {
        let agreed = Agreed {
            version,
            offered: NEW,
        };
        let (mut client, _) = challenged(speaking(OLD, version), NEW);
        let mut relay = Relay::speaking(agreed, [1; 16], [2; 16], 77);
        assert_eq!(client.receive(0, &mut relay.welcome()), Received::Welcomed);
        let (mut now, mut out, mut sizes) = (0, Vec::new(), Vec::new());
        for id in 1..40 {
            let entries = vec![complete(1, record(1, id, 0))];
            let mut snapshot = relay.send(id, None, now, entries);
            client.receive(now, &mut snapshot);
            for _ in 0..50 {
                relay.hear_all(now, &mut client);
                now += 1_000;
            }
        }
        assert_eq!(relay.padded, 0, "nothing is missed");
        let silent_since = now - 50_000;
        let mut first = None;
        while now < silent_since + 5_000_000 {
            if client.poll_transmit(now, &mut out) {
                sizes.push(out.len());
                if out.len() == DATAGRAM_MAX {
                    first.get_or_insert(now - silent_since);
                }
                assert!(out.len() <= DATAGRAM_MAX);
                relay.hear(&out);
            }
            now += 500;
        }
        assert!(
            padded.contains(&relay.padded),
            "{} of version {version}",
            relay.padded
        );
        assert_eq!(
            sizes.iter().filter(|size| **size == DATAGRAM_MAX).count(),
            relay.padded
        );
        assert!(first.is_none_or(|us| us < 56_000), "{first:?}");
    }
}
