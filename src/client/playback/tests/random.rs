//! Random arrivals: loss, jitter, bursts, doubles, snapshots of which parts are missing, reordering, teleports, deaths, slow frames; what holds of every frame.
//!
//! `PLAYBACK_SEQUENCES` says how many sequences are tried.

use super::rig::{Dice, motion, schema};
use crate::client::display::Absence;
use crate::client::playback::evaluate::PoseMode;
use crate::client::playback::settings::{PlaybackSettings, PositionBlend};
use crate::client::playback::stage::{Drawn, Playback};
use crate::state::entity::Entity;
use crate::state::record::Record;
use crate::state::update::Event;

/// Metres from one segment to the next, and the width of what one moves in.
const BAND: f64 = 100.0;
const SLOTS: u16 = 3;

/// What is known to have been observed and to have arrived: entity, segment, time, at rest.
type Real = Vec<(Entity, u32, u64, bool)>;

/// One tick: the record of each slot if it was observed, who is there, and the events until now.
#[derive(Clone)]
struct Tick {
    server_us: u64,
    records: Vec<Option<Record>>,
    lives: Vec<Record>,
    /// When the life before the present one of each slot ended.
    ended_us: Vec<u64>,
    events: usize,
    /// A bit for each slot whose part does not get here the first time.
    missing: u64,
}

fn band(record: &Record) -> f64 {
    f64::from(record.entity.generation * 40 + record.segment) * BAND + f64::from(record.entity.id) * 30_000.0
        - 80_000.0
}

/// A world of three slots: one observed at each tick, one seldom, one whose lives are short.
fn world(dice: &mut Dice, period_us: u64) -> Vec<Tick> {
    let start_us = dice.below(1 << 40);
    let mut lives: Vec<Record> = (0..u32::from(SLOTS))
        .map(|id| Record::born(Entity { id, generation: 0 }, 0, start_us))
        .collect();
    let mut ended_us = vec![0; usize::from(SLOTS)];
    let mut events = 0;
    let torn = dice.percent(30);
    let mut ticks = Vec::new();
    for tick in 0..20 + dice.below(30) {
        let server_us = start_us + tick * period_us;
        let mut records = Vec::new();
        for (slot, life) in lives.iter_mut().enumerate() {
            let mut seen = tick == 0 || [true, dice.percent(15), true][slot];
            if slot == 2 && tick > 0 && dice.percent(20) {
                let next = Entity {
                    id: life.entity.id,
                    generation: life.entity.generation + 1,
                };
                *life = Record::born(next, 0, server_us);
                ended_us[slot] = server_us;
            } else if tick > 0 && dice.percent(8) {
                life.segment += 1;
                life.segment_us = server_us;
                life.motion = None;
                seen = dice.percent(80);
            }
            if seen {
                let along = (tick as f64 * 0.37).sin() * 5.0;
                let mut motion = motion(server_us, band(life) + along, dice.below(100) as f64 / 10.0 - 5.0);
                motion.at_rest = dice.percent(10);
                life.motion = Some(motion);
            }
            records.push(seen.then_some(*life));
        }
        events += dice.below(3) as usize;
        ticks.push(Tick {
            server_us,
            records,
            lives: lives.clone(),
            ended_us: ended_us.clone(),
            events,
            missing: match torn && tick > 0 && dice.percent(40) {
                true => dice.below(1 << SLOTS),
                false => 0,
            },
        });
    }
    ticks
}

/// When each tick's packet arrives, in order; several may come at once, or twice, or never.
fn arrivals(dice: &mut Dice, ticks: &[Tick], start_us: u64) -> Vec<(u64, usize)> {
    let (loss, jitter_us) = (dice.below(30), dice.below(200_000));
    let burst = dice.percent(30).then(|| dice.below(ticks.len() as u64) as usize);
    let hold_us = dice.below(2_000_000);
    let mut arrivals = Vec::new();
    for (index, tick) in ticks.iter().enumerate() {
        let mut at_us = start_us + (tick.server_us - ticks[0].server_us) + dice.below(jitter_us + 1);
        if burst.is_some_and(|from| index >= from) {
            let from = &ticks[burst.unwrap()];
            at_us = at_us.max(start_us + (from.server_us - ticks[0].server_us) + hold_us);
        }
        if index == 0 || !dice.percent(loss) {
            arrivals.push((at_us, index));
        }
        if dice.percent(5) {
            arrivals.push((at_us + dice.below(300_000), index));
        }
    }
    arrivals.sort_unstable();
    arrivals
}

