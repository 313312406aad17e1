//! A shot from the picture to the origin's verdict: relay, client and playback on one clock, the quote of what is drawn, and the
//! history it is checked against.

#![cfg(all(feature = "relay", feature = "client", feature = "origin"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod pair_harness;

use std::collections::{HashSet, VecDeque};

use ackline::client::playback::clock::ClockMode;
use ackline::client::playback::settings::PlaybackSettings;
use ackline::client::playback::stage::{Drawn, Playback};
use ackline::client::settings::ClientSettings;
use ackline::delta::quote::{Quote, Target};
use ackline::origin::lag::{LagCheck, LagRefusal, LagSettings, Shooter};
use ackline::origin::publisher::Publisher;
use ackline::state::entity::Entity;
use ackline::state::record::Record;
use ackline::state::sample::{Sample, WorldSample};
use ackline::state::schema::Schema;
use ackline::state::update::{Spawn, TickUpdate};
use ackline::wire::bytes::ByteReader;
use pair_harness::stage::{Guest, Stage};
use pair_harness::{PERIOD_US, moved, schema};

const ENTITIES: u32 = 20;
/// What the origin calls its stream.
const STREAM: u32 = 77;
/// Who jumps, and in which tick.
const JUMPER: u32 = 4;
const JUMP_TICK: u64 = 63;

fn update(tick: u64) -> TickUpdate {
    let mut update = moved(tick, 0..ENTITIES, u32::try_from(tick).unwrap());
    let jumps = |id: u32| id == JUMPER && tick >= JUMP_TICK;
    for observed in update
        .observed
        .iter_mut()
        .filter(|observed| jumps(observed.entity.id))
    {
        (observed.segment, observed.segment_us) = (1, JUMP_TICK * PERIOD_US);
    }
    update
}

/// Runs ticks of the world; the origin keeps each.
fn run(stage: &mut Stage, lag: &mut LagCheck, ticks: u32) {
    for _ in 0..ticks {
        stage.run(1, update);
        lag.publish(stage.frame.as_ref().unwrap());
    }
}

/// What is drawn of an entity, and the quote of a shot at it, as it comes out of the bytes of an input.
fn aim(stage: &Stage, id: u32) -> (Drawn, Quote) {
    let playback = stage.guests[0].playback.as_ref().unwrap();
    let drawn = playback.drawn().find(|drawn| drawn.entity.id == id).unwrap();
    let quote = playback.quote(STREAM, Some((drawn.slot, drawn.entity))).unwrap();
    let mut bytes = Vec::new();
    quote.encode(&mut bytes);
    assert_eq!(Quote::decode(&mut ByteReader::new(&bytes)), Ok(quote));
    (drawn, quote)
}

