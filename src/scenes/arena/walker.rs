//! Somebody in an arena, player or bot: a body that runs, jumps, fires, dies and lives again.
//!
//! Invariant: never within a wall or a solid after a step, never faster than a run and a fall.

use super::plan::Plan;
use crate::scenes::gait::Gait;
use crate::scenes::heading::Heading;
use crate::scenes::input::{FIRE, Input, JUMP, STEALTH};
use crate::scenes::sighting::{Pose, Sighting};
use crate::state::entity::Entity;
use crate::state::view::Tags;

/// How a walker goes.
pub const GAIT: Gait = Gait {
    speed_m_s: 6.0,
    nimble_m_s2: 40.0,
};
/// Half its width.
pub const REACH_M: f64 = 0.4;
/// Health at its best.
pub const HEALTH: u8 = 100;
/// Shots before it must reload.
pub const AMMO: u8 = 30;
/// Speed of a jump.
const JUMP_M_S: f64 = 5.0;
/// Gravity.
const GRAVITY_M_S2: f64 = 9.81;
/// Time between two shots.
const FIRE_S: f64 = 0.25;
/// Time to reload.
const RELOAD_S: f64 = 2.0;
/// From death to revival.
const DEAD_S: f64 = 3.0;

/// Its extra fields, in the schema's order: health, team, ammo, state.
pub type Fields = [i64; 4];

/// A walker.
#[derive(Clone, Debug)]
pub struct Walker {
    /// Which entity.
    pub entity: Entity,
    /// 0 or 1.
    pub team: u8,
    /// Where it is.
    pub pose: Pose,
    /// 0 means dead.
    pub health: u8,
    /// Shots left.
    pub ammo: u8,
    /// Seen by its team only.
    pub stealth: bool,
    /// Whom it killed.
    pub kills: u32,
    fire_in: f64,
    reload_in: f64,
    revive_in: f64,
    sighting: Sighting,
    told_fields: Fields,
    told_tags: Tags,
}

impl Walker {
    /// A walker that begins its life.
    #[must_use]
    pub fn new(entity: Entity, team: u8, [x, y]: [f64; 2]) -> Walker {
        Walker {
            entity,
            team,
            pose: Pose {
                segment: 0,
                position: [x, y, 0.0],
                heading: Heading::default(),
                velocity: [0.0; 3],
            },
            health: HEALTH,
            ammo: AMMO,
            stealth: false,
            kills: 0,
            fire_in: 0.0,
            reload_in: 0.0,
            revive_in: 0.0,
            sighting: Sighting::default(),
            told_fields: [0; 4],
            told_tags: 0,
        }
    }

    /// Place on the ground.
    #[must_use]
    pub fn place(&self) -> [f64; 2] {
        let [x, y, _] = self.pose.position;
        [x, y]
    }

