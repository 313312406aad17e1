//! Getting a session, keeping it, and leaving.

use super::relay::{Relay, complete, held, record, source};
use crate::client::inbox::{ClientEvent, Ending};
use crate::client::refusal::Refusal;
use crate::client::session::{Client, Received, SessionState};
use crate::client::settings::ClientSettings;
use crate::delta::schema;
use crate::wire::cookie::CookieKey;
use crate::wire::handshake::*;
use crate::wire::payload::{self, CloseReason, Welcome};
use crate::wire::version::PROTOCOL_VERSION;

fn events(client: &mut Client) -> Vec<ClientEvent> {
    core::iter::from_fn(|| client.poll_event()).collect()
}

/// The whole way in: Request, Challenge, Response, Welcome, first report.
#[test]
fn a_client_gets_its_session() {
    let settings = ClientSettings {
        token: b"token".to_vec(),
        ..ClientSettings::default()
    };
    let mut client = Client::new(settings, [1; 16], 0);
    let mut out = Vec::new();
    assert!(client.poll_transmit(0, &mut out) && !client.poll_transmit(0, &mut out));
    assert_eq!(read_request(&out[1..]), Ok((PROTOCOL_VERSION, [1; 16])));
    assert_eq!(
        (client.state(), client.next_timer()),
        (SessionState::Requesting, 100_000)
    );
    let cookie = CookieKey::new(&[9; 32]).cookie(0, source(), &[1; 16]);
    let mut challenge = Vec::new();
    put_challenge(&mut challenge, PROTOCOL_VERSION, &[1; 16], &cookie);
    assert_eq!(client.receive(10, &mut challenge.clone()), Received::Challenged);
    assert!(client.poll_transmit(10, &mut out));
    let response = read_response(&out[1..]).unwrap();
    assert_eq!((response.cookie, response.token), (cookie, &b"token"[..]));
    let mut relay = Relay::new([1; 16], [2; 16], 7);
    let welcome = relay.welcome();
    assert_eq!(client.receive(20, &mut welcome.clone()), Received::Welcomed);
    assert_eq!(
        client.receive(30, &mut welcome.clone()),
        Received::Refused(Refusal::DuplicateDatagram)
    );
    assert_eq!(
        client.receive(40, &mut relay.welcome()),
        Received::Keepalive,
        "one more of the same session"
    );
    assert_eq!(
        client.receive(50, &mut challenge),
        Received::Refused(Refusal::Unexpected)
    );
    assert_eq!(
        events(&mut client),
        [ClientEvent::Connected, ClientEvent::StreamChanged(1)]
    );
    assert_eq!(relay.hear_all(1_064, &mut client), 1);
    assert_eq!(
        (relay.report.received_count, relay.report.received_newest),
        (2, 1)
    );
    assert_eq!(
        (relay.report.stream_epoch, relay.report.echo_delay),
        (1, (1_024 >> 6))
    );
    assert_eq!(client.schema(), Some(&relay.schema));
    // DEC8: ten packets a second whatever comes.
    let sent: usize = (0..1_000)
        .map(|ms| relay.hear_all(2_000 + ms * 1_000, &mut client))
        .sum();
    assert!((10..=12).contains(&sent), "{sent}");
}

