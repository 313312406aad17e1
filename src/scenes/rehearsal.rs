//! A scene with players that come, go and send anything, published as an origin would: what every scene must stand.

use std::collections::BTreeMap;

use super::draws::Draws;
use super::input::{FIRE, Input, JUMP, STEALTH};
use super::{Scene, SceneKind, SceneSettings};
use crate::origin::publisher::Publisher;
use crate::scenes::heading::Heading;
use crate::state::entity::Entity;
use crate::state::player::{Directive, PlayerEvent};
use crate::state::sample::{Sample, WorldSample};

/// One tick of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Act {
    pub sample: WorldSample,
    pub directives: Vec<(u64, Directive)>,
}

/// The rehearsal.
pub struct Rehearsal {
    pub scene: Scene,
    pub publisher: Publisher,
    draws: Draws,
    /// Players present and their last input, by subscription and number.
    pub players: BTreeMap<(u64, u64), u32>,
    joined: u64,
    /// Most players at once.
    pub most: usize,
    /// The last sample of everybody.
    pub seen: BTreeMap<Entity, Sample>,
}

impl Rehearsal {
    pub fn new(kind: SceneKind, entities: usize, hz: f64, seed: u64, most: usize) -> Rehearsal {
        let settings = SceneSettings {
            entities: Some(entities),
            hz,
            seed,
        };
        let scene = Scene::new(kind, &settings).unwrap();
        let publisher = Publisher::new(scene.schema(), 1, 2, 3).unwrap();
        Rehearsal {
            scene,
            publisher,
            draws: Draws::new(seed, 77),
            players: BTreeMap::new(),
            joined: 0,
            most,
            seen: BTreeMap::new(),
        }
    }

    /// One tick: players do something, the scene goes on, the origin refuses nothing.
    pub fn act(&mut self) -> Act {
        self.come_and_go();
        self.send();
        let sample = self.scene.next();
        let mut directives = Vec::new();
        self.scene.take_directives(&mut directives);
        let published = self.publisher.publish(&sample, 0);
        assert_eq!(published.errors, [], "at {} us", sample.server_us);
        self.check(&sample);
        Act { sample, directives }
    }

    fn come_and_go(&mut self) {
        if self.players.len() < self.most && self.draws.one_in(3) {
            let key = (self.draws.below(2) as u64, self.joined);
            self.joined += 1;
            self.players.insert(key, 0);
            self.scene.hear(key.0, PlayerEvent::Joined(key.1, 0));
        }
        let anybody = self.draws.below(self.players.len());
        let anybody = self.players.keys().nth(anybody).copied();
        if let Some(key) = anybody {
            if self.draws.one_in(40) {
                self.players.remove(&key);
                self.scene.hear(key.0, PlayerEvent::Left(key.1));
            } else if self.draws.one_in(20) {
                self.scene.hear(key.0, PlayerEvent::Joined(key.1, 0));
            }
        }
        // Nobody knows this one.
        self.scene.hear(9, PlayerEvent::Left(1));
    }

    fn send(&mut self) {
        let draws = &mut self.draws;
        for ((subscriber, player), sequence) in &mut self.players {
            for _ in 0..draws.below(4) {
                *sequence += 1;
                if draws.one_in(30) {
                    let (first, count) = (*sequence, 2);
                    *sequence += count - 1;
                    let lost = PlayerEvent::InputsLost {
                        player: *player,
                        first,
                        count,
                    };
                    self.scene.hear(*subscriber, lost);
                    continue;
                }
                let mut payload = Input {
                    motion: [
                        draws.between([-127.0, 127.0]) as i8,
                        draws.between([-127.0, 127.0]) as i8,
                    ],
                    heading: Heading(draws.bits()),
                    buttons: draws.bits() as u8 & (FIRE | JUMP | STEALTH),
                    ..Input::default()
                }
                .encode()
                .to_vec();
                if draws.one_in(10) {
                    payload.truncate(draws.below(7));
                } else if draws.one_in(10) {
                    payload[draws.below(5)] = draws.bits() as u8;
                }
                let input = PlayerEvent::Input {
                    player: *player,
                    sequence: *sequence,
                    payload,
                };
                self.scene.hear(*subscriber, input);
            }
        }
    }

    /// Events name who is or was there; who is not seen is at rest (SPEC ENT9); segments never fall.
    fn check(&mut self, sample: &WorldSample) {
        let gone: Vec<Entity> = sample.despawned.iter().map(|despawn| despawn.entity).collect();
        for event in &sample.events {
            if let Some(entity) = event.entity {
                let lives = self.publisher.world().record(entity).is_some();
                assert!(
                    lives || gone.contains(&entity),
                    "event {} of {entity}",
                    event.kind
                );
            }
        }
        let wakes: Vec<Entity> = sample.observed.iter().map(|seen| seen.entity).collect();
        for (entity, last) in &self.seen {
            let missed = !last.at_rest && !wakes.contains(entity) && !gone.contains(entity);
            assert!(!missed, "{entity} moves and is not seen at {}", sample.server_us);
        }
        for seen in &sample.observed {
            assert_eq!(seen.observed_us, sample.server_us);
            if seen.at_rest {
                assert_eq!(seen.velocity, [0.0; 3]);
            }
            if let Some(last) = self.seen.insert(seen.entity, *seen) {
                assert!(seen.segment >= last.segment);
                let same = (last.position, last.rotation, last.segment)
                    == (seen.position, seen.rotation, seen.segment);
                assert!(
                    !(last.at_rest && seen.at_rest && same),
                    "{} rests twice",
                    seen.entity
                );
                assert!(
                    !seen.at_rest || same || seen.segment > last.segment,
                    "{} moved into rest",
                    seen.entity
                );
            }
        }
        for entity in gone {
            self.seen.remove(&entity);
        }
    }
}

/// A run of so many ticks.
pub fn run(rehearsal: &mut Rehearsal, ticks: usize) -> Vec<Act> {
    (0..ticks).map(|_| rehearsal.act()).collect()
}

/// The same settings and the same players give the same bits; another seed gives others.
pub fn is_deterministic(kind: SceneKind, entities: usize) {
    let acts = |seed| run(&mut Rehearsal::new(kind, entities, 20.0, seed, 8), 300);
    let first = acts(5);
    assert!(first == acts(5), "{kind}: the same seed differs");
    assert!(first != acts(6), "{kind}: another seed is the same");
}