/// The display's part: what is newest of each slot, in the order of ticks.
#[derive(Default)]
struct Shown {
    newest: Option<usize>,
    slots: Vec<Option<Entity>>,
    real: Real,
    events: usize,
    /// Ticks that came.
    taken: Vec<usize>,
    /// The newest tick that is whole, and what records of torn ones said: that an entity rests, and until when.
    whole_us: u64,
    vouched: Vec<(Entity, u64)>,
}

impl Shown {
    fn take(&mut self, playback: &mut Playback, ticks: &[Tick], index: usize, now_us: u64) {
        let tick = &ticks[index];
        let again = self.taken.contains(&index);
        let missing = if again { 0 } else { tick.missing };
        self.taken.push(index);
        playback.take_part(tick.server_us, missing == 0, now_us);
        if missing == 0 {
            self.whole_us = self.whole_us.max(tick.server_us);
        }
        self.slots.resize(usize::from(SLOTS), None);
        let newer = self.newest.is_none_or(|newest| index > newest);
        for slot in 0..SLOTS {
            let at = usize::from(slot);
            let life = &tick.lives[at];
            if missing >> slot & 1 == 1 {
                continue;
            }
            if newer && self.slots[at] != Some(life.entity) {
                if let Some(before) = self.slots[at] {
                    let absence = Absence::Destroyed {
                        at_us: tick.ended_us[at],
                        reason: 0,
                    };
                    playback.take_removed(slot, before, absence, tick.server_us);
                }
                self.slots[at] = Some(life.entity);
                self.note(life);
                playback.take_entered(slot, life, tick.server_us);
            } else if newer {
                self.note(life);
                playback.take_record(slot, life);
            } else if let Some(record) = &tick.records[at] {
                self.note(record);
                playback.take_record(slot, record);
            }
            if missing != 0 {
                self.vouched.push((life.entity, tick.server_us));
                playback.take_vouched(slot, life, tick.server_us);
            }
        }
        if newer {
            self.newest = Some(index);
            for number in self.events..tick.events {
                let of = ticks.iter().find(|tick| tick.events > number).unwrap();
                let event = Event {
                    at_us: of.server_us,
                    kind: number as u16,
                    critical: false,
                    entity: None,
                    payload: Vec::new(),
                };
                playback.hold(event).unwrap();
            }
            self.events = tick.events;
        }
    }

    fn note(&mut self, record: &Record) {
        if let Some(motion) = record.motion {
            let seen = (record.entity, record.segment, motion.observed_us, motion.at_rest);
            if !self.real.contains(&seen) {
                self.real.push(seen);
            }
        }
    }

    /// What holds of an entity that is drawn at `r_us`.
    fn check(&self, drawn: &Drawn, r_us: u64, period_us: u64) {
        let mut like = Record::born(drawn.entity, 0, 0);
        like.segment = drawn.at.segment;
        if let Some(pose) = drawn.at.pose {
            // Up to 5 m of its own way and 5 m/s x E_e: no teleport, and no other life, is in between.
            let off = (pose.position[0] - band(&like)).abs();
            assert!(off <= 6.2, "{drawn:?} is {off} m out of its segment");
        }
        let own = || {
            let of = |seen: &&(Entity, u32, u64, bool)| (seen.0, seen.1) == (drawn.entity, drawn.at.segment);
            self.real.iter().filter(of)
        };
        let left = own().map(|seen| seen.2).filter(|at| *at <= r_us).max();
        let right = own().map(|seen| seen.2).filter(|at| *at > r_us).min();
        let allowance_us = drawn.at.allowance_us;
        assert_eq!(allowance_us, period_us.max(100_000));
        let rested = own().any(|seen| Some(seen.2) == left && seen.3);
        let vouched = self.vouched.iter().filter(|vouched| vouched.0 == drawn.entity);
        let vouched_us = vouched.map(|vouched| vouched.1).max().unwrap_or(0);
        let known_us = self.whole_us.max(vouched_us);
        let in_rest = rested && r_us <= known_us.max(left.unwrap()) + allowance_us;
        let backed = match drawn.at.mode {
            PoseMode::Interpolated => left.is_some() && right.is_some(),
            // By its last velocity, or from the end of a rest.
            PoseMode::Extrapolated => left.is_some_and(|left| r_us - left <= allowance_us) || in_rest,
            PoseMode::Resting => rested && right.is_some() || in_rest,
            PoseMode::Stale | PoseMode::Missing => !drawn.at.valid_at_r,
        };
        assert!(backed, "{drawn:?} at {r_us}: {left:?} {right:?}");
        let valid = !matches!(drawn.at.mode, PoseMode::Stale | PoseMode::Missing);
        assert_eq!(drawn.at.valid_at_r, valid);
        assert!(!valid || drawn.at.sample_us == r_us);
    }
}

