//! Threats to the window, one by one (THREATS III): both halves that ship, messages that come late, twice, never or
//! changed.

use super::{Client, Relay, SMALL, Said};
use crate::sequence::Tick;
use crate::window::WindowLimits;
use crate::window::receive::Rejection;
use crate::wire::report::{HeldList, RefuseReason};
use crate::wire::snapshot::{Commit, Held, SnapshotHeader};

/// Eight slots: room for what is between two advances.
pub(super) const EIGHT: WindowLimits = WindowLimits {
    slots: 8,
    ask_at: 4,
    commit_max: 2,
};

fn held_ids(relay: &Relay) -> Vec<u32> {
    let mut ids: Vec<u32> = relay.window.held().iter().map(|held| held.held.id.0).collect();
    ids.sort_unstable();
    ids
}

pub(super) fn kept_ids(client: &Client) -> Vec<u32> {
    let mut ids: Vec<u32> = client.window.tables().map(|(held, _)| held.id.0).collect();
    ids.sort_unstable();
    ids
}

/// Relay and client with `count` snapshots of one part on the empty table, all held and reported.
pub(super) fn holding(limits: WindowLimits, count: usize) -> (Relay, Client) {
    let (mut relay, mut client) = (Relay::new(limits, 100), Client::new(limits));
    for _ in 0..count {
        let bases = relay.window.held().len();
        let sent = relay.send(1, bases);
        client.receive(&sent[0]).unwrap();
    }
    let said = client.say();
    relay.take(&said);
    assert_eq!(held_ids(&relay).len(), count);
    (relay, client)
}

/// A report that says what no client held.
fn lie(relay: &Relay, ids: &[(u32, u32)]) -> Said {
    let mut held = HeldList::default();
    for (id, mask) in ids {
        held.push(Held {
            id: Tick(*id),
            mask: *mask,
        });
    }
    Said {
        epoch: relay.window.session_epoch(),
        generation: relay.window.generation(),
        held,
        ask: false,
        refuse: None,
    }
}

pub(super) fn on_empty(relay: &mut Relay) -> SnapshotHeader {
    let bases = relay.window.held().len();
    relay.send(1, bases)[0]
}

/// THREATS 40, SPEC WIN2: a delta on a base that is not held is refused, stored nowhere and said so; the answer is
/// full state in the next epoch.
#[test]
fn threats_40_an_unknown_base_is_refused_and_said() {
    let (mut relay, mut client) = holding(EIGHT, 2);
    let on_missing = SnapshotHeader {
        base: Some(Tick(7)),
        ..on_empty(&mut relay)
    };
    let before = kept_ids(&client);
    assert_eq!(client.receive(&on_missing), Err(Rejection::BaseMissing));
    assert_eq!(kept_ids(&client), before);
    let said = client.say();
    assert_eq!(said.refuse, Some(RefuseReason::BaseMissing));
    assert!(said.held.as_slice().iter().all(|held| held.id != on_missing.id));
    relay.receive(&said);
    let fresh = relay.send(1, 0)[0];
    assert_eq!((fresh.session_epoch, fresh.base), (2, None));
    client.receive(&fresh).unwrap();
    assert_eq!(client.say().refuse, None);
}

/// THREATS 45: reports doubled, swapped and late by generations make nothing usable again, and none is lost for good.
#[test]
fn threats_45_reports_doubled_swapped_and_late_do_no_harm() {
    let (mut relay, mut client) = (Relay::new(EIGHT, 10), Client::new(EIGHT));
    let mut reports = Vec::new();
    for _ in 0..4 {
        let sent = on_empty(&mut relay);
        client.receive(&sent).unwrap();
        reports.push(client.say());
    }
    // The first is lost; the others come swapped, each twice.
    for said in [&reports[3], &reports[1], &reports[3], &reports[2], &reports[1]] {
        let outcome = relay.take(said);
        assert_eq!((outcome.stale, outcome.contradicted), (false, 0));
    }
    assert_eq!(held_ids(&relay), [11, 12, 13, 14]);
    assert!(relay.advance(1));
    let sent = relay.send(1, 0)[0];
    client.receive(&sent).unwrap();
    let confirm = client.say();
    relay.take(&confirm);
    assert_eq!(held_ids(&relay), [14, 15]);
    for late in &reports {
        assert!(relay.take(late).stale, "of the generation before");
    }
    assert_eq!(held_ids(&relay), [14, 15]);
}