    /// True unless it is dead.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.health > 0
    }

    /// Moves on by `seconds` as `input` wants. True when it fires, if it is let.
    pub fn step(&mut self, input: &Input, seconds: f64, plan: &Plan) -> bool {
        let idle = Input::default();
        let input = if self.is_alive() { input } else { &idle };
        if self.is_alive() {
            self.pose.heading = input.heading;
            // A shot shows who fired it.
            self.stealth = input.presses(STEALTH) && self.fire_in == 0.0;
        }
        self.run(input, seconds, plan);
        self.fall(input, seconds);
        self.fire_in = (self.fire_in - seconds).max(0.0);
        if self.ammo == 0 {
            self.reload_in -= seconds;
            if self.reload_in <= 0.0 {
                self.ammo = AMMO;
            }
        }
        input.presses(FIRE) && !input.presses(STEALTH) && self.fire_in == 0.0 && self.ammo > 0
    }

    fn run(&mut self, input: &Input, seconds: f64, plan: &Plan) {
        let [x, y, z] = self.pose.position;
        let [vx, vy, vz] = self.pose.velocity;
        let [mut vx, mut vy] = GAIT.velocity([vx, vy], input, seconds);
        let to = [x + vx * seconds, y + vy * seconds];
        // A door that shuts on a walker sets it out too.
        let kept = plan.keep_out(to, REACH_M);
        if kept[0] != to[0] {
            vx = 0.0;
        }
        if kept[1] != to[1] {
            vy = 0.0;
        }
        self.pose.position = [kept[0], kept[1], z];
        self.pose.velocity = [vx, vy, vz];
    }

    fn fall(&mut self, input: &Input, seconds: f64) {
        let (z, speed) = (&mut self.pose.position[2], &mut self.pose.velocity[2]);
        if *z == 0.0 && input.presses(JUMP) {
            *speed = JUMP_M_S;
        }
        *z += *speed * seconds;
        if *z > 0.0 {
            *speed -= GRAVITY_M_S2 * seconds;
        } else {
            (*z, *speed) = (0.0, 0.0);
        }
    }

    /// It has fired.
    pub fn spend_shot(&mut self) {
        self.ammo -= 1;
        (self.fire_in, self.reload_in) = (FIRE_S, RELOAD_S);
    }

    /// Takes damage; true when it dies of it.
    pub fn suffer(&mut self, damage: u8) -> bool {
        self.health = self.health.saturating_sub(damage);
        if self.health == 0 {
            (self.revive_in, self.stealth) = (DEAD_S, false);
        }
        self.health == 0
    }

    /// Waits for its revival while dead; true when it is due.
    pub fn is_due(&mut self, seconds: f64) -> bool {
        self.revive_in -= seconds;
        !self.is_alive() && self.revive_in <= 0.0
    }

    /// Lives again somewhere, in a new segment (SPEC TAB4).
    pub fn revive(&mut self, place: [f64; 2]) {
        (self.health, self.ammo, self.fire_in) = (HEALTH, AMMO, 0.0);
        self.appear(place);
        self.pose.velocity = [0.0; 3];
    }

    /// Is somewhere else at once, in a new segment (SPEC TAB4, ENT4).
    pub fn appear(&mut self, [x, y]: [f64; 2]) {
        self.pose.segment += 1;
        self.pose.position = [x, y, 0.0];
        self.pose.velocity[2] = 0.0;
    }

    /// The observation of this tick, where there is one.
    pub fn observe(&mut self, server_us: u64) -> Option<crate::state::sample::Sample> {
        self.sighting.observe(self.entity, server_us, self.pose)
    }

    /// The fields that changed since the last call.
    pub fn news(&mut self) -> impl Iterator<Item = (usize, i64)> + use<> {
        let fields = [
            i64::from(self.health),
            i64::from(self.team),
            i64::from(self.ammo),
            i64::from(!self.is_alive()),
        ];
        let told = core::mem::replace(&mut self.told_fields, fields);
        let changed = move |(field, value): &(usize, i64)| told[*field] != *value;
        fields.into_iter().enumerate().filter(changed)
    }

    /// Its tags, if they changed since the last call; `own` are its team's.
    pub fn tag_news(&mut self, own: Tags) -> Option<Tags> {
        let tags = if self.stealth { own } else { 0 };
        let told = core::mem::replace(&mut self.told_tags, tags);
        (told != tags).then_some(tags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP_S: f64 = 0.05;

    #[test]
    fn a_walker_runs_jumps_and_is_stopped_by_what_is_solid() {
        let plan = Plan::new(64, 1);
        let mut walker = Walker::new(Entity::default(), 0, plan.free(0, 0));
        let go = Input {
            motion: [-127, 0],
            buttons: JUMP,
            ..Input::default()
        };
        let mut highest = 0f64;
        for _ in 0..400 {
            walker.step(&go, STEP_S, &plan);
            highest = highest.max(walker.pose.position[2]);
            assert_eq!(plan.keep_out(walker.place(), REACH_M), walker.place());
        }
        assert_eq!(walker.place()[0], REACH_M - plan.wall());
        assert!((1.0..1.6).contains(&highest), "{highest}");
        for _ in 0..40 {
            walker.step(&Input::default(), STEP_S, &plan);
        }
        assert_eq!((walker.pose.velocity, walker.pose.position[2]), ([0.0; 3], 0.0));
    }

    #[test]
    fn it_fires_so_often_reloads_and_not_from_stealth_or_death() {
        let plan = Plan::new(64, 1);
        let mut walker = Walker::new(Entity::default(), 1, plan.free(0, 0));
        let fire = |buttons| Input {
            buttons,
            ..Input::default()
        };
        let mut shots = 0;
        for _ in 0..20 * 20 {
            if walker.step(&fire(FIRE), STEP_S, &plan) {
                walker.spend_shot();
                shots += 1;
            }
        }
        assert!((55..=75).contains(&shots), "{shots} shots in 20 s");
        for _ in 0..10 {
            assert!(!walker.step(&fire(FIRE | STEALTH), STEP_S, &plan));
        }
        assert_eq!(walker.tag_news(2), Some(2));
        assert!(!walker.suffer(99) && walker.suffer(99));
        assert!(!walker.step(&fire(FIRE), STEP_S, &plan) && !walker.is_due(1.0) && walker.is_due(2.0));
        let segment = walker.pose.segment;
        walker.revive([1.0, 1.0]);
        assert_eq!((walker.pose.segment, walker.health), (segment + 1, HEALTH));
        assert_eq!(walker.tag_news(2), Some(0));
    }
}
