//! From upstream events to frames on the shelf: the relay's one world, its tick counter, repeated frames.
//!
//! > Give [`take`](Intake::take) every event of the subscriber and [`hold`](Intake::hold) the time when it is due;
//! > frames go to the shelf, everything else is counted. Time is an argument; nothing here waits.
//!
//! Invariants: ticks rise by one for each frame of the process's life, across streams and connections (SPEC DEC6);
//! the last world stays until the first keyframe of a new stream is in (FAULTS 43); one bad item never ends the
//! stream (THREATS 83).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::players::INPUT_RESULTS;
use super::shelf::{Shelf, Shelved};
use super::status::RelayStatus;
use crate::limits::{ARENA_FRAMES, HOLD_AFTER_US, STALE_AFTER_US};
use crate::sequence::Tick;
use crate::state::frame::Frame;
use crate::state::schema::Schema;
use crate::state::tiers::TierSettings;
use crate::state::update::TickUpdate;
use crate::state::world::{Refusal, World};
use crate::upstream::subscriber::{Stream, SubscriberEvent};

/// Why items of upstream ticks were refused: the labels of `upstream_refusals_total{reason}`.
pub const REFUSAL_WORDS: [&str; 14] = [
    "time_fell",
    "time_too_large",
    "not_alive",
    "dead_generation",
    "already_alive",
    "unknown_class",
    "world_full",
    "out_of_range",
    "stale",
    "future",
    "unknown_field",
    "too_many_events",
    "too_many_directives",
    "directive_dropped",
];

/// What became of an attempt to connect: the labels of `upstream_connects_total{result}`. Each attempt counts,
/// a stream that is refused after it began as that too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connect {
    /// The origin said which stream it is.
    Connected,
    /// The name has no address now.
    Unresolved,
    /// There is no way to the address.
    Unreachable,
    /// The address's host is there, and nothing listens at the port.
    ConnectionRefused,
    /// Nothing came back in time.
    Unanswered,
    /// The connection was taken, and nobody said in time which stream it is: its process hangs or is paused.
    Silent,
    /// The connection was taken and ended before it was said which stream it is.
    Closed,
    /// It showed no certificate that is believed under its name, or one of the two ends speaks TLS and the other does not.
    Unbelieved,
    /// It was an origin, and one of the two sides refused the other.
    Refused,
    /// It was an origin of an older run than one that is known.
    Fenced,
}

impl Connect {
    /// Every result.
    pub const ALL: [Connect; 10] = [
        Connect::Connected,
        Connect::Unresolved,
        Connect::Unreachable,
        Connect::ConnectionRefused,
        Connect::Unanswered,
        Connect::Silent,
        Connect::Closed,
        Connect::Unbelieved,
        Connect::Refused,
        Connect::Fenced,
    ];

    /// The word used in metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Connect::Connected => "connected",
            Connect::Unresolved => "unresolved",
            Connect::Unreachable => "unreachable",
            Connect::ConnectionRefused => "connection_refused",
            Connect::Unanswered => "unanswered",
            Connect::Silent => "silent",
            Connect::Closed => "closed",
            Connect::Unbelieved => "unbelieved",
            Connect::Refused => "refused",
            Connect::Fenced => "fenced",
        }
    }
}

/// What the ingest has counted. Totals only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct IngestCounts {
    pub frames: u64,
    pub bytes: u64,
    pub holds: u64,
    pub epoch_changes: u64,
    pub malformed: u64,
    pub gaps: u64,
    pub connects: [u64; Connect::ALL.len()],
    /// In the order of [`REFUSAL_WORDS`].
    pub refusals: [u64; REFUSAL_WORDS.len()],
    /// In the order of [`INPUT_RESULTS`].
    pub inputs: [u64; INPUT_RESULTS.len()],
}

/// The relay's side of the upstream, without its socket.
pub struct Intake {
    shelf: Arc<Shelf>,
    status: Arc<RelayStatus>,
    world: Option<World>,
    schema: Arc<[u8]>,
    /// A stream that was announced and has not given a tick yet.
    announced: Option<(Arc<Schema>, Arc<[u8]>)>,
    stream_epoch: u32,
    tick: Tick,
    /// Directives published so far.
    directives: u64,
    connected: bool,
    last_tick_us: u64,
    hold_due_us: u64,
    counts: IngestCounts,
    tiers: Option<TierSettings>,
}

impl Intake {
    /// An intake without a world.
    #[must_use]
    pub fn new(shelf: Arc<Shelf>, status: Arc<RelayStatus>) -> Intake {
        Intake {
            shelf,
            status,
            world: None,
            schema: Arc::from([]),
            announced: None,
            stream_epoch: 0,
            tick: Tick(0),
            directives: 0,
            connected: false,
            last_tick_us: 0,
            hold_due_us: u64::MAX,
            tiers: None,
            counts: IngestCounts::default(),
        }
    }

