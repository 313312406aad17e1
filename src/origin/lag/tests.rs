#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use super::*;
use crate::origin::publisher::Publisher;
use crate::state::sample::{Sample, WorldSample};
use crate::state::schema::tests::full_schema;
use crate::state::schema::{Class, Schema};
use crate::state::update::{Despawn, Spawn};

mod honest;

const TICK: u64 = 50_000;
/// Moves along x at 10 m/s, observed every tick.
const RUNNER: u32 = 1;
/// The same, observed every 500 ms.
const SPARSE: u32 = 2;
/// The runner's decorative twin.
const CLOUD: u32 = 3;
/// Stands, and was observed once.
const STATUE: u32 = 4;
/// Runs, and is moved 40 m along y at 1.025 s.
const TELEPORTED: u32 = 5;
/// Ends at 1.2 s.
const MORTAL: u32 = 6;
/// Begins at 1.3 s.
const LATE: u32 = 7;

fn schema() -> Schema {
    Schema {
        classes: [("player", true), ("cloud", false)]
            .map(|(name, query_critical)| Class {
                name: name.into(),
                query_critical,
            })
            .to_vec(),
        ..full_schema()
    }
}

fn entity(id: u32) -> Entity {
    Entity { id, generation: 1 }
}

fn running(id: u32, segment: u32, now_us: u64, y: f64) -> Sample {
    Sample {
        entity: entity(id),
        segment,
        observed_us: now_us,
        position: [now_us as f64 * 1e-5, y, 0.0],
        rotation: [
            0.0,
            0.0,
            (now_us as f64 * 1e-6).sin(),
            (now_us as f64 * 1e-6).cos(),
        ],
        velocity: [10.0, 0.0, 0.0],
        angular: [0.0; 3],
        at_rest: false,
    }
}

/// The world of one tick.
fn tick(now_us: u64) -> WorldSample {
    let mut sample = WorldSample {
        server_us: now_us,
        ..WorldSample::default()
    };
    let mut spawn = |id, at_us| {
        sample.spawned.push(Spawn {
            entity: entity(id),
            class: u8::from(id == CLOUD),
            at_us,
        });
    };
    if now_us == 0 {
        (RUNNER..=MORTAL).for_each(|id| spawn(id, 0));
        let statue = running(STATUE, 0, 0, 9.0);
        sample.observed.push(Sample {
            at_rest: true,
            ..statue
        });
    }
    if now_us == 1_300_000 {
        spawn(LATE, 1_300_000);
    }
    sample.observed.push(running(RUNNER, 0, now_us, 0.0));
    sample.observed.push(running(CLOUD, 0, now_us, 1.0));
    if now_us.is_multiple_of(500_000) {
        sample.observed.push(running(SPARSE, 0, now_us, 2.0));
    }
    // The teleport is at 1.025 s, which the observation of 1.05 s shows.
    let moved = now_us > 1_000_000;
    sample.observed.push(running(
        TELEPORTED,
        u32::from(moved),
        now_us,
        if moved { 40.0 } else { 0.0 },
    ));
    if now_us < 1_200_000 {
        sample.observed.push(running(MORTAL, 0, now_us, 5.0));
    }
    if now_us == 1_200_000 {
        sample.despawned.push(Despawn {
            entity: entity(MORTAL),
            at_us: 1_200_000,
            reason: 0,
        });
    }
    if now_us >= 1_400_000 {
        sample.observed.push(running(LATE, 0, now_us, 6.0));
    }
    sample
}

/// A check after the ticks up to `until_us`.
fn published(until_us: u64) -> LagCheck {
    let schema = schema();
    let mut check = LagCheck::new(LagSettings {
        stream: 77,
        ..LagSettings::of_schema(&schema)
    });
    let mut publisher = Publisher::new(schema, 1, 2, 3).unwrap();
    for now_us in (0..=until_us).step_by(TICK as usize) {
        let published = publisher.publish(&tick(now_us), 0);
        assert_eq!(published.errors, []);
        check.publish(&published.frame.unwrap());
    }
    check
}

fn quote(r_us: u64, id: u32, segment: u32, sight: Sight) -> Quote {
    Quote {
        stream: 77,
        generation: 3,
        r_us,
        view_ready: true,
        target: Some(Target {
            entity: entity(id),
            segment,
            sight,
        }),
    }
}

