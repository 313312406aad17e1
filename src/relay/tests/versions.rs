//! Two versions of the protocol, as a relay meets them.

use super::peer::{Peer, Rig, cookie, path};
use crate::relay::counters::DatagramRefusal;
use crate::relay::shard::Receipt;
use crate::sequence::Tick;
use crate::state::coding::Coding;
use crate::wire::handshake::{DatagramKind, Denial, put_response, read_denied};
use crate::wire::payload::{self, CloseReason};
use crate::wire::version::{Agreed, PROTOCOL_VERSION, Versions};

const OLD: u16 = PROTOCOL_VERSION - 1;

/// A relay serves clients of its own version and of the one before at the same time; what the older one does not know is
/// refused from it.
#[test]
fn a_relay_serves_its_own_version_and_the_one_before() {
    let mut rig = Rig::new(10, Tick(1));
    for (port, version) in [(4_000, PROTOCOL_VERSION), (4_001, OLD)] {
        let agreed = Agreed {
            version,
            offered: PROTOCOL_VERSION,
        };
        let mut peer =
            Peer::join_speaking(&mut rig, path(port), [port.to_le_bytes()[0]; 16], None, agreed).unwrap();
        peer.follow(&mut rig, 20, 5);
        assert!(peer.headers.len() > 15, "{} snapshots", peer.headers.len());
        let padded = peer.padded(1_000);
        let (receipt, _) = rig.hear(peer.path, &padded);
        let expected = match version {
            OLD => Receipt::Refused(DatagramRefusal::Malformed),
            _ => Receipt::Taken,
        };
        assert_eq!(receipt, expected, "padding in version {version}");
    }
    assert_eq!((rig.shard.open(), rig.shard.open_by_version()), (2, &[1, 1][..]));
    rig.shard.drain(rig.now_us);
    (0..8).for_each(|_| drop(rig.turn_moving(3)));
    assert_eq!((rig.shard.open(), rig.shard.open_by_version()), (0, &[0, 0][..]));
}

/// What a relay does not speak, older or newer, is denied after the cookie, with the highest it speaks.
#[test]
fn threats_20_a_version_that_is_not_spoken_is_denied_with_what_is() {
    let only_old = Versions::between(OLD, OLD).unwrap();
    let mut rig = Rig::with(10, Tick(1), |settings| settings.versions = only_old);
    for (number, version) in [(1, PROTOCOL_VERSION), (2, OLD - 1), (3, 0), (4, u16::MAX)] {
        let (nonce, from, mut response) = ([number; 16], path(u16::from(number)), Vec::new());
        let cookie = cookie(&mut rig, from, nonce);
        put_response(&mut response, version, &nonce, &cookie, b"");
        let (receipt, answers) = rig.hear(from, &response);
        assert_eq!((receipt, answers.len()), (Receipt::Taken, 1));
        assert_eq!(answers[0].1[0], DatagramKind::Denied as u8);
        assert_eq!(read_denied(&answers[0].1[1..]), Ok((OLD, nonce, Denial::Version)));
        assert!(answers[0].1.len() <= response.len());
    }
    assert_eq!(rig.shard.open(), 0);
    let agreed = Agreed {
        version: OLD,
        offered: OLD,
    };
    Peer::join_speaking(&mut rig, path(9), [9; 16], None, agreed).unwrap();
}

/// THREATS 20: a stream in tuned codes is for those who know them: others are denied, and let go where they were there before it.
#[test]
fn threats_20_a_tuned_stream_is_not_shown_to_who_cannot_read_it() {
    let mut rig = Rig::new(10, Tick(1));
    let agreed = Agreed {
        version: OLD,
        offered: PROTOCOL_VERSION,
    };
    let mut old = Peer::join_speaking(&mut rig, path(4_000), [1; 16], None, agreed).unwrap();
    old.follow(&mut rig, 5, 3);
    let mut new = Peer::join(&mut rig, 4_001);
    new.follow(&mut rig, 5, 3);
    rig.coding = Coding::Standard;
    let sent = rig.restart_origin(8);
    (0..6).for_each(|_| old.take_all(&rig.turn_moving(3)));
    old.take_all(&sent);
    assert_eq!(old.closed, Some(CloseReason::Protocol));
    assert!(!rig.has(old.connection) && rig.has(new.connection));
    let denied = Peer::join_speaking(&mut rig, path(4_002), [2; 16], None, agreed);
    assert_eq!(denied.err(), Some(Denial::Version));
    let before = new.headers.len();
    new.follow(&mut rig, 5, 3);
    assert!(new.headers.len() > before && new.closed.is_none());
}

/// Keys hold the version and what was offered: where either was changed on the way, neither end opens the other's datagrams.
#[test]
fn threats_20_what_was_agreed_is_in_the_keys() {
    let mut rig = Rig::new(10, Tick(1));
    let agreed = Agreed {
        version: PROTOCOL_VERSION,
        offered: PROTOCOL_VERSION + 1,
    };
    let mut peer = Peer::join_unread(&mut rig, path(4_000), [7; 16], agreed);
    let datagram = peer.up(vec![payload::CLOSE, 1]);
    rig.refuses(peer.path, &datagram);
    assert_eq!(rig.shard.open(), 1);
}