/// THREATS 46, FAULTS 24: only what was sent counts as held: ids before, between and after it, from anywhere in the
/// range, are counted and make nothing; parts that were not sent are a contradiction.
#[test]
fn threats_46_only_what_was_sent_can_be_held() {
    let (mut relay, _) = holding(EIGHT, 2);
    on_empty(&mut relay);
    let newest = relay.next;
    let before = held_ids(&relay);
    for id in [
        newest + 1,
        newest + 33,
        newest.wrapping_add(1 << 31),
        0,
        99,
        u32::MAX,
    ] {
        let said = lie(&relay, &[(id, 1)]);
        let outcome = relay.take(&said);
        assert_eq!((outcome.unknown, outcome.newly_held), (1, 0), "id {id}");
    }
    for mask in [2, 3, u32::MAX, 1 << 31] {
        let said = lie(&relay, &[(newest, mask)]);
        let outcome = relay.take(&said);
        assert_eq!((outcome.contradicted, outcome.newly_held), (1, 0), "mask {mask}");
    }
    assert_eq!(held_ids(&relay), before);
    let said = lie(&relay, &[(newest, 1)]);
    assert_eq!(relay.take(&said).newly_held, 1, "the truth still counts");
}

/// THREATS 46: what came while the client was full is shown and never reported.
#[test]
fn threats_46_what_came_to_a_full_window_is_not_reported() {
    let (mut relay, mut client) = holding(EIGHT, 8);
    let extra = on_empty(&mut relay);
    client.receive(&extra).unwrap();
    let said = client.say();
    assert!(said.held.as_slice().iter().all(|held| held.id != extra.id));
    assert_eq!((said.held.as_slice().len(), said.ask), (8, true));
}

/// THREATS 48: at a full window with every report lost, one report says everything held and asks.
#[test]
fn threats_48_one_report_after_many_lost_says_all() {
    let (mut relay, mut client) = (Relay::new(EIGHT, 10), Client::new(EIGHT));
    for _ in 0..8 {
        let sent = on_empty(&mut relay);
        client.receive(&sent).unwrap();
        let _ = client.say();
    }
    assert!(client.window.is_full() && held_ids(&relay).is_empty());
    let said = client.say();
    relay.receive(&said);
    assert!(relay.window.open_commit().is_some(), "the ask was in it");
    let sent = relay.send(1, 0)[0];
    client.receive(&sent).unwrap();
    assert_eq!(kept_ids(&client), [18, 19]);
}

/// THREATS 49: a commit frees slots: one that would keep more than its bound is not opened, nor can it be written.
#[test]
fn threats_49_a_commit_never_keeps_everything() {
    let (mut relay, _) = holding(EIGHT, 5);
    let mut set: Vec<Held> = relay.window.held().iter().map(|held| held.held).collect();
    set.sort_by_key(|held| core::cmp::Reverse(held.id.0));
    let mut open = |set: &[Held]| {
        relay
            .window
            .open(set, [0, 0], 0, &mut Vec::new(), &mut Vec::new())
    };
    assert!(!open(&set), "5 of at most 2");
    assert!(!open(&[]), "none");
    assert!(!open(&[set[0], Held { id: Tick(9), mask: 1 }]), "not held");
    assert!(!open(&[Held { mask: 3, ..set[0] }]), "other parts");
    assert!(open(&set[..2]));
    let nine: Vec<Held> = (0..9)
        .map(|back| Held {
            id: Tick(50 - back),
            mask: 1,
        })
        .collect();
    assert!(Commit::new(&nine, [0, 0]).is_none() && Commit::new(&nine[..8], [0, 0]).is_some());
}

/// THREATS 50, SPEC WIN7: a commit lost is in the next part, one that comes again or late changes nothing, an older one
/// never rolls back.
#[test]
fn threats_50_commits_lost_doubled_and_late() {
    let (mut relay, mut client) = holding(EIGHT, 4);
    assert!(relay.advance(1));
    let first = relay.send(1, 0)[0];
    let lost = relay.send(1, 0)[0];
    let second = relay.send(1, 0)[0];
    assert_eq!(
        (first.commit, lost.commit),
        (second.commit, second.commit),
        "in every part"
    );
    client.receive(&second).unwrap();
    let after = kept_ids(&client);
    assert_eq!(after, [104, second.id.0]);
    client.receive(&first).unwrap();
    assert_eq!(client.receive(&first), Err(Rejection::DuplicatePart));
    assert_eq!(
        kept_ids(&client),
        [104, first.id.0, second.id.0],
        "nothing was freed twice"
    );
    let said = client.say();
    relay.take(&said);
    assert!(relay.advance(1));
    let next = relay.send(1, 0)[0];
    client.receive(&next).unwrap();
    let (kept, generation) = (kept_ids(&client), client.window.generation());
    assert_eq!(client.receive(&lost), Err(Rejection::OldGeneration));
    assert_eq!(
        (kept_ids(&client), client.window.generation()),
        (kept, generation)
    );
}