/// What a fresh shooter is told, at 2 s.
fn told(check: &mut LagCheck, quote: &Quote) -> Result<Rewound, LagRefusal> {
    let believed = check.check(&mut Shooter::default(), quote, 2_000_000)?;
    Ok(believed.target.unwrap())
}

fn near(pose: &Rewound, expected: [f64; 3]) {
    for (axis, expected) in pose.position.iter().zip(expected) {
        assert!((axis - expected).abs() <= 0.006, "{pose:?} {expected:?}");
    }
}

/// SPEC PLY8: a shot at what was seen is answered with where it was, between the ticks too.
#[test]
fn ply8_a_shot_is_answered_with_the_pose_it_quotes() {
    let mut check = published(2_000_000);
    for r_us in (1_000_000..=2_000_000).step_by(7_777) {
        let pose = told(&mut check, &quote(r_us, RUNNER, 0, Sight::Interpolated)).unwrap();
        near(&pose, [r_us as f64 * 1e-5, 0.0, 0.0]);
        let angle = 2.0 * r_us as f64 * 1e-6;
        let turned = 2.0 * pose.rotation[2].atan2(pose.rotation[3]);
        assert!((turned - angle).abs() < 0.02, "{turned} {angle}");
    }
    assert_eq!(check.counts().accepted, 129);
}

/// SPEC PLY3: nobody has seen what lies beyond the newest tick and the most a playback runs ahead.
#[test]
fn ply3_the_future_is_refused() {
    let mut check = published(2_000_000);
    let of = |r_us| quote(r_us, RUNNER, 0, Sight::Extrapolated);
    near(&told(&mut check, &of(2_100_000)).unwrap(), [21.0, 0.0, 0.0]);
    assert_eq!(told(&mut check, &of(2_100_001)), Err(LagRefusal::Future));
    assert_eq!(told(&mut check, &of((1 << 48) - 1)), Err(LagRefusal::Future));
    let mut empty = LagCheck::new(LagSettings {
        stream: 77,
        ..LagSettings::of_schema(&schema())
    });
    assert_eq!(
        told(&mut empty, &of(0)),
        Err(LagRefusal::Future),
        "nothing is published"
    );
    // Ahead of the observations, but said to lie between two.
    let between = quote(2_000_001, RUNNER, 0, Sight::Interpolated);
    assert_eq!(told(&mut check, &between), Err(LagRefusal::NotObservedYet));
    let at = quote(2_000_000, RUNNER, 0, Sight::Interpolated);
    assert!(told(&mut check, &at).is_ok());
}

/// SPEC PLY8: pictures older than the game allows, and times the history does not reach, are refused.
#[test]
fn ply8_what_is_too_old_is_refused() {
    let mut check = published(2_000_000);
    let of = |r_us| quote(r_us, RUNNER, 0, Sight::Interpolated);
    assert!(told(&mut check, &of(1_000_000)).is_ok());
    assert_eq!(told(&mut check, &of(999_999)), Err(LagRefusal::TooOld));
    // Some time has passed since the newest tick.
    let late = check.check(&mut Shooter::default(), &of(1_500_000), 2_500_001);
    assert_eq!(late, Err(LagRefusal::TooOld));
    let mut short = LagCheck::new(LagSettings {
        stream: 77,
        frames: 4,
        ..LagSettings::of_schema(&schema())
    });
    let mut publisher = Publisher::new(schema(), 1, 2, 3).unwrap();
    for now_us in (0..=2_000_000).step_by(TICK as usize) {
        short.publish(&publisher.publish(&tick(now_us), 0).frame.unwrap());
    }
    assert!(told(&mut short, &of(1_850_000)).is_ok());
    assert_eq!(told(&mut short, &of(1_849_999)), Err(LagRefusal::TooOld));
    // In the history, but its last observation by then is not.
    let sparse = quote(1_900_000, SPARSE, 0, Sight::Interpolated);
    assert_eq!(
        told(&mut short, &sparse).map(|pose| pose.observed_us),
        Ok(1_500_000)
    );
    assert_eq!(short.sizes(), (4, 6), "who ended is forgotten with the history");
}