/// FAULTS 23: nothing of another attempt or session touches this one.
#[test]
fn faults_23_datagrams_of_an_old_session_are_inert() {
    let (mut old_relay, mut old_client) = Relay::connected(ClientSettings::default());
    let mut old: Vec<Vec<u8>> = (0..30)
        .map(|id| old_relay.send(id + 1, None, 0, vec![complete(1, record(1, 5, 0))]))
        .collect();
    old_client.receive(1, &mut old[0].clone());
    let mut client = Client::new(ClientSettings::default(), [3; 16], 0);
    let mut challenge = Vec::new();
    put_challenge(&mut challenge, PROTOCOL_VERSION, &[1; 16], &[0; COOKIE_BYTES]);
    assert_eq!(
        client.receive(0, &mut challenge),
        Received::Refused(Refusal::OtherAttempt)
    );
    let mut denied = Vec::new();
    put_denied(&mut denied, PROTOCOL_VERSION, &[1; 16], Denial::Full);
    assert_eq!(
        client.receive(0, &mut denied),
        Received::Refused(Refusal::OtherAttempt)
    );
    assert_eq!(
        client.receive(0, &mut old_relay.welcome()),
        Received::Refused(Refusal::OtherAttempt)
    );
    assert_eq!(
        client.receive(0, &mut old[1].clone()),
        Received::Refused(Refusal::NoSession)
    );
    let mut relay = Relay::new([3; 16], [4; 16], 78);
    assert_eq!(client.receive(0, &mut relay.welcome()), Received::Welcomed);
    let mut impostor = Relay::new([3; 16], [5; 16], 78);
    assert_eq!(
        client.receive(0, &mut impostor.welcome()),
        Received::Refused(Refusal::Unexpected)
    );
    for datagram in &mut old {
        assert_eq!(client.receive(1, datagram), Received::Refused(Refusal::Forged));
    }
    let mut first = relay.send(500, None, 0, vec![complete(1, record(1, 5, 0))]);
    assert_eq!(
        client.receive(2, &mut first),
        Received::Snapshot {
            shown: true,
            stored: true
        }
    );
    assert_eq!(
        (held(&client), client.refusals().of(Refusal::Forged)),
        (vec![500], 30)
    );
}

/// A Welcome that does not open, or that cannot be read, leaves the attempt going.
#[test]
fn a_forged_or_malformed_welcome_begins_nothing() {
    let mut client = Client::new(ClientSettings::default(), [1; 16], 0);
    let mut relay = Relay::new([1; 16], [2; 16], 7);
    let welcome = relay.welcome();
    for index in 1..welcome.len() {
        let mut bad = welcome.clone();
        bad[index] ^= 0x10;
        assert!(
            matches!(client.receive(0, &mut bad), Received::Refused(_)),
            "byte {index}"
        );
        assert!(matches!(
            client.receive(0, &mut welcome[..index].to_vec()),
            Received::Refused(_)
        ));
    }
    let payload = relay.welcome_payload();
    let mut cut = payload.clone();
    cut.pop();
    assert_eq!(
        client.receive(0, &mut relay.seal_welcome(cut)),
        Received::Refused(Refusal::MalformedPayload)
    );
    let mut bad = payload.clone();
    let length = bad.len();
    bad[length - 1] ^= 0xFF;
    assert_eq!(
        client.receive(0, &mut relay.seal_welcome(bad)),
        Received::Refused(Refusal::MalformedSchema)
    );
    assert_eq!(
        (client.state(), client.poll_event()),
        (SessionState::Requesting, None)
    );
    assert_eq!(
        client.receive(0, &mut relay.seal_welcome(payload)),
        Received::Welcomed
    );
}

/// THREATS 21: a denial is in clear, so whoever saw the client's randomness can make one up: a Welcome that comes within half a
/// second of it begins the session all the same.
#[test]
fn threats_21_a_denial_is_nothing_where_a_welcome_comes() {
    let mut client = Client::new(ClientSettings::default(), [1; 16], 0);
    let mut denied = Vec::new();
    put_denied(&mut denied, PROTOCOL_VERSION, &[1; 16], Denial::Full);
    for at_us in [0, 100_000, 400_000] {
        client.receive(at_us, &mut denied.clone());
        client.poll_transmit(at_us, &mut Vec::new());
    }
    let mut relay = Relay::new([1; 16], [2; 16], 7);
    assert_eq!(client.receive(499_999, &mut relay.welcome()), Received::Welcomed);
    client.poll_transmit(600_000, &mut Vec::new());
    assert_eq!(client.state(), SessionState::Connected);
}

