use super::*;
use crate::bench::truth::tests::{step_as, world};
use crate::client::settings::ClientSettings;
use crate::delta::schema;
use crate::relay::budget::Budget;
use crate::relay::outbox::{MemoryOutbox, Path};
use crate::relay::shard::{Shard, ShardSettings};
use crate::sequence::Tick;
use crate::state::frame::Frame;
use crate::state::world::World;
use crate::wire::version::Versions;

/// A relay's core and a client, joined by hand.
struct Pair {
    shard: Shard,
    client: Client,
    world: World,
    now_us: u64,
    schema: Vec<u8>,
}

impl Pair {
    /// A client that has the first frame of a world of entities 1, 2 and 3.
    fn joined() -> (Pair, Arc<Frame>) {
        Pair::joined_with(crate::state::view::View::WHOLE)
    }

    /// The same at a relay of this view.
    fn joined_with(view: crate::state::view::View) -> (Pair, Arc<Frame>) {
        let (world, first) = world(&[1, 2, 3]);
        let shard = Shard::new(ShardSettings {
            egress_bytes_per_s: None,
            view,
            index: 0,
            sessions_max: 10,
            budget: Budget::default(),
            gate: None,
            versions: Versions::SPOKEN,
            limits: Default::default(),
            cookie_secret: [1; 32],
            seed: [2; 32],
            stopwatch: || 0,
        });
        let client = Client::new(ClientSettings::default(), [3; 16], 0);
        let schema = schema::encode(&first.schema).expect("encodes");
        let mut pair = Pair {
            shard,
            client,
            world,
            now_us: 0,
            schema,
        };
        pair.shard.publish(Arc::clone(&first), &pair.schema);
        for _ in 0..20 {
            pair.turn(|_| {});
        }
        let held = pair.world.hold(Tick(2), false);
        pair.shard.publish(held, &pair.schema);
        for _ in 0..20 {
            pair.turn(|_| {});
        }
        assert_eq!(pair.client.display().live(), 3);
        (pair, first)
    }

    /// Ten milliseconds in which everything due goes both ways; `look` after each datagram that came down.
    fn turn(&mut self, mut look: impl FnMut(&mut Client)) {
        self.now_us += 10_000;
        let path = Path {
            remote: ([127, 0, 0, 1], 9).into(),
            local: None,
        };
        let (mut outbox, mut datagram) = (MemoryOutbox::default(), Vec::new());
        while self.client.poll_transmit(self.now_us, &mut datagram) {
            self.shard.receive(self.now_us, path, &mut datagram, &mut outbox);
        }
        self.shard.timers(self.now_us, &mut outbox);
        self.shard.transmit(self.now_us, &mut outbox);
        for (_, mut datagram) in outbox.sent {
            self.client.receive(self.now_us, &mut datagram);
            look(&mut self.client);
        }
    }

    /// The relay publishes a tick of 50 ms; the oracle judges what comes of it.
    fn tick(&mut self, at: u64, moved: &[(u32, u32)], gone: &[u32], judge: &mut Judge) -> Arc<Frame> {
        let frame = step_one(&mut self.world, at, moved, gone);
        self.shard.publish(Arc::clone(&frame), &self.schema);
        for _ in 0..5 {
            self.turn(|client| judge.check(client));
        }
        frame
    }
}

/// The frame number `at` of a world: consecutive ticks, 50 ms apart.
fn step_one(world: &mut World, at: u64, moved: &[(u32, u32)], gone: &[u32]) -> Arc<Frame> {
    let tick = Tick(u32::try_from(at).expect("fits") + 2);
    step_as(world, tick, at * 50_000, moved, gone, &[])
}

struct Judge {
    oracle: Oracle,
    view: View,
    series: SeriesSet,
    log: Arc<TruthLog>,
    parts: u64,
    late: u64,
}

