//! Bodies of one entry, written by hand: one for each way in which an entry can be wrong, and a few right ones
//! that this relay does not send.

use std::collections::BTreeMap;

use ackline::state::schema::Rate;
use ackline::wire::snapshot::SnapshotHeader;

use crate::bits::{Bits, Field, zigzag};
use crate::damage::{Scene, Shot};
use crate::dice::Dice;
use crate::forge::{AWAKE, COMPLETE, Forge, GENERAL, ID, LIFE, MOTION, REMOVE};
use crate::payload::Payload;

/// A kind of entry: its name, the word for it, and how it is written; `None` when the base has no record for it.
pub type Entry = (&'static str, &'static str, fn(&mut Forge<'_>) -> Option<()>);

/// A moving member of a schema with such a rate: its motion begins with that rate's mask bit alone.
fn rate_change(
    forge: &mut Forge<'_>,
    at: u32,
    rate: Option<Rate>,
    change: impl Fn(i32, i64) -> i64,
) -> Option<()> {
    let rate = rate?;
    let (_, motion) = forge.mover()?;
    forge.motion(forge.server_us, 1 << at);
    let value = if at == 2 {
        motion.velocity[0]
    } else {
        motion.angular[0]
    };
    let difference = change(value, i64::from(rate.highest()));
    forge.bits.three(Field::Rate, [zigzag(difference), 0, 0]);
    Some(())
}

pub const ENTRIES: &[Entry] = &[
    ("general says nothing", "not_canonical", |f| {
        f.member(|_| true)?;
        f.kind(GENERAL);
        f.bits.put(0b000, 3);
        Some(())
    }),
    ("general says motion alone", "not_canonical", |f| {
        f.mover()?;
        f.kind(GENERAL);
        f.bits.put(0b001, 3);
        Some(())
    }),
    (
        "observed again at its own time, unchanged",
        "not_canonical",
        |f| {
            let (_, motion) = f.mover()?;
            f.motion(motion.observed_us, 0);
            Some(())
        },
    ),
    ("observed before the baseline", "time_range", |f| {
        let (_, motion) = f.mover().filter(|(_, motion)| motion.observed_us > 0)?;
        let back = 1 + f.dice.below(motion.observed_us);
        f.motion(motion.observed_us - back, 0);
        Some(())
    }),
    ("observed before time began", "time_range", |f| {
        f.mover()?;
        f.kind(MOTION);
        f.bits.age(f.server_us + 1, f.schema);
        Some(())
    }),
    ("age 0 in its long form", "not_canonical", |f| {
        f.mover()?;
        f.kind(MOTION);
        f.bits.long_age(0, 0);
        Some(())
    }),
    ("age with too many ticks", "not_canonical", |f| {
        f.mover()?;
        f.kind(MOTION);
        f.bits.long_age(2, -i64::from(f.schema.tick_period_us));
        Some(())
    }),
    ("age with too few ticks", "not_canonical", |f| {
        f.mover()?;
        f.kind(MOTION);
        f.bits.long_age(0, i64::from(f.schema.tick_period_us));
        Some(())
    }),
    ("age of half a tick rounded down", "not_canonical", |f| {
        let half = i64::from(f.schema.tick_period_us + 1) / 2;
        f.mover()?;
        f.kind(MOTION);
        f.bits.long_age(0, half);
        Some(())
    }),
    ("age below zero", "not_canonical", |f| {
        f.mover()?;
        f.kind(MOTION);
        f.bits.long_age(1, -2 * i64::from(f.schema.tick_period_us));
        Some(())
    }),
    ("age of 1059 ticks as a plain time", "not_canonical", |f| {
        f.mover()?;
        f.kind(MOTION);
        f.bits.far_age(u64::from(f.schema.tick_period_us) * 1059);
        Some(())
    }),
    ("time of 49 bits", "out_of_range", |f| {
        f.mover()?;
        f.kind(MOTION);
        f.bits.far_age(1 << (48 + f.dice.below(15)));
        Some(())
    }),
    ("position as before", "not_canonical", |f| {
        let (_, motion) = f.mover()?;
        f.motion(f.server_us, 1);
        let predicted = f.predicted(&motion, f.server_us);
        let residual = |axis: usize| zigzag(i64::from(motion.position[axis]) - predicted[axis]);
        f.bits.three(
            Field::Position(motion.at_rest),
            [residual(0), residual(1), residual(2)],
        );
        Some(())
    }),
    ("position beyond its axis", "out_of_range", |f| {
        let highest = i64::from(f.schema.position[1].highest());
        let (_, motion) = f.mover().filter(|_| highest < 1 << 31)?;
        f.motion(f.server_us, 1);
        let predicted = f.predicted(&motion, f.server_us);
        let beyond = if f.dice.chance(500) { -1 } else { highest + 1 };
        f.bits.three(
            Field::Position(motion.at_rest),
            [1, zigzag(beyond - predicted[1]), 0],
        );
        Some(())
    }),
    ("position wider than needed", "not_canonical", |f| {
        f.tuned(false)?;
        f.mover()?;
        f.motion(f.server_us, 1);
        f.bits.triple(
            Field::Rate,
            [1, 2, 3],
            Some(3 + u32::try_from(f.dice.below(28)).unwrap()),
        );
        Some(())
    }),
    ("rotation as before", "not_canonical", |f| {
        f.mover()?;
        f.motion(f.server_us, 0b10);
        f.bits.put(1, 1);
        f.bits.three(Field::Rotation, [0; 3]);
        Some(())
    }),
    ("rotation wider than needed", "not_canonical", |f| {
        f.tuned(false)?;
        f.mover()?;
        f.motion(f.server_us, 0b10);
        f.bits.put(1, 1);
        f.bits.triple(Field::Rotation, [0, 1, 0], Some(2));
        Some(())
    }),
    ("rotation whole with the same largest", "not_canonical", |f| {
        let (_, motion) = f.mover()?;
        f.motion(f.server_us, 0b10);
        f.bits.put(u64::from(motion.rotation.largest) << 1, 3);
        (0..3).for_each(|_| f.bits.put(0, u32::from(f.schema.rotation_bits)));
        Some(())
    }),
    ("rotation whole above its highest", "out_of_range", |f| {
        let (_, motion) = f.mover()?;
        f.motion(f.server_us, 0b10);
        f.bits.put(u64::from((motion.rotation.largest + 1) % 4) << 1, 3);
        let bits = u32::from(f.schema.rotation_bits);
        match f.bits.is_tuned() {
            true => f.bits.three(Field::Rotation, [1 << (bits + 1), 0, 0]),
            false => (0..3).for_each(|_| f.bits.put((1 << bits) - 1, bits)),
        }
        Some(())
    }),
    ("rotation part below zero", "out_of_range", |f| {
        let (_, motion) = f.mover()?;
        f.motion(f.server_us, 0b10);
        f.bits.put(1, 1);
        f.bits.three(
            Field::Rotation,
            [zigzag(-1 - i64::from(motion.rotation.parts[0])), 0, 0],
        );
        Some(())
    }),
    ("tuned, a rate that there is not", "not_canonical", |f| {
        f.tuned(true)?;
        let absent = [(2, f.schema.velocity), (3, f.schema.angular)];
        let (at, _) = absent.into_iter().find(|(_, rate)| rate.is_none())?;
        f.mover()?;
        f.motion(f.server_us, 1 << at);
        Some(())
    }),
    ("tuned, a first motion that changes", "not_canonical", |f| {
        f.tuned(true)?;
        f.member(|record| record.motion.is_none())?;
        let mask = 1 << f.dice.below(4);
        f.motion(f.server_us, mask);
        Some(())
    }),
    ("tuned, general within general", "not_canonical", |f| {
        f.tuned(true)?;
        f.member(|_| true)?;
        f.kind(GENERAL);
        f.bits.put(0b101, 3);
        f.bits.symbol(1, 32 + f.dice.below(4));
        Some(())
    }),
    ("tuned, a number of 33 bits", "out_of_range", |f| {
        f.tuned(true)?;
        let (_, motion) = f.mover()?;
        f.motion(f.server_us, 1);
        f.bits.symbol(2 + usize::from(motion.at_rest), 15);
        f.bits.put(18 + f.dice.below(14), 5);
        Some(())
    }),
    ("tuned, a gap of 33 bits", "out_of_range", |f| {
        f.tuned(true)?;
        f.bits.symbol(0, 15);
        f.bits.put(18 + f.dice.below(14), 5);
        Some(())
    }),
    ("velocity beyond its bound", "out_of_range", |f| {
        rate_change(f, 2, f.schema.velocity, |value, highest| {
            highest + 1 - i64::from(value)
        })
    }),
    ("velocity far beyond its bound", "out_of_range", |f| {
        rate_change(f, 2, f.schema.velocity, |_, _| i64::from(i32::MIN))
    }),
    ("velocity as before", "not_canonical", |f| {
        rate_change(f, 2, f.schema.velocity, |_, _| 0)
    }),
    ("angular velocity beyond its bound", "out_of_range", |f| {
        rate_change(f, 3, f.schema.angular, |value, highest| {
            -highest - 1 - i64::from(value)
        })
    }),
    ("angular velocity as before", "not_canonical", |f| {
        rate_change(f, 3, f.schema.angular, |_, _| 0)
    }),
    ("extra field by zero", "not_canonical", |f| {
        let first = f.schema.extras.first()?;
        f.member(|_| true)?;
        f.kind(GENERAL);
        f.bits.put(0b100, 3);
        f.bits.put(1, u32::try_from(f.schema.extras.len()).unwrap());
        f.bits.put(0, u32::from(first.bits));
        Some(())
    }),
    ("extra fields changed, none named", "not_canonical", |f| {
        f.member(|_| true)?;
        f.kind(GENERAL);
        f.bits.put(0b100, 3);
        f.no_extras()
    }),
    ("rest toggled without motion", "no_motion", |f| {
        f.member(|record| record.motion.is_none())?;
        f.kind(GENERAL);
        f.bits.put(0b010, 3);
        Some(())
    }),
    ("first motion and rest toggled", "not_canonical", |f| {
        f.member(|record| record.motion.is_none())?;
        f.kind(GENERAL);
        f.bits.put(0b011, 3);
        Some(())
    }),
    ("motion of nobody", "no_such_member", |f| {
        f.vacant()?;
        f.kind(MOTION);
        Some(())
    }),
    ("general of nobody", "no_such_member", |f| {
        f.vacant()?;
        f.kind(GENERAL);
        f.bits.put(f.dice.below(8), 3);
        Some(())
    }),
    ("awake of nobody", "no_such_member", |f| {
        f.vacant()?;
        f.kind(AWAKE);
        Some(())
    }),
    ("departure 3", "unknown_departure", |f| {
        f.member(|_| true)?;
        f.kind(REMOVE);
        f.bits.put(3, 2);
        Some(())
    }),
    ("destroyed before time began", "time_range", |f| {
        f.member(|_| true)?;
        f.kind(REMOVE);
        f.bits.put(0, 2);
        f.bits.time(f.server_us + 1);
        Some(())
    }),
    ("slot 32768", "slot_range", |f| {
        f.bits.gap(32_768);
        Some(())
    }),
    ("slot 32840", "slot_range", |f| {
        f.bits.gap(32_840);
        Some(())
    }),
    ("id above 32 bits", "out_of_range", |f| {
        f.vacant()?;
        f.kind(COMPLETE);
        f.bits.class(3, u64::from(u32::MAX), ID);
        Some(())
    }),
    ("generation above 32 bits", "out_of_range", |f| {
        f.vacant()?;
        f.kind(COMPLETE);
        f.bits.number(5, ID);
        f.bits.class(3, u64::from(u32::MAX) - 65_603, LIFE);
        Some(())
    }),
    ("class unknown", "bad_class", |f| {
        f.vacant()?;
        let class = f.schema.classes.len() as u64 + f.dice.below(2);
        f.identity(7, 0, class);
        Some(())
    }),
    ("tier 3", "out_of_range", |f| {
        f.vacant()?;
        f.kind(COMPLETE);
        f.bits.number(7, ID);
        f.bits.number(0, LIFE);
        f.bits.put(0, 8);
        f.bits.put(3, 2);
        Some(())
    }),
    ("born before time began", "time_range", |f| {
        f.vacant()?;
        f.identity(7, 0, 0);
        f.bits.time(f.server_us + 1);
        Some(())
    }),
    ("segment above 32 bits", "out_of_range", |f| {
        f.vacant()?;
        f.identity(7, 0, 0);
        f.bits.time(0);
        f.bits.class(3, u64::from(u32::MAX), LIFE);
        Some(())
    }),
    ("segment began at birth, the long way", "not_canonical", |f| {
        f.vacant()?;
        f.identity(7, 0, 0);
        f.bits.time(5);
        f.bits.number(1, LIFE);
        f.bits.put(0, 1);
        f.bits.time(5);
        Some(())
    }),
    ("an older generation", "stale", |f| {
        let record = f.member(|record| record.entity.generation > 0)?;
        let generation = f.dice.below(u64::from(record.entity.generation));
        f.identity(u64::from(record.entity.id), generation, 0);
        f.bits.time(0);
        f.bits.number(u64::from(record.segment) + 9, LIFE);
        Some(())
    }),
    ("an older segment", "stale", |f| {
        let record = f.member(|record| record.segment > 0)?;
        f.identity(
            u64::from(record.entity.id),
            u64::from(record.entity.generation),
            0,
        );
        f.bits.time(0);
        f.bits.number(f.dice.below(u64::from(record.segment)), LIFE);
        Some(())
    }),
    ("complete beyond an axis", "out_of_range", |f| {
        let room = f
            .schema
            .position
            .iter()
            .any(|axis| u64::from(axis.highest()) + 1 < 1 << axis.bits());
        f.vacant().filter(|_| room)?;
        f.stranger();
        f.bits.put(1, 1);
        f.complete_motion(0)?;
        f.no_extras()
    }),
    ("complete beyond a rotation", "out_of_range", |f| {
        f.vacant()?;
        f.stranger();
        f.bits.put(1, 1);
        f.complete_motion(1)?;
        f.no_extras()
    }),
    ("complete beyond the velocity", "out_of_range", |f| {
        f.vacant().filter(|_| f.schema.velocity.is_some())?;
        f.stranger();
        f.bits.put(1, 1);
        f.complete_motion(2)?;
        f.no_extras()
    }),
    ("complete beyond the angular velocity", "out_of_range", |f| {
        f.vacant().filter(|_| f.schema.angular.is_some())?;
        f.stranger();
        f.bits.put(1, 1);
        f.complete_motion(3)?;
        f.no_extras()
    }),
    ("a stranger without motion", "ok", |f| {
        f.vacant()?;
        f.stranger();
        f.bits.put(0, 1);
        f.no_extras()
    }),
    ("a stranger at the edge of everything", "ok", |f| {
        f.vacant()?;
        f.stranger();
        f.bits.put(1, 1);
        f.complete_motion(9)?;
        f.no_extras()
    }),
    ("a stranger in a member's place", "ok", |f| {
        f.member(|_| true)?;
        f.stranger();
        f.bits.put(0, 1);
        f.no_extras()
    }),
    ("awake", "ok", |f| {
        f.member(|record| record.motion.is_some_and(|motion| motion.at_rest))?;
        f.kind(AWAKE);
        Some(())
    }),
    ("left the view", "ok", |f| {
        f.member(|_| true)?;
        f.kind(REMOVE);
        f.bits.put(1, 2);
        Some(())
    }),
    ("hidden", "ok", |f| {
        f.member(|_| true)?;
        f.kind(REMOVE);
        f.bits.put(2, 2);
        Some(())
    }),
    ("observed again, unchanged", "ok", |f| {
        f.member(|record| {
            record
                .motion
                .is_some_and(|motion| !motion.at_rest && motion.observed_us > 0)
        })?;
        let now = f.server_us;
        f.motion(now, 0);
        Some(())
    }),
];

/// A kind of entry on a base that is held, in place of a good body; `None` where that base does not allow it.
pub fn forged(entry: usize, scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let (header, _) = payload.snapshot.as_ref()?;
    let client = scene.client;
    let current = header.session_epoch == client.session_epoch()
        && header.generation == client.generation()
        && header.stream_epoch == client.stream_epoch()
        && client.refusing().is_none();
    if !current || header.server_us >= 1 << 47 {
        return None;
    }
    let base = match header.base {
        Some(id) => {
            let (_, table) = client
                .tables()
                .find(|(held, _)| held.id == id && scene.reported.contains(&id.0))?;
            table.records().collect()
        }
        None => BTreeMap::new(),
    };
    let (name, expected, write) = ENTRIES[entry];
    let mut forge = Forge {
        schema: client.schema()?,
        base,
        server_us: header.server_us,
        bits: Bits::new(client.schema()?),
        dice,
    };
    write(&mut forge)?;
    forge.bits.finish();
    let mut body = forge.bits.bytes();
    if expected != "ok" {
        // More bits than the entry needs, so that what is wrong is met before the end.
        body.extend([0; 8]);
    }
    // A part of its own that is only shown: the genuine one is still to come.
    let header = SnapshotHeader {
        candidate: false,
        part: 30,
        last: false,
        count: 1,
        base_digest: None,
        ..*header
    };
    let alone = payload.alone(header);
    Some(Shot {
        name,
        payload: alone.with(header, body).write(),
        expected: Some(expected),
        hazard: false,
    })
}
