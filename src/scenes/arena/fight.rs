//! One step of an arena's world: everybody acts, missiles fly, the dead live again.

use super::brain::distance;
use super::event::{self, event};
use super::missile::{Flight, HEIGHT_M, Missile};
use super::walker::Walker;
use super::{Arena, CLOCKS_DIFFER, MISSILE, Mind, ROUND_S, SILENT_S, Seat, WAITING_S, births};
use crate::scenes::input::Input;
use crate::state::sample::WorldSample;
use crate::state::update::Despawn;

/// How far a bot sees.
const SIGHT_M: f64 = 20.0;
/// Within this distance of a walker's middle a missile hits it, and up to this height.
const BODY_M: [f64; 2] = [0.6, 1.8];
/// Damage of a hit.
const DAMAGE: u8 = 20;

impl Arena {
    /// The world moves on by `seconds`.
    pub(super) fn step(&mut self, seconds: f64, sample: &mut WorldSample) {
        let seats = self.seats.iter().enumerate();
        let alive = seats.filter_map(|(index, seat)| {
            let walker = &seat.as_ref()?.walker;
            walker.is_alive().then(|| (index, walker.place()))
        });
        self.buckets.build(&self.plan, alive);
        for index in 0..self.seats.len() {
            if let Some(mut seat) = self.seats[index].take() {
                self.act(index, &mut seat, seconds, sample);
                self.touch(&mut seat, seconds, sample);
                self.seats[index] = Some(seat);
            }
        }
        self.fly(seconds, sample);
        self.fixtures.advance(seconds, &mut self.plan);
        self.round_left -= seconds;
        if self.round_left <= 0.0 {
            self.round_left += ROUND_S;
            let scores = self.scores.map(u32::to_le_bytes).concat();
            sample
                .events
                .push(event(event::QUEST, None, sample.server_us, &scores));
        }
    }

    /// Somebody does what it wants.
    fn act(&mut self, index: usize, seat: &mut Seat, seconds: f64, sample: &mut WorldSample) {
        let Seat { walker, mind } = seat;
        match mind {
            Mind::Bot(brain) => {
                if brain.wants_look(seconds) {
                    brain.look(self.nearest_enemy(walker));
                }
                let input = brain.decide(walker, seconds, &self.plan, self.fixtures.pads());
                self.apply(index, walker, &input, seconds, sample);
            }
            Mind::Player {
                key,
                left_s,
                silent_s,
            } => {
                *left_s = (*left_s + seconds * CLOCKS_DIFFER).min(WAITING_S);
                *silent_s += seconds;
                while let Some(input) = self.roster.take_input(*key, *left_s) {
                    *left_s -= input.seconds();
                    *silent_s = 0.0;
                    self.apply(index, walker, &input, input.seconds(), sample);
                }
                if *silent_s > SILENT_S {
                    let idle = Input {
                        heading: walker.pose.heading,
                        ..Input::default()
                    };
                    self.apply(index, walker, &idle, seconds, sample);
                }
            }
        }
    }

    fn apply(
        &mut self,
        index: usize,
        walker: &mut Walker,
        input: &Input,
        seconds: f64,
        sample: &mut WorldSample,
    ) {
        if walker.step(input, seconds, &self.plan) && self.shots_left >= 1.0 {
            self.fire(index, walker, sample);
        }
    }

    fn fire(&mut self, index: usize, walker: &mut Walker, sample: &mut WorldSample) {
        let (owner, heading) = ((index, walker.entity), walker.pose.heading);
        let missile = |entity| Missile::new(entity, owner, walker.team, self.tick, walker.place(), heading);
        if !missile(walker.entity).is_clear(&self.plan) {
            return;
        }
        let Some(entity) = births(&mut self.census, sample, MISSILE) else {
            return;
        };
        self.missiles.push(missile(entity));
        self.shots_left -= 1.0;
        walker.spend_shot();
        let payload = heading.0.to_le_bytes();
        let shot = event(event::SHOT, Some(walker.entity), sample.server_us, &payload);
        sample.events.push(shot);
    }