impl Judge {
    fn new() -> Judge {
        let log = TruthLog::new(u64::MAX / 2);
        log.begin_stream();
        let oracle = Oracle::new(Some(Arc::clone(&log)));
        Judge {
            oracle,
            view: View::new(7, true),
            series: SeriesSet::default(),
            log,
            parts: 0,
            late: 0,
        }
    }

    fn publish(&self, frame: &Arc<Frame>) {
        self.log.push(0, Arc::clone(frame), Some(1));
    }

    fn check(&mut self, client: &Client) {
        let statistics = client.statistics();
        if core::mem::replace(&mut self.parts, statistics.parts_received) == self.parts {
            return;
        }
        let late = core::mem::replace(&mut self.late, statistics.parts_late) < self.late;
        self.oracle
            .check(&mut self.view, client, late, true, 1000, &mut self.series);
    }
}

/// What the origin really published is right, and a difference in one field of one record is found and told.
#[test]
fn one_wrong_field_is_one_mismatch() {
    let (mut pair, first) = Pair::joined();
    let (mut judge, (mut truth, _)) = (Judge::new(), world(&[1, 2, 3]));
    judge.publish(&first);
    for at in 1..=20u32 {
        let moved = [(1, at), (2, at * 2)];
        let wrong = if at == 9 { [(1, 9), (2, 19)] } else { moved };
        judge.publish(&step_one(&mut truth, u64::from(at), &wrong, &[]));
        pair.tick(u64::from(at), &moved, &[], &mut judge);
    }
    let counts = judge.oracle.counts();
    assert_eq!(
        (counts.records_checked, counts.mismatches, counts.unchecked),
        (40, 1, 0),
        "{counts:?}"
    );
    let told = "client 7: entity 2#0 at 450000 us: position is [18, 0, 0], the origin's [19, 0, 0]";
    assert!(
        counts.examples.len() == 1 && counts.examples[0].starts_with(told),
        "{counts:?}"
    );
}

/// A snapshot that comes before its truth is judged once that is there.
#[test]
fn checks_wait_for_the_truth() {
    let (mut pair, first) = Pair::joined();
    let (mut judge, (mut truth, _)) = (Judge::new(), world(&[1, 2, 3]));
    for at in 1..=3u32 {
        pair.tick(u64::from(at), &[(1, at)], &[], &mut judge);
    }
    assert_eq!(
        (
            judge.oracle.counts().records_checked,
            judge.oracle.waiting_entries
        ),
        (0, 3)
    );
    judge.publish(&first);
    for at in 1..=2u32 {
        judge.publish(&step_one(
            &mut truth,
            u64::from(at),
            &[(1, if at == 2 { 99 } else { at })],
            &[],
        ));
    }
    judge.oracle.refresh(2000, &mut judge.series);
    let counts = judge.oracle.counts().clone();
    assert_eq!(
        (
            counts.records_checked,
            counts.mismatches,
            judge.oracle.waiting_entries
        ),
        (2, 1, 1)
    );
    judge.oracle.finish();
    assert_eq!(judge.oracle.counts().unchecked, 1, "its truth never came");
}