/// SPEC PLY3, PLY5, PLY7: playback never runs backwards, its generation never falls, and a time is of one stream.
#[test]
fn ply5_ply7_generations_and_streams_are_kept_apart() {
    let mut check = published(2_000_000);
    let mut shooter = Shooter::default();
    let shot = |generation, r_us| Quote {
        generation,
        ..quote(r_us, RUNNER, 0, Sight::Interpolated)
    };
    let mut told = |quote: &Quote| {
        check
            .check(&mut shooter, quote, 2_000_000)
            .map(|believed| believed.r_us)
    };
    assert_eq!(told(&shot(3, 1_500_000)), Ok(1_500_000));
    assert_eq!(told(&shot(3, 1_500_000)), Ok(1_500_000), "two shots in one frame");
    assert_eq!(told(&shot(3, 1_499_999)), Err(LagRefusal::RanBackwards));
    assert_eq!(told(&shot(2, 1_600_000)), Err(LagRefusal::OldGeneration));
    assert_eq!(
        told(&shot(4, 1_499_999)),
        Err(LagRefusal::RanBackwards),
        "an anchor never goes back"
    );
    // What was refused changed nothing.
    assert_eq!(told(&shot(3, 1_500_001)), Ok(1_500_001));
    assert_eq!(told(&shot(9, 1_600_000)), Ok(1_600_000));
    let other = Quote {
        stream: 76,
        ..shot(9, 1_700_000)
    };
    assert_eq!(told(&other), Err(LagRefusal::OtherStream));
    let counts = check.counts();
    assert_eq!(
        (counts.accepted, counts.refused(LagRefusal::RanBackwards)),
        (4, 2)
    );
}

/// SPEC ENT4: at a teleport the segment that was alive then decides, and poses never lie between two.
#[test]
fn ent4_a_segment_that_was_not_alive_is_refused() {
    let mut check = published(2_000_000);
    let of = |r_us, segment, sight| quote(r_us, TELEPORTED, segment, sight);
    let before = told(&mut check, &of(1_020_000, 0, Sight::Extrapolated)).unwrap();
    near(&before, [10.2, 0.0, 0.0]);
    let after = told(&mut check, &of(1_060_000, 1, Sight::Interpolated)).unwrap();
    near(&after, [10.6, 40.0, 0.0]);
    let old = of(1_060_000, 0, Sight::Extrapolated);
    assert_eq!(told(&mut check, &old), Err(LagRefusal::OtherSegment));
    let early = of(1_020_000, 1, Sight::Interpolated);
    assert_eq!(told(&mut check, &early), Err(LagRefusal::OtherSegment));
    for r_us in (1_000_000..1_100_000).step_by(1_000) {
        let Ok(pose) = check.rewind(entity(TELEPORTED), r_us) else {
            continue;
        };
        assert!(
            pose.position[1].abs() < 0.01 || (pose.position[1] - 40.0).abs() < 0.01,
            "{pose:?}"
        );
    }
}

/// SPEC ID2, ENT1: before its birth and past its end an entity cannot be hit, nor another life of its id.
#[test]
fn ent1_id2_only_who_lived_then_is_hit() {
    let mut check = published(2_000_000);
    let of = |r_us, id| quote(r_us, id, 0, Sight::Interpolated);
    near(
        &told(&mut check, &of(1_140_000, MORTAL)).unwrap(),
        [11.4, 5.0, 0.0],
    );
    assert_eq!(told(&mut check, &of(1_200_000, MORTAL)), Err(LagRefusal::Gone));
    assert!(check.rewind(entity(MORTAL), 1_199_999).is_ok());
    assert_eq!(told(&mut check, &of(1_299_999, LATE)), Err(LagRefusal::NotBorn));
    assert_eq!(
        told(&mut check, &of(1_300_000, LATE)),
        Err(LagRefusal::NoObservation)
    );
    assert_eq!(
        told(&mut check, &of(1_399_999, LATE)),
        Err(LagRefusal::NoObservation)
    );
    assert!(told(&mut check, &of(1_400_000, LATE)).is_ok());
    let mut other = of(1_500_000, RUNNER);
    other.target.as_mut().unwrap().entity.generation = 2;
    assert_eq!(told(&mut check, &other), Err(LagRefusal::UnknownEntity));
    assert_eq!(
        told(&mut check, &of(1_500_000, 99)),
        Err(LagRefusal::UnknownEntity)
    );
}