/// SPEC PLY8, PLY5, ENT4: the origin believes a shot at what was drawn and finds its target where it was drawn; a quote of an
/// earlier generation, of another segment, of another stream, or of a picture long past is refused.
#[test]
fn ply8_a_shot_at_what_is_drawn_is_believed_and_no_other() {
    let mut stage = Stage::new(ENTITIES);
    let mut guest = Guest::new(ClientSettings::default(), 4_000, stage.now_us);
    guest.playback = Some(Playback::new(PlaybackSettings::default()));
    stage.guests.push(guest);
    let mut lag = LagCheck::new(LagSettings {
        stream: STREAM,
        ..LagSettings::of_schema(&schema())
    });
    assert_eq!(
        stage.guests[0].playback.as_ref().unwrap().quote(STREAM, None),
        None,
        "nothing is seen yet"
    );
    run(&mut stage, &mut lag, 60);
    let now_us = 60 * PERIOD_US;
    let mut shooter = Shooter::default();
    let playback = stage.guests[0].playback.as_ref().unwrap();
    assert_eq!(playback.mode(), ClockMode::Playing);

    let (drawn, first) = aim(&stage, 9);
    assert!(first.view_ready && Some(first.r_us) == playback.r_us());
    let believed = lag.check(&mut shooter, &first, now_us).unwrap();
    let (seen, real) = (drawn.at.pose.unwrap().position, believed.target.unwrap().position);
    assert!(
        (0..3).all(|axis| (seen[axis] - real[axis]).abs() < 1e-6),
        "{seen:?} {real:?}"
    );

    let target = first.target.unwrap();
    let wrong = |segment| Quote {
        target: Some(Target { segment, ..target }),
        ..first
    };
    assert_eq!(
        lag.check(&mut shooter, &wrong(target.segment + 1), now_us),
        Err(LagRefusal::OtherSegment)
    );
    let other = Quote {
        stream: STREAM + 1,
        ..first
    };
    assert_eq!(
        lag.check(&mut shooter, &other, now_us),
        Err(LagRefusal::OtherStream)
    );

    // The jump is published, and not drawn yet: who aims at the old place is right, whoever quotes the new one is not.
    run(&mut stage, &mut lag, 3);
    let now_us = JUMP_TICK * PERIOD_US;
    let (drawn, before) = aim(&stage, JUMPER);
    assert_eq!(drawn.at.segment, 0);
    assert!(lag.check(&mut shooter, &before, now_us).is_ok());
    let early = Quote {
        target: Some(Target {
            segment: 1,
            ..before.target.unwrap()
        }),
        ..before
    };
    assert!(lag.check(&mut shooter, &early, now_us).is_err());

    // A shot of a later generation was believed: one of the generation before comes too late.
    let later = Quote {
        generation: before.generation + 1,
        ..before
    };
    assert!(lag.check(&mut shooter, &later, now_us).is_ok());
    assert_eq!(
        lag.check(&mut shooter, &before, now_us),
        Err(LagRefusal::OldGeneration)
    );

    run(&mut stage, &mut lag, 40);
    let now_us = (JUMP_TICK + 40) * PERIOD_US;
    let (drawn, _) = aim(&stage, JUMPER);
    assert_eq!(drawn.at.segment, 1);
    assert_eq!(lag.check(&mut shooter, &later, now_us), Err(LagRefusal::TooOld));
}

/// A tick under way: when it arrives, its time and its records.
type UnderWay = (u64, u64, Vec<(u16, Record)>);

/// An origin, a way and a playback of one period, without a relay between them.
struct Range {
    period_us: u64,
    publisher: Publisher,
    lag: LagCheck,
    playback: Playback,
    shooter: Shooter,
    under_way: VecDeque<UnderWay>,
    entered: HashSet<Entity>,
    believed: u32,
}

const RUNNER: u32 = 1;
const SPARSE: u32 = 2;
const NAPPER: u32 = 3;
/// Begins in tick 20, and is observed first in tick 24.
const LATE: u32 = 4;

fn named(id: u32) -> Entity {
    Entity { id, generation: 0 }
}

impl Range {
    fn new(period_us: u64) -> Range {
        let schema = Schema {
            tick_period_us: u32::try_from(period_us).unwrap(),
            ..schema()
        };
        let settings = LagSettings::of_schema(&schema);
        let mut playback = Playback::new(PlaybackSettings::default());
        playback.begin_stream(1, &schema);
        playback.take_complete_view();
        Range {
            period_us,
            publisher: Publisher::new(schema, 1, 2, 3).unwrap(),
            lag: LagCheck::new(settings),
            playback,
            shooter: Shooter::default(),
            under_way: VecDeque::new(),
            entered: HashSet::new(),
            believed: 0,
        }
    }

    fn publish(&mut self, tick: u64, arrives_us: u64) {
        let at_us = tick * self.period_us;
        let mut sample = WorldSample {
            server_us: at_us,
            ..WorldSample::default()
        };
        for (id, born) in [(RUNNER, 0), (SPARSE, 0), (NAPPER, 0), (LATE, 20)] {
            if tick == born {
                let entity = named(id);
                sample.spawned.push(Spawn {
                    entity,
                    class: 0,
                    at_us,
                });
            }
            let (observed, at_rest) = match id {
                SPARSE => (tick.is_multiple_of(2), false),
                NAPPER => (tick % 6 < 3, tick % 6 == 2),
                LATE => (tick >= 24, false),
                _ => (true, false),
            };
            if observed {
                sample.observed.push(Sample {
                    entity: named(id),
                    segment: 0,
                    observed_us: at_us,
                    position: [(tick % 200) as f64 * 0.05, 0.0, f64::from(id)],
                    rotation: [0.0, 0.0, 0.0, 1.0],
                    velocity: [1.0, 0.0, 0.0],
                    angular: [0.0; 3],
                    at_rest,
                });
            }
        }
        let published = self.publisher.publish(&sample, 0);
        assert_eq!(published.errors, []);
        let frame = published.frame.unwrap();
        self.lag.publish(&frame);
        let records = frame.records().map(|(slot, record)| (slot, *record)).collect();
        self.under_way.push_back((arrives_us, at_us, records));
    }