#[test]
fn a_denial_with_the_echo_ends_the_attempt() {
    let mut client = Client::new(ClientSettings::default(), [1; 16], 0);
    let mut denied = Vec::new();
    put_denied(&mut denied, PROTOCOL_VERSION, &[1; 16], Denial::Token);
    assert_eq!(
        client.receive(0, &mut denied.clone()),
        Received::Denied(Denial::Token)
    );
    let ending = Ending::Denied(Denial::Token);
    client.poll_transmit(499_999, &mut Vec::new());
    assert_eq!(client.state(), SessionState::Requesting, "a Welcome may come");
    assert_eq!(client.next_timer(), 500_000);
    assert!(!client.poll_transmit(500_000, &mut Vec::new()));
    assert_eq!(client.state(), SessionState::Closed(ending));
    assert_eq!(events(&mut client), [ClientEvent::Closed(ending)]);
    assert_eq!(
        (
            client.next_timer(),
            client.poll_transmit(1 << 40, &mut Vec::new())
        ),
        (u64::MAX, false)
    );
    let (_, mut connected) = Relay::connected(ClientSettings::default());
    assert_eq!(
        connected.receive(0, &mut denied),
        Received::Refused(Refusal::Unexpected)
    );
}

#[test]
fn sessions_end_by_leaving_closing_and_silence() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    client.leave(1_000);
    let times: Vec<u64> = (0..200)
        .map(|ms| ms * 1_000)
        .filter(|now| relay.hear_all(*now, &mut client) > 0)
        .collect();
    assert_eq!(times, [1_000, 31_000, 61_000]);
    assert_eq!(
        (relay.closed, client.state()),
        (Some(CloseReason::Left), SessionState::Closed(Ending::Left))
    );

    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    let mut close = relay.close(CloseReason::Draining);
    assert_eq!(
        client.receive(5, &mut close),
        Received::Closed(CloseReason::Draining)
    );
    assert_eq!(
        client.state(),
        SessionState::Closed(Ending::Relay(CloseReason::Draining))
    );
    assert_eq!(
        client.receive(5, &mut relay.welcome()),
        Received::Refused(Refusal::SessionOver)
    );

    // DEC8: silent for the idle time of the Welcome.
    let (_, mut client) = Relay::connected(ClientSettings::default());
    let mut now = 0;
    while client.next_timer() < u64::MAX {
        now = client.next_timer();
        client.poll_transmit(now, &mut Vec::new());
    }
    assert_eq!(
        (now, client.state()),
        (30_000_000, SessionState::Closed(Ending::Silent))
    );

    let mut client = Client::new(ClientSettings::default(), [1; 16], 0);
    client.poll_transmit(30_000_000, &mut Vec::new());
    assert_eq!(client.state(), SessionState::Closed(Ending::Unanswered));
}

/// SPEC DEC7, DEC8, PLY7: the times that a Welcome of an older stream names are not taken; those of the stream itself are.
#[test]
fn dec8_the_welcome_of_an_older_stream_sets_no_times() {
    let (mut relay, mut client) = Relay::connected(ClientSettings::default());
    client.receive(10, &mut relay.new_stream());
    let welcome = |relay: &mut Relay, stream_epoch| {
        let mut block = Vec::new();
        Welcome {
            stream_epoch,
            lease_us: 1_000_000,
            idle_us: 5_000_000,
            schema: &schema::encode(&relay.schema).unwrap(),
        }
        .encode(&mut block);
        relay.seal(Relay::payload(0, payload::WELCOME, &block))
    };
    let mut old = welcome(&mut relay, 1);
    assert_eq!(client.receive(20, &mut old), Received::Keepalive);
    assert_eq!(client.lease_us(), 4_000_000);
    relay.hear_all(6_000_000, &mut client);
    assert_eq!(client.state(), SessionState::Connected);
    let mut own = welcome(&mut relay, 2);
    assert_eq!(client.receive(6_000_000, &mut own), Received::Keepalive);
    assert_eq!(client.lease_us(), 1_000_000);
    relay.hear_all(11_000_000, &mut client);
    assert_eq!(client.state(), SessionState::Closed(Ending::Silent));
}
