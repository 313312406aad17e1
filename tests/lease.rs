//! The lease of a baseline: both ends know the same, and nothing is named past it (SPEC WIN9).

#![cfg(all(feature = "relay", feature = "client"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod pair_harness;

use std::collections::BTreeMap;

use ackline::client::session::{Client, Received};
use ackline::client::settings::ClientSettings;
use ackline::limits::LEASE_US;
use ackline::wire::bytes::ByteWriter;
use ackline::wire::handshake::{WelcomeHeader, put_challenge, put_welcome_header};
use ackline::wire::payload::{self, Welcome};
use ackline::wire::report::Report;
use ackline::wire::seal::{Direction, INSECURE_TOKEN_KEY, Secrets};
use ackline::wire::version::{Agreed, PROTOCOL_VERSION};
use pair_harness::liar::Liar;
use pair_harness::lies::never_acknowledges;
use pair_harness::stage::{Guest, Stage};
use pair_harness::{PERIOD_US, moved, schema};

/// SPEC WIN9: the lease in the Welcome is the relay's own, and the client has it.
#[test]
fn win9_both_ends_have_the_same_lease() {
    let mut stage = Stage::new(10);
    stage
        .guests
        .push(Guest::new(ClientSettings::default(), 4_000, stage.now_us));
    stage.run(10, |tick| moved(tick, 0..10, 1));
    let liar = Liar::join(&mut stage, 5_000, never_acknowledges);
    assert_eq!(u64::from(liar.lease_us), LEASE_US);
    assert_eq!(stage.guests[0].client.lease_us(), LEASE_US);
}

/// SPEC WIN9: the client's lease is what the relay names, not a number of its own.
#[test]
fn win9_a_client_takes_the_lease_that_the_relay_names() {
    for lease_us in [1_234_567, 4_000_000] {
        let nonce = [9; 16];
        let mut client = Client::new(ClientSettings::default(), nonce, 0);
        let mut bytes = Vec::new();
        assert!(client.poll_transmit(0, &mut bytes), "a Request");
        bytes.clear();
        put_challenge(&mut bytes, PROTOCOL_VERSION, &nonce, &Default::default());
        assert_eq!(client.receive(0, &mut bytes), Received::Challenged);
        let header = WelcomeHeader {
            connection: 5,
            client_nonce: nonce,
            relay_nonce: [3; 16],
            number: 0,
        };
        let secrets = Secrets {
            token_key: INSECURE_TOKEN_KEY,
            client_nonce: nonce,
            relay_nonce: header.relay_nonce,
            connection: header.connection,
            agreed: Agreed::NEWEST,
        };
        let mut sealer = secrets.sealer(Direction::Down).unwrap();
        let number = sealer.reserve().unwrap();
        bytes.clear();
        put_welcome_header(
            &mut bytes,
            &WelcomeHeader {
                number: u32::try_from(number).unwrap(),
                ..header
            },
        );
        let mut body = vec![payload::WELCOME, 0, 0];
        let schema = ackline::delta::schema::encode(&schema()).unwrap();
        let welcome = Welcome {
            stream_epoch: 1,
            lease_us,
            idle_us: 30_000_000,
            schema: &schema,
        };
        welcome.encode(&mut body);
        let tag = sealer.seal(number, &bytes, &mut body).unwrap();
        bytes.put(&body);
        bytes.put(&tag);
        assert_eq!(client.receive(0, &mut bytes), Received::Welcomed);
        assert_eq!(client.lease_us(), u64::from(lease_us));
    }
}

/// SPEC WIN9: a client that goes on reporting one old baseline is given deltas on it for the lease that its Welcome
/// named and no longer; then full state.
#[test]
fn win9_past_the_lease_nothing_is_named() {
    fn once(liar: &mut Liar) -> Vec<Report> {
        if liar.round > 100 {
            // The same words for ever: the snapshots of the last honest round.
            let last = liar
                .headers
                .iter()
                .rev()
                .find(|header| header.server_us <= 21 * PERIOD_US);
            let newest = last.map_or(0, |header| header.id.0);
            let held: Vec<_> = liar
                .held
                .iter()
                .rev()
                .map(|(id, mask)| (*id, *mask))
                .filter(|(id, _)| *id <= newest)
                .collect();
            return vec![liar.report_of(held)];
        }
        vec![liar.honest_report()]
    }
    let mut stage = Stage::new(20);
    stage.liar = Some(Liar::join(&mut stage, 5_000, once));
    stage.run(160, |tick| moved(tick, 0..20, u32::try_from(tick).unwrap()));
    let liar = stage.liar.unwrap();
    let times: BTreeMap<u32, u64> = liar
        .headers
        .iter()
        .map(|header| (header.id.0, header.server_us))
        .collect();
    let ages = liar
        .headers
        .iter()
        .filter_map(|header| Some(header.server_us - times[&header.base?.0]));
    let oldest = ages.max().unwrap();
    assert!(oldest <= u64::from(liar.lease_us), "{oldest} us");
    assert!(
        oldest + 2 * PERIOD_US > u64::from(liar.lease_us),
        "the lease was used up: {oldest} us"
    );
    let named = liar.headers.last().unwrap();
    assert!(named.base.is_none() && named.session_epoch > 1, "{named:?}");
}
