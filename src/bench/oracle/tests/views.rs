//! Clients that may not see everything, and entities that wait.

use super::*;
use crate::bench::series::Series;
use crate::bench::truth::TruthFrame;
use crate::bench::truth::tests::entity;
use crate::delta::message::Assigned;
use crate::state::update::{TagUpdate, TickUpdate};
use crate::state::view::{Range, Scope, View as Allowed};

/// Steps of a centimetre for metres of x; the world of the tests begins at -100 m.
fn at(metres: u32) -> u32 {
    metres * 100
}

/// Sees what is within 10 m of entity 1, and keeps it to 12 m.
fn near_one() -> Assigned {
    let range = Range::new(1000, 1200).expect("is a range");
    Assigned {
        entity: Some(entity(1)),
        view: Allowed {
            scope: Scope::Owner(range),
            tags: 1,
        },
    }
}

/// A judge of a client that was told long ago what it sees, and the truth of three entities in a row, which a relay that
/// knows no views sends as they are.
fn joined(places: [u32; 3], assigned: Assigned) -> (Pair, Judge, World) {
    let (mut pair, first) = Pair::joined();
    let (mut judge, (mut truth, _)) = (Judge::new(), world(&[1, 2, 3]));
    judge.publish(&first);
    judge.view.sight.tell(1, 0, assigned);
    for at in 1..=12u32 {
        let moved = [(1, places[0]), (2, places[1]), (3, places[2])];
        judge.publish(&step_one(&mut truth, u64::from(at), &moved, &[]));
        pair.tick(u64::from(at), &moved, &[], &mut judge);
    }
    (pair, judge, truth)
}

fn leaks(judge: &mut Judge) -> u64 {
    judge.oracle.settle_suspects(&mut judge.view, u64::MAX);
    judge.oracle.counts().leaks
}

/// One tick of the truth and the relay.
fn tick(pair: &mut Pair, judge: &mut Judge, truth: &mut World, at: u32, moved: &[(u32, u32)]) {
    judge.publish(&step_one(truth, u64::from(at), moved, &[]));
    pair.tick(u64::from(at), moved, &[], judge);
}

/// A record from outside of the view is a leak; one from the seam between entering and leaving is not, nor is one that
/// another view allows of which the client is told within time.
#[test]
fn a_seeded_leak_is_found() {
    let (mut pair, mut judge, mut truth) = joined([at(50), at(59), at(61)], near_one());
    assert_eq!(leaks(&mut judge), 0, "{:?}", judge.oracle.counts());
    // Entity 3 goes one step of a centimetre too far, and comes back.
    tick(&mut pair, &mut judge, &mut truth, 13, &[(3, at(62) + 3)]);
    tick(&mut pair, &mut judge, &mut truth, 14, &[(3, at(62) + 1)]);
    let counts = judge.oracle.counts().clone();
    assert_eq!(
        (counts.leaks, counts.mismatches),
        (0, 0),
        "suspects at first: {counts:?}"
    );
    assert_eq!(leaks(&mut judge), 1, "{:?}", judge.oracle.counts());
    let told = "client 7: entity 3#0 was sent, which its view does not allow, by 650000 us";
    assert_eq!(judge.oracle.counts().examples, [told]);
    // Now the client is told in time that it sees further.
    tick(&mut pair, &mut judge, &mut truth, 15, &[(3, at(80))]);
    let mut further = near_one();
    further.view.scope = Scope::Owner(Range::new(4000, 4000).expect("is a range"));
    judge.view.sight.tell(1, 800_000, further);
    assert_eq!(leaks(&mut judge), 1);
    // Its own entity it sees wherever that is, and the centre goes with it.
    tick(&mut pair, &mut judge, &mut truth, 16, &[(1, at(90))]);
    assert_eq!(leaks(&mut judge), 1);
    tick(&mut pair, &mut judge, &mut truth, 17, &[(2, at(51))]);
    assert_eq!(leaks(&mut judge), 1, "39 m from there");
    tick(&mut pair, &mut judge, &mut truth, 18, &[(2, at(49))]);
    assert_eq!(leaks(&mut judge), 2, "41 m");
}

