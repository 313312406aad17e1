//! What playback asks of the allocator, and of the processor, with 500 entities that all move: nothing, and little.
//!
//! `cargo test --release --test playback_memory -- --nocapture` prints the cost of a packet and of a sampled entity.

#![cfg(feature = "client")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "pair_harness/calls.rs"]
mod calls;

use std::time::{Duration, Instant};

use ackline::client::display::Absence;
use ackline::client::playback::settings::{PlaybackSettings, PositionBlend};
use ackline::client::playback::stage::Playback;
use ackline::state::coding::Coding;
use ackline::state::entity::Entity;
use ackline::state::record::{Motion, Record};
use ackline::state::rotation::Rotation;
use ackline::state::schema::{Axis, Class, Rate, Schema};
use ackline::state::update::Event;
use calls::{Calls, calls};

#[global_allocator]
static ALLOCATOR: Calls = Calls;

const ENTITIES: u16 = 500;
const T: u64 = 16_667;

fn schema() -> Schema {
    Schema {
        coding: Coding::Plain,
        name: "memory".into(),
        version: 1,
        tick_period_us: 16_667,
        on_change: false,
        position: [Axis::new(-1_000.0, 1_000.0, 0.01).unwrap(); 3],
        rotation_bits: 9,
        velocity: Some(Rate::new(50.0, 0.02).unwrap()),
        angular: Some(Rate::new(10.0, 0.01).unwrap()),
        extras: Vec::new(),
        classes: vec![Class {
            name: "body".into(),
            query_critical: true,
        }],
    }
}

/// An entity at a tick; each has a teleport every 97 ticks, and another life every 211.
fn record(slot: u16, tick: u64) -> Record {
    let shifted = tick + u64::from(slot);
    let entity = Entity {
        id: u32::from(slot),
        generation: (shifted / 211) as u32,
    };
    let born = (shifted / 211 * 211).saturating_sub(u64::from(slot));
    let mut record = Record::born(entity, 0, born * T);
    record.segment = (shifted / 97) as u32;
    record.segment_us = (shifted / 97 * 97).saturating_sub(u64::from(slot)).max(born) * T;
    let angle = tick as f64 * 0.05;
    record.motion = Some(Motion {
        observed_us: tick * T,
        position: [100_000 + tick as u32 % 1_000, 100_000, 100_000 + u32::from(slot)],
        rotation: Rotation::from_quaternion([0.0, angle.sin(), 0.0, angle.cos()], 9).unwrap(),
        velocity: [30, 0, 0],
        angular: [0, 10, 0],
        at_rest: false,
    });
    record
}

/// Plays ticks; gives the time that packets and frames took.
fn play(
    playback: &mut Playback,
    ticks: core::ops::Range<u64>,
    worlds: &[Vec<Record>],
) -> (Duration, Duration) {
    let (mut packets, mut frames) = (Duration::ZERO, Duration::ZERO);
    let mut drawn = 0;
    for tick in ticks.clone() {
        let world = &worlds[tick as usize];
        let began = Instant::now();
        // One packet in ten is lost, one in ten comes late.
        let late = tick % 10 == 3;
        if tick % 10 != 7 {
            playback.take_snapshot(tick * T, tick * T + if late { 60_000 } else { 20_000 });
            for (slot, record) in (0..).zip(world) {
                let before = worlds[tick.saturating_sub(2) as usize][usize::from(slot)].entity;
                if tick == 0 || before != record.entity {
                    let absence = Absence::Destroyed {
                        at_us: record.born_us,
                        reason: 0,
                    };
                    playback.take_removed(slot, before, absence, tick * T);
                    playback.take_entered(slot, record, tick * T);
                } else {
                    playback.take_record(slot, record);
                }
            }
        }
        packets += began.elapsed();
        let began = Instant::now();
        playback.frame(tick * T + 30_000);
        drawn += playback.drawn().filter(|drawn| drawn.at.pose.is_some()).count();
        while playback.poll_turn().is_some() {}
        while playback.poll_due().is_some() {}
        frames += began.elapsed();
    }
    assert!(
        drawn as u64 > (ticks.end - ticks.start) * u64::from(ENTITIES) * 8 / 10,
        "{drawn}"
    );
    (packets, frames)
}

/// SPEC ENT1, OPS5: in steady state no packet and no frame of 500 entities asks for memory, births, deaths, teleports, loss and
/// late packets included.
#[test]
fn a_packet_and_a_frame_of_500_entities_allocate_nothing() {
    for blend in [PositionBlend::Linear, PositionBlend::Hermite] {
        let ticks = 3_000;
        let worlds: Vec<Vec<Record>> = (0..ticks)
            .map(|tick| (0..ENTITIES).map(|slot| record(slot, tick)).collect())
            .collect();
        let mut playback = Playback::new(PlaybackSettings {
            blend,
            ..PlaybackSettings::default()
        });
        playback.begin_stream(1, &schema());
        playback.take_complete_view();
        play(&mut playback, 0..1_000, &worlds);
        // An event without a payload owns no memory; the line that it waits in is there.
        let event = |at_us| Event {
            kind: 1,
            critical: false,
            entity: None,
            at_us,
            payload: Vec::new(),
        };
        for tick in 0..200 {
            playback.hold(event(tick * T)).unwrap();
        }
        play(&mut playback, 1_000..1_100, &worlds);
        let before = calls();
        let (packets, frames) = play(&mut playback, 1_100..ticks, &worlds);
        for tick in 0..200 {
            playback.hold(event(tick * T)).unwrap();
        }
        assert_eq!(
            calls() - before,
            0,
            "requests for memory in {} ticks",
            ticks - 1_100
        );
        let each = |took: Duration, of: u64| took.as_nanos() as u64 / of;
        let count = ticks - 1_100;
        println!(
            "{blend:?}: {} ns a packet of {ENTITIES} entities ({} ns each), {} ns a frame ({} ns an entity)",
            each(packets, count),
            each(packets, count * u64::from(ENTITIES)),
            each(frames, count),
            each(frames, count * u64::from(ENTITIES)),
        );
    }
}