    /// With rate tiers by density (SPEC CTL5).
    #[must_use]
    pub fn with_tiers(mut self, tiers: Option<TierSettings>) -> Intake {
        self.tiers = tiers;
        self
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> &IngestCounts {
        &self.counts
    }

    /// What was counted, for the driver to add to.
    pub fn counts_mut(&mut self) -> &mut IngestCounts {
        &mut self.counts
    }

    /// When the last frame is to be repeated if no tick comes before; [`u64::MAX`] while there is no world.
    #[must_use]
    pub fn hold_due_us(&self) -> u64 {
        self.hold_due_us
    }

    /// Takes one event. What is wrong comes back as one sentence, for a log that limits its rate.
    pub fn take(&mut self, now_us: u64, event: SubscriberEvent) -> Option<String> {
        match event {
            SubscriberEvent::Stream(stream) => {
                self.announce(stream);
                None
            }
            SubscriberEvent::Tick(update) => self.advance(now_us, &update),
            SubscriberEvent::Malformed(text) => {
                self.counts.malformed += 1;
                Some(text)
            }
            SubscriberEvent::Refused(text) => Some(text),
            SubscriberEvent::Ended => Some("the origin ended its stream".to_owned()),
        }
    }

    fn announce(&mut self, stream: Stream) {
        self.connected = true;
        self.status.connected.store(true, Ordering::Relaxed);
        let unknown = self.world.is_none() && self.announced.is_none();
        if !stream.continued || unknown {
            self.announced = Some((stream.schema, stream.schema_bytes));
        }
    }

    fn advance(&mut self, now_us: u64, update: &TickUpdate) -> Option<String> {
        if let Some((schema, bytes)) = self.announced.take() {
            self.counts.epoch_changes += u64::from(self.stream_epoch > 0);
            self.stream_epoch = self.stream_epoch.saturating_add(1);
            // A slot keeps its tombstone longer than any frame that names its last tenant.
            let quarantine_ticks = u32::try_from(ARENA_FRAMES).unwrap_or(u32::MAX).saturating_add(8);
            self.world = Some(World::new(schema, self.stream_epoch, quarantine_ticks).with_tiers(self.tiers));
            self.schema = bytes;
        }
        let world = self.world.as_mut()?;
        let frame = world.advance(self.tick.next(), update);
        let refused = world.refused();
        let complaint = refused
            .first()
            .map(|first| complaint(update.origin_tick, first, refused.len()));
        for refusal in refused {
            self.counts.refusals[place(refusal)] += 1;
        }
        if let Some(frame) = frame {
            self.counts.frames += 1;
            self.last_tick_us = now_us;
            self.status.last_tick_us.store(now_us, Ordering::Relaxed);
            let period_us = u64::from(frame.schema.tick_period_us);
            self.hold_due_us = now_us + HOLD_AFTER_US.max(3 * period_us);
            self.publish(now_us, frame);
            self.status.has_world.store(true, Ordering::Relaxed);
        }
        complaint
    }

    /// Repeats the last frame when that is due: ten times in the first second, then once a second. Time does not
    /// move, but losses heal and joining clients complete. True when a frame was published.
    pub fn hold(&mut self, now_us: u64) -> bool {
        if now_us < self.hold_due_us {
            return false;
        }
        self.repeat(now_us)
    }

    /// The connection is gone: clients are told at once that what they see is stale (SPEC OPS2).
    pub fn disconnected(&mut self, now_us: u64) {
        self.status.connected.store(false, Ordering::Relaxed);
        if core::mem::replace(&mut self.connected, false) {
            self.repeat(now_us);
        }
    }

    fn repeat(&mut self, now_us: u64) -> bool {
        let silent_us = now_us.saturating_sub(self.last_tick_us);
        let Some(world) = self.world.as_mut() else {
            return false;
        };
        let stale = !self.connected || silent_us >= STALE_AFTER_US;
        let frame = world.hold(self.tick.next(), stale);
        self.counts.holds += 1;
        self.hold_due_us = now_us
            + if silent_us < STALE_AFTER_US {
                HOLD_AFTER_US
            } else {
                STALE_AFTER_US
            };
        self.publish(now_us, frame);
        true
    }

    fn publish(&mut self, now_us: u64, frame: Arc<Frame>) {
        self.tick = frame.tick;
        let directives_before = self.directives;
        self.directives += frame.directives.len() as u64;
        self.shelf.publish(Shelved {
            frame,
            directives_before,
            schema: Arc::clone(&self.schema),
            taken_us: now_us,
        });
        self.status.frames.fetch_add(1, Ordering::Relaxed);
    }
}

fn complaint(origin_tick: u64, first: &Refusal, all: usize) -> String {
    match all {
        1 => format!("in upstream tick {origin_tick}: {first}"),
        _ => format!(
            "in upstream tick {origin_tick}: {first}; {} more items were refused",
            all - 1
        ),
    }
}

/// Index into [`REFUSAL_WORDS`] of directives that came with no tick.
pub const DIRECTIVE_DROPPED: usize = 13;

/// Index into [`REFUSAL_WORDS`].
fn place(refusal: &Refusal) -> usize {
    match refusal {
        Refusal::TimeFell { .. } => 0,
        Refusal::TimeTooLarge { .. } => 1,
        Refusal::NotAlive { .. } => 2,
        Refusal::DeadGeneration { .. } => 3,
        Refusal::AlreadyAlive(_) => 4,
        Refusal::UnknownClass { .. } => 5,
        Refusal::WorldFull { .. } => 6,
        Refusal::OutOfRange { .. } => 7,
        Refusal::Stale(_) => 8,
        Refusal::Future { .. } => 9,
        Refusal::UnknownField { .. } => 10,
        Refusal::TooManyEvents { .. } => 11,
        Refusal::TooManyDirectives { .. } => 12,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::entity::Entity;
    use crate::state::schema::tests::full_schema;
    use crate::state::update::{Despawn, Spawn};

    fn entity(id: u32) -> Entity {
        Entity { id, generation: 0 }
    }

    fn stream(continued: bool) -> SubscriberEvent {
        SubscriberEvent::Stream(Stream {
            epoch: 1,
            boot: 1,
            clock_id: 0,
            accepts: 0,
            continued,
            schema: Arc::new(full_schema()),
            schema_bytes: Arc::from([1, 2, 3]),
        })
    }

    fn keyframe(origin_tick: u64, server_us: u64, ids: &[u32]) -> SubscriberEvent {
        let spawned = ids
            .iter()
            .map(|id| Spawn {
                entity: entity(*id),
                class: 0,
                at_us: 0,
            })
            .collect();
        SubscriberEvent::Tick(TickUpdate {
            origin_tick,
            server_us,
            keyframe: true,
            spawned,
            ..TickUpdate::default()
        })
    }

    fn fixture() -> (Arc<Shelf>, Arc<RelayStatus>, Intake) {
        let (shelf, status) = (Arc::new(Shelf::new(Vec::new())), Arc::new(RelayStatus::new(0, 0)));
        let intake = Intake::new(Arc::clone(&shelf), Arc::clone(&status));
        (shelf, status, intake)
    }

    fn newest(shelf: &Shelf) -> Arc<Shelved> {
        let mut out = Vec::new();
        shelf.collect_after(None, &mut out);
        out.pop().unwrap()
    }

    /// SPEC OPS2, FAULTS 43: a lost upstream leaves the world, marked stale; a new run replaces it with its first
    /// keyframe and not before, under a rising tick and a new stream epoch.
    #[test]
    fn ops2_faults_43_the_world_stays_until_a_new_stream_has_a_keyframe() {
        let (shelf, status, mut intake) = fixture();
        assert!(
            !intake.hold(0) && shelf.newest().is_none(),
            "no world, nothing to repeat"
        );
        intake.disconnected(0);
        assert!(intake.take(1, stream(false)).is_none() && !status.has_world.load(Ordering::Relaxed));
        assert!(intake.take(10, keyframe(1, 50, &[1, 2])).is_none());
        assert!(status.has_world.load(Ordering::Relaxed) && status.connected.load(Ordering::Relaxed));
        let first = newest(&shelf);
        assert_eq!(
            (first.frame.tick, first.frame.stream_epoch, first.frame.live()),
            (Tick(1), 1, 2)
        );
        assert_eq!(
            (&*first.schema, first.taken_us, first.frame.stale),
            (&[1u8, 2, 3][..], 10, false)
        );

        intake.disconnected(20);
        let lost = newest(&shelf);
        assert!(lost.frame.stale && lost.frame.live() == 2 && lost.frame.tick == Tick(2));
        intake.disconnected(21);
        assert_eq!(shelf.newest(), Some(Tick(2)), "told once");
        assert!(status.unready().is_empty(), "FAULTS 81: still ready");

        intake.take(30, stream(false));
        assert_eq!(newest(&shelf).frame.stream_epoch, 1);
        intake.take(31, keyframe(1, 0, &[7]));
        let fresh = newest(&shelf);
        assert_eq!(
            (fresh.frame.tick, fresh.frame.stream_epoch, fresh.frame.live()),
            (Tick(3), 2, 1)
        );
        assert_eq!((intake.counts().epoch_changes, intake.counts().frames), (1, 2));
    }

    /// The same run again continues the stream, also when the first connection broke before its keyframe.
    #[test]
    fn a_continued_run_keeps_its_stream_epoch() {
        let (shelf, _, mut intake) = fixture();
        intake.take(1, stream(false));
        intake.disconnected(2);
        intake.take(3, stream(true));
        intake.take(4, keyframe(5, 50, &[1]));
        intake.disconnected(5);
        intake.take(6, stream(true));
        intake.take(7, keyframe(9, 90, &[1, 2]));
        let frame = newest(&shelf).frame.clone();
        assert_eq!((frame.stream_epoch, frame.live(), frame.tick), (1, 2, Tick(3)));
        assert_eq!(intake.counts().epoch_changes, 0);
    }

    /// Silence: ten repeated frames in the first second, then one a second, stale from the first second on.
    #[test]
    fn a_silent_upstream_is_held_and_then_called_stale() {
        let (shelf, _, mut intake) = fixture();
        intake.take(0, stream(false));
        intake.take(0, keyframe(1, 0, &[1]));
        let mut held = Vec::new();
        for now_us in (0..5_000_000).step_by(1_000) {
            if intake.hold(now_us) {
                held.push((now_us, newest(&shelf).frame.stale));
            }
        }
        let fresh = held.iter().filter(|(_, stale)| !stale).count();
        let first_us = HOLD_AFTER_US.max(3 * u64::from(full_schema().tick_period_us));
        assert_eq!(held[0], (first_us, false));
        assert!((8..=10).contains(&fresh), "{held:?}");
        assert!((4..=6).contains(&(held.len() - fresh)), "{held:?}");
        assert!(
            held.iter()
                .all(|(now_us, stale)| *stale == (*now_us >= STALE_AFTER_US)),
            "{held:?}"
        );
        intake.take(6_000_000, keyframe(2, 50, &[1]));
        assert!(!newest(&shelf).frame.stale && !intake.hold(6_050_000));
    }

    /// THREATS 83: a bad item is counted by reason and said in one sentence; the rest of the tick goes on.
    #[test]
    fn threats_83_a_bad_item_is_counted_and_the_tick_goes_on() {
        let (shelf, _, mut intake) = fixture();
        intake.take(0, stream(false));
        intake.take(0, keyframe(1, 50, &[1]));
        let despawn = |id| Despawn {
            entity: entity(id),
            at_us: 60,
            reason: 0,
        };
        let update = TickUpdate {
            origin_tick: 2,
            server_us: 60,
            despawned: vec![despawn(5), despawn(6), despawn(1)],
            ..TickUpdate::default()
        };
        let complaint = intake.take(1, SubscriberEvent::Tick(update.clone())).unwrap();
        assert!(
            complaint.starts_with("in upstream tick 2: despawn of entity 5"),
            "{complaint}"
        );
        assert!(complaint.ends_with("1 more items were refused"), "{complaint}");
        assert_eq!((newest(&shelf).frame.live(), intake.counts().refusals[2]), (0, 2));
        let complaint = intake
            .take(
                2,
                SubscriberEvent::Tick(TickUpdate {
                    server_us: 0,
                    ..update
                }),
            )
            .unwrap();
        assert!(complaint.contains("before the last frame's"), "{complaint}");
        assert_eq!((shelf.newest(), intake.counts().refusals[0]), (Some(Tick(2)), 1));
    }

    /// FAULTS 40: what was published beside a frame says whether a reader that was lapped has missed a directive.
    #[test]
    fn faults_40_directives_are_numbered_beside_the_frames() {
        use crate::state::player::{Directive, Order};
        let (shelf, _, mut intake) = fixture();
        intake.take(0, stream(false));
        intake.take(0, keyframe(1, 50, &[1]));
        for tick in 2..6u64 {
            let order = |player| Directive {
                player,
                order: Order::Processed(1),
            };
            let update = TickUpdate {
                origin_tick: tick,
                server_us: 50 * tick,
                directives: (0..tick % 3).map(order).collect(),
                ..TickUpdate::default()
            };
            intake.take(tick, SubscriberEvent::Tick(update));
        }
        let mut out = Vec::new();
        shelf.collect_after(Some(Tick(1)), &mut out);
        let numbers: Vec<(u64, u64)> = out
            .iter()
            .map(|shelved| (shelved.directives_before, shelved.directives()))
            .collect();
        assert_eq!(numbers, [(0, 2), (2, 2), (2, 3), (3, 5)]);
    }
}