    /// A frame of the player; what it sees then, in the order of [`named`] ones.
    fn draw(&mut self, now_us: u64) -> Vec<Quote> {
        while let Some((arrives_us, at_us, records)) = self.under_way.front()
            && *arrives_us <= now_us
        {
            self.playback.take_snapshot(*at_us, *arrives_us);
            for (slot, record) in records.iter().filter(|(_, record)| record.motion.is_some()) {
                match self.entered.insert(record.entity) {
                    true => self.playback.take_entered(*slot, record, *at_us),
                    false => self.playback.take_record(*slot, record),
                }
            }
            self.under_way.pop_front();
        }
        self.playback.frame(now_us);
        let drawn: Vec<(u16, Entity)> = self
            .playback
            .drawn()
            .map(|drawn| (drawn.slot, drawn.entity))
            .collect();
        drawn
            .into_iter()
            .filter_map(|target| self.playback.quote(0, Some(target)))
            .collect()
    }

    /// The origin hears of shots at its time `now_us`.
    fn hear(&mut self, quotes: &[Quote], now_us: u64) {
        for quote in quotes
            .iter()
            .filter(|quote| quote.target.unwrap().sight.is_valid())
        {
            if !quote.view_ready {
                continue;
            }
            let outcome = self.lag.check(&mut self.shooter, quote, now_us);
            assert!(
                outcome.is_ok(),
                "{} us: {outcome:?} {quote:?} at {now_us}",
                self.period_us
            );
            let there = if now_us >= 20 * self.period_us {
                LATE
            } else {
                NAPPER
            };
            let view = (RUNNER..=there).map(named);
            assert_eq!(
                self.lag.check_view(quote.r_us, view),
                Ok(()),
                "{} us: {quote:?}",
                self.period_us
            );
            self.believed += 1;
        }
    }
}

/// SPEC PLY1, PLY5, ENT7: from one tick a second to a thousand, whoever quotes what its playback showed is believed: with a delay
/// of two periods, in a freeze, on a way of 0.1 s there and 0.1 s back and a wait for the next tick; and so is its view
/// while somebody is born that nobody has seen yet.
#[test]
fn ply1_an_honest_player_is_believed_at_every_rate() {
    for period_us in [1_000_000, 500_000, 200_000, 50_000, 16_667, 8_000, 2_000, 1_000] {
        let mut range = Range::new(period_us);
        let (mut tick, mut shots) = (0, VecDeque::<(u64, Vec<Quote>)>::new());
        let end_us = (period_us * 60).max(4_000_000);
        for frame in 0u64.. {
            let now_us = frame * 10_000;
            if now_us > end_us {
                break;
            }
            while tick * period_us <= now_us {
                // Nothing comes for 0.4 s of every 3.
                let stalls_us = (3_000_000 - tick * period_us % 3_000_000).min(400_000);
                let waits_us = if stalls_us < 400_000 { stalls_us } else { 0 };
                range.publish(tick, tick * period_us + 100_000 + waits_us);
                let now_us = tick * period_us;
                while shots.front().is_some_and(|(at_us, _)| *at_us <= now_us) {
                    let (_, quotes) = shots.pop_front().unwrap();
                    range.hear(&quotes, now_us);
                }
                tick += 1;
            }
            let quotes = range.draw(now_us);
            shots.push_back((now_us + 100_000, quotes));
        }
        assert!(range.believed > 300, "{period_us} us: {}", range.believed);
    }
}