/// An origin that was killed and started again shows its first ticks to the relay before the bench is back: what was not
/// observed again is compared with the first frame that came, what was is counted apart, and all that follows is
/// compared.
#[test]
fn a_stream_joined_late_leaves_nothing_unchecked() {
    for (wrong, mismatches) in [(false, 0), (true, 1)] {
        let (mut pair, _) = Pair::joined();
        let (mut judge, (mut truth, _)) = (Judge::new(), world(&[1, 2, 3]));
        let mut frames = Vec::new();
        for at in 1..=4u32 {
            let moved = [(1, at), (2, if wrong { 9 } else { 1 })];
            let moved = &moved[..if at == 1 { 2 } else { 1 }];
            frames.push(step_one(&mut truth, u64::from(at), moved, &[]));
        }
        pair.tick(1, &[(1, 1), (2, 1)], &[], &mut judge);
        pair.tick(2, &[(1, 2)], &[], &mut judge);
        assert_eq!(judge.oracle.counts().records_checked, 0, "it waits");
        judge.log.join_stream();
        judge.publish(&frames[2]);
        judge.oracle.refresh(2000, &mut judge.series);
        // Of the first two ticks, entity 2 at rest is what the joined frame has too.
        let counts = judge.oracle.counts();
        assert_eq!(
            (counts.unchecked, counts.mismatches),
            (0, mismatches * 2),
            "{counts:?}"
        );
        if !wrong {
            assert_eq!((counts.records_checked, counts.at_seams), (1, 3), "{counts:?}");
        }
        let before = counts.clone();
        for at in 3..=4u32 {
            if at == 4 {
                judge.publish(&frames[3]);
            }
            pair.tick(u64::from(at), &[(1, at)], &[], &mut judge);
        }
        let counts = judge.oracle.counts();
        assert_eq!(counts.records_checked, before.records_checked + 2, "{counts:?}");
        assert_eq!(
            (counts.unchecked, counts.at_seams),
            (0, before.at_seams),
            "{counts:?}"
        );
    }
}

/// A late part of a tick before a stream was joined is no mismatch; one of a stream known from its beginning is.
#[test]
fn a_late_part_from_before_a_stream_was_joined_is_not_judged() {
    for (joined, counted) in [(true, (0, 1)), (false, (1, 0))] {
        let (mut pair, _) = Pair::joined();
        let (mut judge, (mut truth, _)) = (Judge::new(), world(&[1, 2, 3]));
        let frames: Vec<_> = (1..=2)
            .map(|at| step_one(&mut truth, u64::from(at), &[(1, at)], &[]))
            .collect();
        if joined {
            judge.log.join_stream();
        }
        judge.publish(&frames[1]);
        judge.oracle.refresh(0, &mut judge.series);
        judge.view.truth_stream = Some(if joined { 2 } else { 1 });
        judge.view.relay_stream = pair.client.stream_epoch();
        let frame = step_one(&mut pair.world, 1, &[(1, 1)], &[]);
        pair.shard.publish(frame, &pair.schema);
        let mut parts = pair.client.statistics().parts_received;
        for _ in 0..5 {
            pair.turn(|client| {
                let before = core::mem::replace(&mut parts, client.statistics().parts_received);
                if parts > before {
                    let Judge {
                        oracle, view, series, ..
                    } = &mut judge;
                    oracle.check(view, client, true, false, 1, series);
                }
            });
        }
        let counts = judge.oracle.counts().clone();
        assert_eq!((counts.mismatches, counts.at_seams), counted, "{counts:?}");
    }
}

/// A record that was true a tick ago is not true now; a time at which nothing was published is never right.
#[test]
fn old_records_and_made_up_times_are_mismatches() {
    let (mut pair, first) = Pair::joined();
    let (mut judge, (mut truth, _)) = (Judge::new(), world(&[1, 2, 3]));
    judge.publish(&first);
    // The origin moved on to 6 at once; the relay tells the positions one tick late.
    for at in 1..=3u32 {
        judge.publish(&step_one(&mut truth, u64::from(at), &[(1, at + 5)], &[]));
    }
    pair.tick(1, &[(1, 5)], &[], &mut judge);
    pair.tick(2, &[(1, 6)], &[], &mut judge);
    assert_eq!(
        (
            judge.oracle.counts().records_checked,
            judge.oracle.counts().mismatches
        ),
        (2, 2)
    );
    let frame = step_as(&mut pair.world, Tick(5), 125_000, &[(1, 8)], &[], &[]);
    pair.shard.publish(frame, &pair.schema);
    for _ in 0..5 {
        pair.turn(|client| judge.check(client));
    }
    assert_eq!(
        (
            judge.oracle.counts().records_checked,
            judge.oracle.counts().mismatches
        ),
        (3, 3)
    );
}