    /// Pads, pickups, and the revival of the dead.
    fn touch(&mut self, seat: &mut Seat, seconds: f64, sample: &mut WorldSample) {
        let walker = &mut seat.walker;
        let at_us = sample.server_us;
        if walker.is_due(seconds) {
            let place = self.somewhere();
            walker.revive(place);
            sample
                .events
                .push(event(event::REVIVE, Some(walker.entity), at_us, &[]));
            if let Mind::Player { key, .. } = seat.mind {
                let view = self.roster.view.map(|view| super::view_of(view, walker.team));
                self.roster.assign(key, walker.entity, view);
            }
        } else if walker.is_alive()
            && let Some(place) = self.fixtures.thrown(&self.plan, walker.place())
        {
            walker.appear(place);
            sample
                .events
                .push(event(event::TELEPORT, Some(walker.entity), at_us, &[]));
        }
        self.fixtures.serve(&self.plan, walker, &mut self.census, sample);
    }

    /// The place of the nearest enemy that somebody sees.
    fn nearest_enemy(&self, me: &Walker) -> Option<[f64; 2]> {
        let from = me.place();
        let mut nearest = (SIGHT_M, None);
        for seat in self.buckets.around(self.plan.cell(from)) {
            let Some(Seat { walker, .. }) = self.seats[seat].as_deref() else {
                continue;
            };
            if walker.team == me.team || walker.stealth || !walker.is_alive() {
                continue;
            }
            let away = distance(from, walker.place());
            if away < nearest.0 && self.plan.sees(from, walker.place(), HEIGHT_M) {
                nearest = (away, Some(walker.place()));
            }
        }
        nearest.1
    }

    /// Missiles fly on, and hit.
    fn fly(&mut self, seconds: f64, sample: &mut WorldSample) {
        let mut missiles = core::mem::take(&mut self.missiles);
        missiles.retain_mut(|missile| {
            if missile.born == self.tick {
                return true;
            }
            let team = missile.team;
            let flight = missile.fly(seconds, &self.plan, |place| self.stander(place, team));
            let reason = match flight {
                Flight::On => return true,
                Flight::Expired => event::EXPIRED,
                Flight::Blocked => event::BLOCKED,
                Flight::Struck(seat) => {
                    self.hit(seat, missile, sample);
                    event::STRUCK
                }
            };
            let (entity, at_us) = (missile.entity, sample.server_us);
            self.census.bury(entity);
            sample.despawned.push(Despawn {
                entity,
                at_us,
                reason,
            });
            false
        });
        self.missiles = missiles;
    }

    /// Who of the other team is hit by a missile here.
    fn stander(&self, place: [f64; 2], team: u8) -> Option<usize> {
        let [reach, height] = BODY_M;
        self.buckets.around(self.plan.cell(place)).find(|seat| {
            self.seats[*seat].as_ref().is_some_and(|seat| {
                let (walker, low) = (&seat.walker, seat.walker.pose.position[2]);
                walker.team != team
                    && walker.is_alive()
                    && (low..low + height).contains(&HEIGHT_M)
                    && distance(walker.place(), place) < reach
            })
        })
    }

    fn hit(&mut self, seat: usize, missile: &Missile, sample: &mut WorldSample) {
        let Some(Seat { walker, .. }) = self.seats[seat].as_deref_mut() else {
            return;
        };
        let (at_us, victim) = (sample.server_us, Some(walker.entity));
        let dies = walker.suffer(DAMAGE);
        sample
            .events
            .push(event(event::HIT, victim, at_us, &[DAMAGE, walker.health]));
        if !dies {
            return;
        }
        let team = walker.team;
        sample
            .events
            .push(event(event::DEATH, victim, at_us, &[missile.team]));
        self.scores[usize::from(missile.team)] += 1;
        let (owner, entity) = missile.owner;
        let Some(killer) = self.seats[owner].as_deref_mut() else {
            return;
        };
        if killer.walker.entity == entity {
            killer.walker.kills += 1;
            if let Mind::Player { key, .. } = killer.mind {
                let mut payload = killer.walker.kills.to_le_bytes().to_vec();
                payload.push(team);
                self.roster.message(key, event::SCORE, payload);
            }
        }
    }
}