/// A camera counts for as long as the relay may not know the next; where there is none, the own entity does.
#[test]
fn cameras_count_for_two_seconds() {
    let mut assigned = near_one();
    assigned.view.scope = Scope::Camera(Range::new(1000, 1200).expect("is a range"));
    assigned.entity = None;
    let (_, mut judge, _) = joined([at(50), at(59), at(99)], assigned);
    let truth = judge.oracle.reader().newest().expect("a frame").clone();
    let sees = |judge: &mut Judge, truth: &TruthFrame, now_us: u64, x: f64| {
        let (oracle, view) = (&judge.oracle, &mut judge.view);
        view.sight
            .outlook(oracle.reader(), truth, now_us)
            .sees(entity(3), 0, Some([x, 0.0, 0.0]))
    };
    let truth = TruthFrame {
        published_us: None,
        ..truth
    };
    use crate::bench::sight::Sees::{Never, Perhaps, Surely};
    assert_eq!(sees(&mut judge, &truth, 0, 0.0), Never, "it has neither");
    judge.view.sight.point(1_000_000, [0.0; 3]);
    assert_eq!(
        sees(&mut judge, &truth, 1_100_000, 5.0),
        Perhaps,
        "it may not be known"
    );
    assert_eq!(sees(&mut judge, &truth, 3_100_000, 5.0), Surely);
    assert_eq!(sees(&mut judge, &truth, 3_100_000, 11.0), Perhaps);
    assert_eq!(sees(&mut judge, &truth, 3_100_000, 12.1), Never);
    judge.view.sight.point(4_000_000, [20.0, 0.0, 0.0]);
    assert_eq!(sees(&mut judge, &truth, 3_900_000, 20.0), Never, "not sent yet");
    assert_eq!(sees(&mut judge, &truth, 4_100_000, 20.0), Perhaps);
    assert_eq!(sees(&mut judge, &truth, 4_100_000, 5.0), Perhaps);
    assert_eq!(sees(&mut judge, &truth, 6_100_000, 20.0), Surely);
    assert_eq!(sees(&mut judge, &truth, 6_100_000, 5.0), Never);
}

/// Tags that the view has not are hidden, wherever the entity is; who is hidden and shown at the end is a leak, who is in
/// view and not shown is missing, who is between is neither.
#[test]
fn the_end_is_judged_by_the_view() {
    let (mut pair, mut judge, mut truth) = joined([at(50), at(51), at(61)], near_one());
    let end = |judge: &mut Judge, pair: &Pair| {
        let Judge { oracle, view, .. } = judge;
        let end = oracle.check_end(view, &pair.client).expect("the truth is there");
        (end.missing, end.extra, end.leaks)
    };
    assert_eq!(end(&mut judge, &pair), (0, 0, 0));
    // The relay takes away entity 3, which may be in view, and then entity 2, which is.
    for (at, gone, found) in [(13, 3, (0, 0, 0)), (14, 2, (1, 0, 0))] {
        judge.publish(&step_one(&mut truth, at, &[(1, 5000)], &[]));
        pair.tick(at, &[(1, 5000)], &[gone], &mut judge);
        assert_eq!(end(&mut judge, &pair), found, "without {gone}");
    }
    let (mut pair, mut judge, mut truth) = joined([at(50), at(51), at(61)], near_one());
    let hide = |world: &mut World| {
        let update = TickUpdate {
            server_us: 650_000,
            tags: vec![TagUpdate {
                entity: entity(2),
                tags: 2,
            }],
            ..TickUpdate::default()
        };
        world.advance(Tick(15), &update).expect("is taken")
    };
    let frame = hide(&mut truth);
    judge.publish(&frame);
    let frame = hide(&mut pair.world);
    pair.shard.publish(frame, &pair.schema);
    for _ in 0..5 {
        pair.turn(|client| judge.check(client));
    }
    assert_eq!(end(&mut judge, &pair), (0, 0, 1), "{:?}", judge.oracle.counts());
}