/// THREATS 51: the set of a generation never changes: the relay cannot open another, and a client that took one does not
/// look at another.
#[test]
fn threats_51_a_commit_is_never_sent_with_another_set() {
    let (mut relay, mut client) = holding(EIGHT, 4);
    assert!(relay.advance(1));
    let commit = *relay.window.open_commit().unwrap();
    let other = [Held {
        id: Tick(104),
        mask: 1,
    }];
    assert!(
        !relay
            .window
            .open(&other, [1, 2], 9, &mut Vec::new(), &mut Vec::new())
    );
    assert_eq!(relay.window.open_commit(), Some(&commit));
    let sent = relay.send(1, 0)[0];
    client.receive(&sent).unwrap();
    let forged = Commit::new(&[Held { id: Tick(3), mask: 1 }], [1, 2]);
    let again = SnapshotHeader {
        commit: forged,
        ..relay.send(1, 0)[0]
    };
    client.receive(&again).unwrap();
    assert_eq!(
        kept_ids(&client),
        [104, sent.id.0, again.id.0],
        "freed by the first set alone"
    );
}

/// THREATS 52: a confirm that is lost is said by the next packet; one of another generation or epoch confirms nothing.
#[test]
fn threats_52_only_the_open_generation_confirms() {
    let (mut relay, mut client) = holding(EIGHT, 4);
    let stale = client.say();
    assert!(relay.advance(1));
    let sent = relay.send(1, 0)[0];
    client.receive(&sent).unwrap();
    let _ = client.say();
    let right = client.say();
    assert_eq!(relay.take(&stale).confirmed, None);
    for generation in [0, right.generation + 1, right.generation + 2, u32::MAX] {
        let wrong = Said {
            generation,
            ..right.clone()
        };
        let outcome = relay.take(&wrong);
        assert_eq!(
            (outcome.stale, outcome.confirmed),
            (true, None),
            "generation {generation}"
        );
    }
    for epoch in [0, 2, u32::MAX] {
        let wrong = Said {
            epoch,
            ..right.clone()
        };
        assert!(relay.take(&wrong).stale, "epoch {epoch}");
    }
    assert!(relay.window.open_commit().is_some());
    assert_eq!(relay.take(&right).confirmed, Some(0));
    assert!(relay.window.open_commit().is_none());
}

/// THREATS 53: once a commit is open there is no way back: what it dropped stays dropped, whatever reports of the old
/// generation say, and everything sent is of the new one.
#[test]
fn threats_53_the_sender_never_goes_back() {
    let (mut relay, mut client) = holding(EIGHT, 4);
    let unreported = on_empty(&mut relay);
    client.receive(&unreported).unwrap();
    let old = client.say();
    let generation = relay.window.generation();
    assert!(relay.advance(1));
    for _ in 0..20 {
        assert!(
            !relay.take(&old).stale,
            "of the generation before, and taken as such"
        );
        assert_eq!(held_ids(&relay), [104]);
        let sent = relay.send(1, 0)[0];
        assert_eq!((sent.generation, sent.base), (generation + 1, Some(Tick(104))));
        assert!(sent.commit.is_some());
    }
    assert!(
        relay
            .window
            .candidates()
            .all(|candidate| candidate.id != unreported.id)
    );
}

/// THREATS 54: asks and commits that cross, and a storm of asks, open one commit at a time.
#[test]
fn threats_54_a_storm_of_asks_opens_one_commit() {
    let (mut relay, mut client) = holding(EIGHT, 4);
    let ask = client.say();
    assert!(ask.ask);
    relay.receive(&ask);
    let commit = *relay.window.open_commit().unwrap();
    let generation = relay.window.generation();
    for _ in 0..100 {
        relay.receive(&ask);
    }
    assert_eq!(
        (relay.window.open_commit(), relay.window.generation()),
        (Some(&commit), generation)
    );
}

/// THREATS 55, SPEC WIN6: a part of the next generation without its commit is dropped, not guessed at and not queued.
#[test]
fn threats_55_without_its_commit_a_part_is_dropped() {
    let (mut relay, mut client) = holding(EIGHT, 4);
    assert!(relay.advance(1));
    let sent = relay.send(1, 0)[0];
    let bare = SnapshotHeader { commit: None, ..sent };
    let far = SnapshotHeader {
        generation: sent.generation + 1,
        ..sent
    };
    let kept = kept_ids(&client);
    assert_eq!(client.receive(&bare), Err(Rejection::UncommittedGeneration));
    assert_eq!(client.receive(&far), Err(Rejection::UncommittedGeneration));
    assert_eq!((kept_ids(&client), client.window.refusing()), (kept, None));
    client.receive(&sent).unwrap();
}

