//! A shot from the picture to the origin's verdict: relay, client and playback on one clock, the quote of what is drawn, and the
//! history it is checked against.

#![cfg(all(feature = "relay", feature = "client", feature = "origin"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod pair_harness;

use ackline::client::playback::clock::ClockMode;
use ackline::client::playback::settings::PlaybackSettings;
use ackline::client::playback::stage::{Drawn, Playback};
use ackline::client::settings::ClientSettings;
use ackline::delta::quote::{Quote, Target};
use ackline::origin::lag::{LagCheck, LagRefusal, LagSettings, Shooter};
use ackline::state::update::TickUpdate;
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
