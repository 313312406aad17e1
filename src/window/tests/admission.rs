//! What a part must be to be let in: its session epoch, its siblings, the set of its commit.

use super::threats::{EIGHT, holding, kept_ids, on_empty};
use crate::sequence::Tick;
use crate::window::receive::Rejection;
use crate::wire::report::RefuseReason;
use crate::wire::snapshot::SnapshotHeader;

/// SPEC WIN10, WINDOW-MODEL A21: a session epoch begins on the empty table and without a commit: a part of a higher one
/// that brings a commit, or names a base, is refused, moves nothing and is not said.
#[test]
fn win10_no_session_epoch_begins_with_a_commit_or_on_a_base() {
    let (mut relay, mut client) = holding(EIGHT, 2);
    assert!(relay.advance(1));
    let committing = SnapshotHeader {
        session_epoch: 2,
        ..on_empty(&mut relay)
    };
    assert!(committing.commit.is_some() && committing.base.is_none());
    let fresh = SnapshotHeader {
        commit: None,
        ..committing
    };
    let based = SnapshotHeader {
        base: Some(Tick(102)),
        ..fresh
    };
    let before = client.window.clone();
    for bad in [committing, based] {
        assert_eq!(client.receive(&bad), Err(Rejection::UncommittedGeneration));
        assert_eq!(client.window, before);
    }
    client.receive(&fresh).unwrap();
    assert_eq!(
        (client.window.session_epoch(), kept_ids(&client)),
        (2, vec![fresh.id.0])
    );
}

/// SPEC TAB8: the parts of a snapshot stand on one base: a part on another than its stored siblings is refused, candidate
/// or not, and their table stays as it is.
#[test]
fn tab8_a_part_on_another_base_than_its_siblings_is_refused() {
    let (mut relay, mut client) = holding(EIGHT, 2);
    let parts = relay.send(2, 0);
    assert_eq!(parts[1].base, Some(Tick(102)));
    client.receive(&parts[0]).unwrap();
    let before = client.window.clone();
    for (base, candidate) in [(None, true), (None, false), (Some(101), true), (Some(101), false)] {
        let stranger = SnapshotHeader {
            base: base.map(Tick),
            candidate,
            ..parts[1]
        };
        assert_eq!(client.receive(&stranger), Err(Rejection::SiblingBase));
        assert_eq!(client.window, before);
    }
    client.receive(&parts[1]).unwrap();
    let said = client.say();
    assert_eq!((said.held.as_slice()[0].mask, said.refuse), (3, None));
}

/// SPEC WIN3, WINDOW-MODEL A12: what comes with a commit stands on its set or on the empty table: a base that is held but
/// not in the set is missing, and the commit is not taken.
#[test]
fn win3_a_base_outside_the_set_of_its_commit_is_missing() {
    let (mut relay, mut client) = holding(EIGHT, 3);
    assert!(relay.advance(1));
    let sent = relay.send(1, 0)[0];
    assert_eq!(sent.base, Some(Tick(103)));
    let outside = SnapshotHeader {
        base: Some(Tick(101)),
        ..sent
    };
    let before = (client.window.generation(), kept_ids(&client));
    assert_eq!(client.receive(&outside), Err(Rejection::BaseMissing));
    assert_eq!((client.window.generation(), kept_ids(&client)), before);
    assert_eq!(client.say().refuse, Some(RefuseReason::BaseMissing));
    client.receive(&sent).unwrap();
    assert_eq!(kept_ids(&client), [103, sent.id.0]);
}