/// THREATS 56, SPEC WIN11: whichever table of the set is damaged, nothing is freed or switched, and it is said.
#[test]
fn threats_56_every_table_of_the_set_is_checked() {
    for damaged in 0..2usize {
        let (mut relay, mut client) = holding(EIGHT, 4);
        assert!(relay.advance(2));
        let sent = relay.send(1, 0)[0];
        let hit = sent.commit.unwrap().set()[damaged].id;
        for (held, table) in client.window.tables_mut() {
            if held.id == hit {
                table.insert((9, 9));
            }
        }
        let generation = client.window.generation();
        assert_eq!(
            client.receive(&sent),
            Err(Rejection::CommitDigest),
            "table {damaged}"
        );
        assert_eq!(
            (client.window.in_use(), client.window.generation()),
            (4, generation)
        );
        let said = client.say();
        assert_eq!(said.refuse, Some(RefuseReason::CommitDigest));
        relay.receive(&said);
        let fresh = relay.send(1, 0)[0];
        assert_eq!((fresh.session_epoch, fresh.base), (2, None));
        client.receive(&fresh).unwrap();
    }
}

/// THREATS 56, SPEC TAB8: a set that names a table with other parts than were reported, one not reported yet, or one not
/// held, is refused and said, though its digest fits.
#[test]
fn threats_56_a_set_of_other_parts_is_refused() {
    let (mut relay, mut client) = holding(EIGHT, 4);
    let unreported = on_empty(&mut relay);
    client.receive(&unreported).unwrap();
    assert!(relay.advance(1));
    let sent = relay.send(1, 0)[0];
    let table = |id: Tick| client.table(id).map_or([0, 0], super::digest);
    let sets = [
        (
            Held {
                id: Tick(104),
                mask: 3,
            },
            table(Tick(104)),
        ),
        (
            Held {
                id: unreported.id,
                mask: 1,
            },
            table(unreported.id),
        ),
        (
            Held {
                id: Tick(50),
                mask: 1,
            },
            [0, 0],
        ),
    ];
    for (held, digest) in sets {
        let wrong = SnapshotHeader {
            base: None,
            commit: Commit::new(&[held], digest),
            ..sent
        };
        let mut other = Client {
            window: client.window.clone(),
            shown: 0,
        };
        assert_eq!(other.receive(&wrong), Err(Rejection::CommitNotHeld), "{held:?}");
        assert_eq!(other.window.in_use(), 5);
        assert_eq!(other.say().refuse, Some(RefuseReason::CommitNotHeld));
    }
    client.receive(&sent).unwrap();
}

/// THREATS 58, 60, SPEC WIN10: a new epoch in every phase of a commit: the commit is over, every older message is
/// inert on both sides, and ids go on.
#[test]
fn threats_58_an_epoch_in_every_phase_of_a_commit() {
    // 0: before; 1: opened; 2: sent; 3: arrived; 4: confirm under way; 5: confirmed.
    for phase in 0..6 {
        let (mut relay, mut client) = holding(EIGHT, 4);
        let mut down = Vec::new();
        let mut up = vec![client.say()];
        if phase >= 1 {
            assert!(relay.advance(1));
        }
        if phase >= 2 {
            down.push(relay.send(1, 0)[0]);
        }
        if phase >= 3 {
            client.receive(&down[0]).unwrap();
        }
        if phase >= 4 {
            up.push(client.say());
        }
        if phase >= 5 {
            let said = up[1].clone();
            relay.take(&said);
        }
        let (last_id, generation) = (relay.next, relay.window.generation());
        relay.window.restart(&mut Vec::new(), &mut Vec::new());
        assert!(relay.window.open_commit().is_none() && relay.window.in_use() == 0);
        assert!(relay.window.generation() > generation, "phase {phase}");
        for said in &up {
            assert!(relay.take(said).stale, "phase {phase}");
        }
        let fresh = relay.send(1, 0)[0];
        assert!(fresh.base.is_none() && fresh.id.is_after(Tick(last_id)));
        client.receive(&fresh).unwrap();
        assert_eq!(kept_ids(&client), [fresh.id.0]);
        for header in &down {
            assert_eq!(client.receive(header), Err(Rejection::OldEpoch), "phase {phase}");
        }
        let said = client.say();
        relay.take(&said);
        assert_eq!(held_ids(&relay), [fresh.id.0], "phase {phase}");
    }
}

