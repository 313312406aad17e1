//! Whoever quotes what it truly saw is believed, whatever it was spared or lost of the observations.

use super::{TICK, entity, schema};
use crate::delta::quote::{Quote, Sight, Target};
use crate::origin::lag::{LagCheck, LagRefusal, LagSettings, Shooter};
use crate::origin::publisher::Publisher;
use crate::state::sample::{Sample, WorldSample};
use crate::state::update::Spawn;

/// Numbers by xorshift64 (Marsaglia 2003).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// An observation, and whether the player got it. The first of a segment is never left out: it is structure.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at_us: u64,
    segment: u32,
    at_rest: bool,
    got: bool,
}

/// How a player that has the ticks up to `latest_us` shows an entity at `r_us`, by SPEC ENT1.
fn shown(seen: &[Seen], r_us: u64, latest_us: u64, allowance_us: u64) -> Option<(u32, Sight)> {
    let known = || seen.iter().filter(|seen| seen.got && seen.at_us <= latest_us);
    let left = known().rfind(|seen| seen.at_us <= r_us)?;
    let right = known().find(|seen| seen.at_us > r_us && seen.segment == left.segment);
    // A waking is never left out (SPEC ENT9).
    let woke = seen
        .iter()
        .any(|seen| seen.at_us > left.at_us && seen.at_us <= latest_us);
    let sight = if right.is_some() || (left.at_rest && !woke) {
        Sight::Interpolated
    } else if r_us - left.at_us <= allowance_us {
        Sight::Extrapolated
    } else {
        Sight::Stale
    };
    Some((left.segment, sight))
}

/// SPEC PLY8, ENT1: over a thousand worlds and more than 50,000 shots no honest quote is refused; and each stale one is.
#[test]
fn ply8_ent1_an_honest_player_is_never_refused() {
    let mut dice = Dice(0x5EED);
    let (mut believed, mut extrapolated, mut stale) = (0u32, 0u32, 0u32);
    for _ in 0..1_000 {
        let mut publisher = Publisher::new(schema(), 1, 2, 3).unwrap();
        let settings = LagSettings::of_schema(&schema());
        let mut check = LagCheck::new(settings);
        let mut shooter = Shooter::default();
        let (mut seen, mut segment, mut next): (Vec<Seen>, u32, u64) = (Vec::new(), 0, 0);
        for number in 0..60u64 {
            let now_us = number * TICK;
            let mut sample = WorldSample {
                server_us: now_us,
                ..WorldSample::default()
            };
            if number == 0 {
                sample.spawned.push(Spawn {
                    entity: entity(1),
                    class: 0,
                    at_us: 0,
                });
            }
            if number >= next {
                let moves = number > 0 && dice.below(8) == 0;
                segment += u32::from(moves);
                let observed = Seen {
                    at_us: now_us,
                    segment,
                    at_rest: dice.below(5) == 0,
                    got: number == 0 || moves || dice.below(3) > 0,
                };
                seen.push(observed);
                sample.observed.push(Sample {
                    entity: entity(1),
                    segment,
                    observed_us: now_us,
                    position: [dice.below(50) as f64, 0.0, 0.0],
                    rotation: [0.0, 0.0, 0.0, 1.0],
                    velocity: [1.0, 0.0, 0.0],
                    angular: [0.0; 3],
                    at_rest: observed.at_rest,
                });
                next = number + 1 + dice.below(6);
            }
            check.publish(&publisher.publish(&sample, 0).frame.unwrap());
            // What has come to the player is up to four ticks old; its playback is behind that, or ahead at most as it may.
            let latest_us = now_us.saturating_sub(dice.below(5) * TICK);
            let r_us = (latest_us + dice.below(250_000))
                .saturating_sub(150_000)
                .max(shooter.r_us);
            if r_us > latest_us + settings.ahead_most_us {
                continue;
            }
            let Some((segment, sight)) = shown(&seen, r_us, latest_us, settings.extrapolation_most_us) else {
                continue;
            };
            // A teleport that has not come to the player yet is not its fault, and not for it to win by.
            let truth = seen
                .iter()
                .rfind(|seen| seen.at_us <= r_us)
                .map(|seen| seen.segment);
            let quote = Quote {
                stream: 0,
                generation: 0,
                r_us,
                view_ready: true,
                target: Some(Target {
                    entity: entity(1),
                    segment,
                    sight,
                }),
            };
            let outcome = check.check(&mut shooter, &quote, now_us);
            match sight {
                Sight::Stale => {
                    assert_eq!(outcome, Err(LagRefusal::NotValid));
                    stale += 1;
                }
                _ if truth != Some(segment) => assert_eq!(outcome, Err(LagRefusal::OtherSegment)),
                _ => {
                    assert!(
                        outcome.is_ok(),
                        "{outcome:?} {quote:?} latest {latest_us} {seen:?}"
                    );
                    believed += 1;
                    extrapolated += u32::from(sight == Sight::Extrapolated);
                }
            }
        }
    }
    println!("{believed} believed, {extrapolated} of them extrapolated, {stale} stale");
    assert!(
        believed > 30_000 && extrapolated > 3_000 && stale > 1_000,
        "{believed} {extrapolated} {stale}"
    );
}