fn sequence(seed: u64) {
    let mut dice = Dice(seed);
    let period_us = [16_667, 50_000, 100_000][dice.below(3) as usize];
    let mut schema = schema();
    schema.tick_period_us = period_us as u32;
    let settings = PlaybackSettings {
        blend: [PositionBlend::Linear, PositionBlend::Hermite][dice.below(2) as usize],
        ..PlaybackSettings::default()
    };
    let mut playback = Playback::new(settings);
    playback.begin_stream(1, &schema);
    let ticks = world(&mut dice, period_us);
    let start_us = dice.below(1 << 40);
    let arrivals = arrivals(&mut dice, &ticks, start_us);
    let mut shown = Shown::default();
    let mut now_us = start_us;
    let (mut next, mut told) = (0, 0);
    let mut before_us = None;
    let end_us = arrivals.last().unwrap().0 + 1_500_000;
    while now_us < end_us {
        now_us += match dice.below(40) {
            0 => dice.below(900_000),
            1 => 0,
            _ => 4_000 + dice.below(30_000),
        };
        while let Some((at_us, index)) = arrivals.get(next).filter(|(at_us, _)| *at_us <= now_us) {
            shown.take(&mut playback, &ticks, *index, *at_us);
            next += 1;
        }
        playback.frame(now_us);
        let r_us = playback.r_us();
        assert!(r_us >= before_us, "r fell from {before_us:?} to {r_us:?}");
        before_us = r_us;
        while let Some(due) = playback.poll_due() {
            assert_eq!(usize::from(due.event.kind), told, "in order, once");
            assert!(Some(due.event.at_us) <= r_us && due.late_us == r_us.unwrap() - due.event.at_us);
            told += 1;
        }
        let Some(r_us) = r_us else { continue };
        let frozen = playback.rate() == 0.0;
        for drawn in playback.drawn() {
            if !frozen {
                shown.check(&drawn, r_us, period_us);
            }
        }
    }
    let newest = &ticks[shown.newest.unwrap()];
    let due = ticks
        .iter()
        .take_while(|tick| Some(tick.server_us) <= before_us)
        .map(|tick| tick.events)
        .max();
    assert!(told >= due.unwrap_or(0).min(shown.events), "an event is lost");
    assert_eq!(
        told + playback.events_waiting(),
        newest.events,
        "none is lost or doubled"
    );
}

/// SPEC PLY3, ENT1, ENT2, ENT4: r never falls, a teleport is never interpolated, what is valid lies between observations of its
/// own life and segment or at most E_e past one, and each event is told once, in order, at its time.
#[test]
fn ply3_ent2_ent4_random_arrivals_keep_every_promise() {
    let sequences = std::env::var("PLAYBACK_SEQUENCES")
        .ok()
        .and_then(|text| text.parse().ok());
    let first = std::env::var("PLAYBACK_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    for seed in first..first + sequences.unwrap_or(2_000) {
        let outcome = std::panic::catch_unwind(|| sequence(seed));
        assert!(outcome.is_ok(), "PLAYBACK_SEED={seed} PLAYBACK_SEQUENCES=1");
    }
}