/// THREATS 59: the epoch only rises: old parts never flip a client back, and none but a part on the empty table begins
/// a new one.
#[test]
fn threats_59_epochs_are_ordered() {
    let (mut relay, mut client) = holding(EIGHT, 3);
    let old = on_empty(&mut relay);
    relay.window.restart(&mut Vec::new(), &mut Vec::new());
    relay.window.restart(&mut Vec::new(), &mut Vec::new());
    let fresh = relay.send(1, 0)[0];
    let on_a_base = SnapshotHeader {
        base: Some(Tick(101)),
        ..fresh
    };
    assert_eq!(client.receive(&on_a_base), Err(Rejection::UncommittedGeneration));
    assert_eq!(client.window.refusing(), None, "of which nothing is said");
    client.receive(&fresh).unwrap();
    let between = SnapshotHeader {
        session_epoch: 2,
        ..old
    };
    for header in [&old, &between] {
        assert_eq!(client.receive(header), Err(Rejection::OldEpoch));
    }
    assert_eq!(
        (client.window.session_epoch(), kept_ids(&client)),
        (3, vec![fresh.id.0])
    );
}

/// THREATS 61: ids wrap in the middle of windows that advance: each window holds ids of both sides of the wrap, in
/// every place of the order.
#[test]
fn threats_61_windows_advance_across_the_wrap_of_ids() {
    for first in (u32::MAX - 12)..=u32::MAX {
        let (mut relay, mut client) = (Relay::new(EIGHT, first), Client::new(EIGHT));
        let start = relay.window.generation();
        for _ in 0..30 {
            let sent = relay.send(1, relay.window.held().len().saturating_sub(1))[0];
            client.receive(&sent).unwrap();
            let said = client.say();
            let ids: Vec<Tick> = said.held.as_slice().iter().map(|held| held.id).collect();
            assert!(
                ids.windows(2).all(|pair| pair[0].is_after(pair[1])),
                "newest first: {ids:?}"
            );
            relay.receive(&said);
            for held in relay.window.held() {
                assert_eq!(client.table(held.held.id), Some(&held.table));
            }
        }
        assert!(relay.window.generation() > start + 3);
        assert_eq!(relay.window.session_epoch(), 1);
    }
}

/// SPEC DEC6, THREATS 61: epochs and generations at the top of their range are compared, never wrapped: a client that
/// was given the last ones refuses everything below and takes no step beyond.
#[test]
fn threats_61_the_last_epoch_and_generation() {
    let (mut relay, mut client) = holding(EIGHT, 3);
    let top = SnapshotHeader {
        session_epoch: u32::MAX,
        generation: u32::MAX,
        base: None,
        ..on_empty(&mut relay)
    };
    client.receive(&top).unwrap();
    assert_eq!(
        (client.window.session_epoch(), client.window.generation()),
        (u32::MAX, u32::MAX)
    );
    for (session_epoch, generation, expected) in [
        (0, 0, Rejection::OldEpoch),
        (1, 1, Rejection::OldEpoch),
        (u32::MAX, 0, Rejection::OldGeneration),
        (u32::MAX, u32::MAX - 1, Rejection::OldGeneration),
    ] {
        let header = SnapshotHeader {
            session_epoch,
            generation,
            ..on_empty(&mut relay)
        };
        assert_eq!(client.receive(&header), Err(expected));
    }
    let next = SnapshotHeader {
        session_epoch: u32::MAX,
        generation: u32::MAX,
        base: None,
        ..on_empty(&mut relay)
    };
    client.receive(&next).unwrap();
    let said = client.say();
    assert!(relay.take(&said).stale, "a relay is never there");
    assert_eq!(held_ids(&relay), [101, 102, 103]);
}

/// THREATS 63: a report of what the relay has evicted is ignored, and the client is not wrong for it.
#[test]
fn threats_63_a_report_of_what_was_evicted_is_ignored() {
    let (mut relay, mut client) = (Relay::new(SMALL, 10), Client::new(SMALL));
    let first = relay.send(1, 0)[0];
    client.receive(&first).unwrap();
    let late = client.say();
    for _ in 0..SMALL.slots {
        relay.send(1, 0);
    }
    let outcome = relay.take(&late);
    assert_eq!(
        (outcome.unknown, outcome.contradicted, outcome.newly_held),
        (1, 0, 0)
    );
    assert!(held_ids(&relay).is_empty());
}