/// A removal that only a view explains waits until the client may have been told of one; never told, it is wrong, but for
/// what had no time to be told.
#[test]
fn a_removal_waits_for_the_view_that_explains_it() {
    let assigned = Assigned {
        entity: None,
        view: Allowed {
            scope: Scope::Whole,
            tags: 1,
        },
    };
    let hidden = || {
        let (mut pair, first) = Pair::joined_with(assigned.view);
        let (mut judge, (mut truth, _)) = (Judge::new(), world(&[1, 2, 3]));
        judge.publish(&first);
        for at in 1..=12 {
            tick(&mut pair, &mut judge, &mut truth, at, &[(1, at)]);
        }
        let update = TickUpdate {
            server_us: 650_000,
            tags: vec![TagUpdate {
                entity: entity(2),
                tags: 2,
            }],
            ..TickUpdate::default()
        };
        judge.publish(&truth.advance(Tick(15), &update).expect("is taken"));
        let frame = pair.world.advance(Tick(15), &update).expect("is taken");
        pair.shard.publish(frame, &pair.schema);
        for _ in 0..5 {
            pair.turn(|client| judge.check(client));
        }
        assert_eq!(pair.client.display().live(), 2);
        assert_eq!(judge.oracle.counts().mismatches, 0, "{:?}", judge.oracle.counts());
        judge
    };
    let wrong = |judge: &mut Judge, newest_us: u64| {
        judge.oracle.settle_removals_last(&mut judge.view, newest_us);
        judge.oracle.counts().mismatches
    };
    assert_eq!(wrong(&mut hidden(), 1_649_999), 0, "it may be under way");
    let mut judge = hidden();
    assert_eq!(wrong(&mut judge, 1_650_000), 1, "nobody told it of a view");
    let told = "client 7: entity 2#0 removed (Hidden) at 650000 us, where the origin has it alive";
    assert_eq!(judge.oracle.counts().examples, [told]);
    let mut judge = hidden();
    judge.view.sight.tell(1, 900_000, assigned);
    judge.oracle.settle_removals(&mut judge.view, 900_000);
    assert_eq!(wrong(&mut judge, u64::MAX), 0, "told a quarter of a second later");
}

/// Starvation is from the first change that the client has not got to the snapshot with the next record; what rests
/// does not starve, nor does the own entity.
#[test]
fn starvation_is_measured_from_the_first_change() {
    let (mut pair, mut judge, mut truth) = joined([at(50), at(51), at(52)], near_one());
    judge.view.complete(550_000);
    judge.series = SeriesSet::default();
    // The truth moves entity 2 at 13 and 14. The relay, which was told of neither, says at 13 that it rests, and where it is
    // only at 16; where the own one is, at 18.
    for at in 13..=18u32 {
        let mut moved = vec![(3, at)];
        if at == 13 || at == 14 {
            moved.extend([(2, at), (1, at)]);
        }
        judge.publish(&step_one(&mut truth, u64::from(at), &moved, &[]));
        let told: &[(u32, u32)] = match at {
            16 => &[(3, 16), (2, 14)],
            18 => &[(3, 18), (1, 14)],
            at => &[(3, at)],
        };
        pair.tick(u64::from(at), told, &[], &mut judge);
    }
    let waits = |judge: &Judge| {
        let waits = judge.series.of(Series::Starvation).expect("is there");
        (waits.len(), waits.max() / 1000)
    };
    let (count, longest_ms) = waits(&judge);
    assert_eq!((count, longest_ms / 10), (8, 10), "16 less 14 is two ticks");
    let full = judge
        .series
        .of(Series::StarvationFull)
        .map(hdrhistogram::Histogram::len);
    assert_eq!(full, Some(8), "all of them at the full rate");
    // One that never comes shows at the end.
    for at in 19..=60u32 {
        tick_only(&mut pair, &mut judge, &mut truth, at, at == 20);
    }
    let Judge {
        oracle, view, series, ..
    } = &mut judge;
    oracle.watch_last(view, 60 * 50_000, series);
    let (_, longest_ms) = waits(&judge);
    assert_eq!(longest_ms / 100, 20, "60 less 20 is forty ticks");
}

/// A tick in which only entity 3 moves, as far as the relay knows; in the truth entity 2 does too.
fn tick_only(pair: &mut Pair, judge: &mut Judge, truth: &mut World, at: u32, also: bool) {
    let moved = [(3, at), (2, at)];
    let moved = &moved[..if also { 2 } else { 1 }];
    judge.publish(&step_one(truth, u64::from(at), moved, &[]));
    pair.tick(u64::from(at), &[(3, at)], &[], judge);
}