/// SPEC ENT1, ENT2, ENT9: what is further past its observation than any client extrapolates was stale; what rests is not.
#[test]
fn ent1_ent9_extrapolation_has_a_bound_and_rest_has_none() {
    let mut check = published(1_950_000);
    let of = |r_us, id, sight| quote(r_us, id, 0, sight);
    // Four periods of 50 ms: the slowest rate tier's allowance (SPEC CTL5).
    near(
        &told(&mut check, &of(1_700_000, SPARSE, Sight::Extrapolated)).unwrap(),
        [17.0, 2.0, 0.0],
    );
    let far = of(1_700_001, SPARSE, Sight::Extrapolated);
    assert_eq!(told(&mut check, &far), Err(LagRefusal::ExtrapolatedTooFar));
    for sight in [Sight::Stale, Sight::Missing] {
        let said = of(1_700_000, SPARSE, sight);
        assert_eq!(told(&mut check, &said), Err(LagRefusal::NotValid));
    }
    let statue = told(&mut check, &of(1_900_000, STATUE, Sight::Interpolated)).unwrap();
    near(&statue, [0.0, 9.0, 0.0]);
    // Once the next observation is published, what lies between may have been seen.
    let mut check = published(2_000_000);
    near(
        &told(&mut check, &of(1_900_000, SPARSE, Sight::Interpolated)).unwrap(),
        [19.0, 2.0, 0.0],
    );
}

/// SPEC ENT7: the origin's own classes decide; a client cannot make a cloud a target, nor call a view ready that was not.
#[test]
fn ent7_classes_and_views_are_the_origins() {
    let mut check = published(1_950_000);
    let cloud = quote(1_500_000, CLOUD, 0, Sight::Interpolated);
    assert_eq!(told(&mut check, &cloud), Err(LagRefusal::NotCritical));
    let blind = Quote {
        view_ready: false,
        target: None,
        ..cloud
    };
    let refused = check.check(&mut Shooter::default(), &blind, 2_000_000);
    assert_eq!(refused, Err(LagRefusal::ViewNotReady));
    let view = [RUNNER, STATUE, CLOUD, MORTAL, LATE].map(entity);
    assert_eq!(check.check_view(1_600_000, view), Ok(()));
    let stale = check.check_view(1_800_000, [RUNNER, SPARSE].map(entity));
    assert_eq!(stale, Err((entity(SPARSE), LagRefusal::ExtrapolatedTooFar)));
    // A decorative one never blocks a view.
    assert_eq!(check.check_view(1_250_000, [CLOUD].map(entity)), Ok(()));
}

/// SPEC ENT9: blending to the observation after a rest begins one period before it.
#[test]
fn ent9_who_rested_moves_in_the_last_period() {
    let schema = schema();
    let mut check = LagCheck::new(LagSettings::of_schema(&schema));
    let mut publisher = Publisher::new(schema, 1, 2, 3).unwrap();
    for now_us in (0..=500_000).step_by(TICK as usize) {
        let mut sample = tick(now_us);
        if now_us == 500_000 {
            sample.observed.push(running(STATUE, 0, now_us, 9.0));
        }
        check.publish(&publisher.publish(&sample, 0).frame.unwrap());
    }
    let x = |r_us| check.rewind(entity(STATUE), r_us).unwrap().position[0];
    assert!(x(450_000).abs() < 0.01 && (x(475_000) - 2.5).abs() < 0.01 && (x(500_000) - 5.0).abs() < 0.01);
}

/// A time that falls is another stream's: the history begins anew, with whoever lives in it.
#[test]
fn ply7_a_new_stream_forgets_the_old() {
    let mut check = published(2_000_000);
    let mut publisher = Publisher::new(schema(), 2, 2, 3).unwrap();
    check.publish(&publisher.publish(&tick(0), 0).frame.unwrap());
    assert_eq!(check.sizes(), (1, 6));
    assert_eq!(check.rewind(entity(RUNNER), 1_500_000), Err(LagRefusal::Future));
    assert_eq!(check.rewind(entity(LATE), 0), Err(LagRefusal::UnknownEntity));
}