/// What a client takes away must be dead; what lives must be shown at the end, and nothing else.
#[test]
fn members_are_judged_both_ways() {
    let (mut pair, first) = Pair::joined();
    let (mut judge, (mut truth, _)) = (Judge::new(), world(&[1, 2, 3]));
    judge.publish(&first);
    judge.publish(&step_one(&mut truth, 1, &[(1, 1)], &[]));
    pair.tick(1, &[(1, 1)], &[], &mut judge);
    assert_eq!(
        judge
            .oracle
            .check_end(&mut judge.view, &pair.client)
            .map(|end| end.faults()),
        Some(0)
    );
    // The relay ends entity 3, the origin ends entity 2.
    judge.publish(&step_one(&mut truth, 2, &[(1, 2)], &[2]));
    pair.tick(2, &[(1, 2)], &[3], &mut judge);
    assert_eq!(judge.oracle.counts().mismatches, 1, "{:?}", judge.oracle.counts());
    assert!(
        judge.oracle.counts().examples[0].contains("entity 3#0 removed"),
        "{:?}",
        judge.oracle.counts()
    );
    let end = judge
        .oracle
        .check_end(&mut judge.view, &pair.client)
        .expect("the truth is there");
    assert_eq!((end.missing, end.extra), (1, 1));
    judge.oracle.settle_end(&judge.view, &end);
    assert_eq!(
        (
            judge.oracle.counts().mismatches,
            judge.oracle.counts().tables_checked
        ),
        (2, 1)
    );
}

/// A held table is compared record by record; one that lags is right if it was true before.
#[test]
fn tables_are_compared_whole() {
    let (mut pair, first) = Pair::joined();
    let (mut judge, (mut truth, _)) = (Judge::new(), world(&[1, 2, 3]));
    judge.publish(&first);
    for at in 1..=3u32 {
        judge.publish(&step_one(&mut truth, u64::from(at), &[(1, at), (3, at)], &[]));
        pair.tick(u64::from(at), &[(1, at), (3, at)], &[], &mut judge);
    }
    let newest = *pair.client.newest().expect("a snapshot came");
    let check = |judge: &mut Judge, client: &Client| {
        let (_, table) = client
            .tables()
            .find(|(held, _)| held.id == newest.id)
            .expect("it is held");
        judge.oracle.check_table(&judge.view, table, newest.server_us);
        judge.oracle.counts().mismatches
    };
    assert_eq!(check(&mut judge, &pair.client), 0);
    // Another origin that never had entity 3 where the table has it.
    let (mut other, (mut truth, first)) = (Judge::new(), world(&[1, 2, 3]));
    other.publish(&first);
    for at in 1..=3u32 {
        other.publish(&step_one(
            &mut truth,
            u64::from(at),
            &[(1, at), (3, at + 40)],
            &[],
        ));
    }
    other.view.truth_stream = Some(1);
    other.oracle.refresh(0, &mut other.series);
    assert_eq!(check(&mut other, &pair.client), 1);
    assert_eq!(
        (
            judge.oracle.counts().tables_checked,
            other.oracle.counts().tables_checked
        ),
        (1, 1)
    );
}

/// A session is judged by the stream in which its first snapshot is true, whatever its number at the relay.
#[test]
fn sessions_find_their_stream() {
    let (mut pair, first) = Pair::joined();
    let (mut judge, (mut truth, _)) = (Judge::new(), world(&[1, 2, 3]));
    judge.publish(&first);
    judge.publish(&step_one(&mut truth, 1, &[(1, 77)], &[]));
    judge.log.begin_stream();
    let (mut truth, first) = world(&[3, 2, 1]);
    judge.publish(&first);
    for at in 1..=2u32 {
        judge.publish(&step_one(&mut truth, u64::from(at), &[(1, at)], &[]));
        pair.tick(u64::from(at), &[(1, at)], &[], &mut judge);
    }
    assert_eq!(
        (judge.view.stream(), judge.oracle.counts().mismatches),
        (Some(2), 0)
    );
    assert_eq!(
        judge.oracle.counts().records_checked,
        2,
        "slots differ, entities decide"
    );
}

mod views;
