//! What one seed decides before anything runs: the world, the upstream's troubles, the clients and their links.
//!
//! Times are microseconds of virtual time from the start of the run. A scenario ends with [`CLEAN_US`] of clean
//! links and an undisturbed upstream and [`QUIET_US`] of a world at rest, after which every client must have the whole truth.

use super::dice::Dice;
use super::provision::Provision;
use super::role::{Role, RolePlan};
use super::settings::SimSettings;
use crate::impairment::settings::ImpairmentSettings;
use crate::sequence::Tick;

/// Clean network at the end of every run.
pub const CLEAN_US: u64 = 2_000_000;
/// The origin says nothing for this long after that, and the relay repeats its last world: what the pace held back or the
/// budget left out is said. Longer where the budget is small.
pub const QUIET_US: u64 = 2_000_000;
/// The longest round trip a link is given by its seed, jitter included.
pub const ROUND_TRIP_MAX_US: u64 = 300_000;

/// Everything a seed decides.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// When links become clean.
    pub clean_at_us: u64,
    /// The world's habits.
    pub world: WorldPlan,
    /// The relay's first tick.
    pub first_tick: Tick,
    /// Reading of the relay's clock at the start.
    pub relay_clock_us: u64,
    /// The origin's server time at the start of each stream.
    pub server_start_us: u64,
    /// Ticks go through publisher, bytes and subscriber; else straight to the relay's world.
    pub through_bytes: bool,
    /// Datagrams the relay may put out before it must flush.
    pub outbox_room: usize,
    /// What happens when, in order of time.
    pub turns: Vec<(u64, Turn)>,
    /// The clients.
    pub clients: Vec<ClientPlan>,
    /// Bytes a second that each may be sent; `None` for the relay's default.
    pub budget_bytes_per_s: Option<u64>,
    /// Bytes a second that all may be sent together.
    pub egress_bytes_per_s: Option<u64>,
    /// What a client sees until it is told otherwise; the whole world for `None`.
    pub view: Option<Role>,
    /// How long the world is at rest at the end, microseconds.
    pub quiet_us: u64,
}

/// How the world behaves. Shares are 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorldPlan {
    /// Entities it keeps about.
    pub entities: usize,
    /// Mean interval of ticks, microseconds.
    pub period_us: u64,
    /// How far an interval strays from the mean.
    pub uneven: f64,
    /// The stream publishes on change only (SPEC ENT9).
    pub on_change: bool,
    /// Share of the population replaced each second.
    pub turnover: f64,
    /// Share of spawns that take an id used before.
    pub reuse: f64,
    /// Teleports per entity and second.
    pub teleports: f64,
    /// Share of entities that are mostly at rest.
    pub resters: f64,
    /// Share of entities without motion.
    pub motionless: f64,
    /// Share of movers observed in a tick.
    pub observed: f64,
    /// Chance of an entity's extra fields to change in a tick.
    pub extras: f64,
    /// Time between bursts in which everything changes, microseconds; 0 for none.
    pub mass_every_us: u64,
    /// Chance of an observation to lie before its frame.
    pub lag: f64,
    /// Events a second.
    pub events: f64,
    /// Share of entities with tags.
    pub tagged: f64,
    /// Changes of tags per entity and second.
    pub retags: f64,
}

/// Something that happens to the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The upstream stops for this long, in this way.
    Stall {
        /// How.
        kind: StallKind,
        /// How long, microseconds.
        length_us: u64,
    },
    /// A client begins a session.
    Join(usize),
    /// A client says goodbye.
    Leave(usize),
    /// A client is gone without a word.
    Vanish(usize),
    /// A client does nothing for this long.
    Silence {
        /// Which client.
        client: usize,
        /// How long, microseconds.
        length_us: u64,
        /// What arrives meanwhile waits for it; else it is lost.
        buffered: bool,
    },
    /// A client's address changes.
    Rebind(usize),
    /// A bit flips in a table that a client holds.
    Flip(usize),
    /// A client's links change to the settings of its plan with this index.
    Relink {
        /// Which client.
        client: usize,
        /// Index into [`ClientPlan::links`].
        link: usize,
    },
}

/// How an upstream stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallKind {
    /// The origin pauses and goes on.
    Pause,
    /// Its ticks are held up and then come all at once.
    Backlog,
    /// The connection is lost; ticks are lost; the same stream comes back with a keyframe.
    Reconnect,
    /// The origin restarts: a new stream epoch.
    Restart,
}

/// One client.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientPlan {
    /// Its clock is ahead of virtual time by this, microseconds.
    pub clock_us: u64,
    /// Pairs of link settings, down and up; the first holds at the start.
    pub links: Vec<[ImpairmentSettings; 2]>,
    /// What it may see and what it says.
    pub role: RolePlan,
}

impl Scenario {
    /// Draws the scenario of a seed.
    #[must_use]
    pub fn draw(seed: u64, settings: &SimSettings) -> Scenario {
        let mut dice = Dice::new(seed, "scenario", 0);
        let clean_at_us = settings.seconds * 1_000_000;
        let first_tick = match dice.up_to(3) {
            0 => Tick(u32::MAX - u32::try_from(dice.up_to(2_000)).unwrap_or(0)),
            1 => Tick((1 << 31) - 600 + u32::try_from(dice.up_to(500)).unwrap_or(0)),
            _ => Tick(1),
        };
        let days_us = 86_400_000_000;
        let relay_clock_us = if dice.chance(0.5) {
            dice.up_to(1_000_000)
        } else {
            dice.up_to(90 * days_us)
        };
        let server_start_us = if dice.chance(0.7) {
            0
        } else {
            dice.up_to(90 * days_us)
        };
        let mut world = WorldPlan::draw(&mut Dice::new(seed, "world", 0), settings);
        let through_bytes = dice.chance(0.25);
        if through_bytes {
            // Samples in metres always hold a motion.
            world.motionless = 0.0;
        }
        let outbox_room = if dice.chance(0.3) { 64 } else { 4_096 };
        let count = settings
            .clients
            .unwrap_or_else(|| dice.mostly_small(1, 6).try_into().unwrap_or(1));
        let clients: Vec<ClientPlan> = (0..count)
            .map(|client| ClientPlan::draw(seed, client, settings))
            .collect();
        let mut turns = match settings.calm {
            true => Vec::new(),
            false => upstream_turns(&mut Dice::new(seed, "upstream", 0), settings, clean_at_us),
        };
        for (client, plan) in clients.iter().enumerate() {
            let mut dice = Dice::new(seed, "turns", client as u64);
            match settings.calm {
                true => turns.push((dice.up_to(500_000), Turn::Join(client))),
                false => client_turns(&mut dice, client, plan, clean_at_us, &mut turns),
            }
            flip_turns(
                &mut Dice::new(seed, "flips", client as u64),
                client,
                settings,
                clean_at_us,
                &mut turns,
            );
        }
        turns.sort_by_key(|(at_us, _)| *at_us);
        let provision = Provision::draw(&mut Dice::new(seed, "means", 0), settings, count);
        let quiet_us = provision.quiet_us(world.entities);
        Scenario {
            budget_bytes_per_s: provision.budget_bytes_per_s,
            egress_bytes_per_s: provision.egress_bytes_per_s,
            view: provision.view,
            quiet_us,
            seed,
            clean_at_us,
            world,
            first_tick,
            relay_clock_us,
            server_start_us,
            through_bytes,
            outbox_room,
            turns,
            clients,
        }
    }
}

impl WorldPlan {
    fn draw(dice: &mut Dice, settings: &SimSettings) -> WorldPlan {
        let drawn = usize::try_from(dice.mostly_small(5, 200)).unwrap_or(5);
        let hz = match dice.up_to(3) {
            0 => 20.0,
            1 => 60.0,
            _ => dice.real(10.0, 60.0),
        };
        let hz = settings.hz.unwrap_or(hz);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let period_us = (1_000_000.0 / hz) as u64;
        let mut often = |chance: f64, most: f64| {
            if dice.chance(chance) {
                dice.real(0.0, most)
            } else {
                0.0
            }
        };
        let uneven = often(0.6, 0.6);
        let turnover = often(0.7, 0.2);
        let reuse = often(0.7, 1.0);
        let teleports = often(0.6, 0.3);
        let resters = often(0.7, 0.9);
        let motionless = often(0.4, 0.3);
        let missed = often(0.4, 0.7);
        let extras = often(0.6, 0.1);
        let lag = often(0.4, 1.0);
        let events = often(0.4, 5.0);
        let mass = often(0.4, 1.0);
        let tagged = often(0.7, 1.0);
        let retags = often(0.7, 0.2);
        let on_change = dice.chance(0.4);
        let (uneven, mass, on_change) = match settings.calm {
            true => (0.0, 0.0, false),
            false => (uneven, mass, on_change),
        };
        WorldPlan {
            entities: settings.entities.unwrap_or(drawn),
            period_us,
            uneven,
            on_change,
            turnover,
            reuse,
            teleports,
            resters,
            motionless,
            observed: 1.0 - missed,
            extras,
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            mass_every_us: if mass > 0.0 {
                2_000_000 + (mass * 15e6) as u64
            } else {
                0
            },
            lag,
            events,
            tagged,
            retags,
        }
    }
}

impl ClientPlan {
    fn draw(seed: u64, client: usize, settings: &SimSettings) -> ClientPlan {
        let mut dice = Dice::new(seed, "link", client as u64);
        let clock_us = if dice.chance(0.5) { 0 } else { dice.up_to(1 << 40) };
        let mut pair = || {
            let down = settings.down.applied_to(link(&mut dice));
            [down, settings.up.applied_to(link(&mut dice))]
        };
        let links = vec![pair(), pair()];
        let role = RolePlan::draw(seed, client, settings.role, settings.calm);
        ClientPlan {
            clock_us,
            links,
            role,
        }
    }
}

/// One direction of a link: clean, good, middling or bad.
fn link(dice: &mut Dice) -> ImpairmentSettings {
    let badness = dice.up_to(9);
    let mut drawn = ImpairmentSettings::default();
    if badness == 0 {
        return drawn;
    }
    let (loss, delay_us) = match badness {
        1..=3 => (0.01, 30_000),
        4..=6 => (0.10, 80_000),
        _ => (0.30, ROUND_TRIP_MAX_US / 2),
    };
    drawn.jitter_us = dice.up_to(delay_us / 3);
    drawn.delay_us = dice.up_to(delay_us - drawn.jitter_us);
    drawn.loss = dice.real(0.0, loss);
    if dice.chance(0.4) {
        // Bursts take their part of the loss: in the long run p / (p + r) of all datagrams.
        let share = drawn.loss * dice.real(0.3, 1.0);
        let end = dice.real(0.05, 0.5);
        drawn.burst_loss = Some((end * share / (1.0 - share), end));
        drawn.loss -= share;
    }
    let mut some = |chance: f64, most: f64| {
        if dice.chance(chance) {
            dice.real(0.0, most)
        } else {
            0.0
        }
    };
    drawn.reorder = some(0.5, 0.2);
    drawn.duplicate = some(0.5, 0.1);
    drawn.corrupt = some(0.2, 0.02);
    drawn.hold_us = dice.between(5_000, 100_000);
    drawn
}

/// The upstream's stalls and restarts, the last well before the links are clean.
fn upstream_turns(dice: &mut Dice, settings: &SimSettings, clean_at_us: u64) -> Vec<(u64, Turn)> {
    let mut turns = Vec::new();
    let stalls = dice.chance(0.5);
    let restarts = settings.epoch_every_us.is_none() && dice.chance(0.3);
    let mut at_us = 1_000_000;
    loop {
        at_us += dice.between(2_000_000, 20_000_000);
        let kind = match dice.up_to(5) {
            _ if restarts && (!stalls || dice.chance(0.4)) => StallKind::Restart,
            0 | 1 => StallKind::Pause,
            2 | 3 => StallKind::Backlog,
            _ => StallKind::Reconnect,
        };
        let most_us = if dice.chance(0.8) { 800_000 } else { 6_000_000 };
        let length_us = dice.up_to(most_us);
        if !(stalls || restarts) || at_us + length_us + 200_000 >= clean_at_us {
            break;
        }
        turns.push((at_us, Turn::Stall { kind, length_us }));
        at_us += length_us;
    }
    if let Some(every_us) = settings.epoch_every_us {
        let kind = StallKind::Restart;
        let times = (1..).map(|count| count * every_us);
        for at_us in times.take_while(|at_us| at_us + 500_000 < clean_at_us) {
            let length_us = dice.up_to(300_000);
            turns.push((at_us, Turn::Stall { kind, length_us }));
        }
    }
    turns
}

/// The life of one client: joins, silences, rebinds, partings. The last session lasts to the end, or there is
/// none left then.
fn client_turns(
    dice: &mut Dice,
    client: usize,
    plan: &ClientPlan,
    clean_at_us: u64,
    turns: &mut Vec<(u64, Turn)>,
) {
    let mut at_us = if dice.chance(0.6) {
        dice.up_to(500_000)
    } else {
        dice.up_to(clean_at_us / 2)
    };
    let leaves = dice.chance(0.35);
    let silences = dice.chance(0.25);
    let rebinds = dice.chance(0.2);
    let relinks = dice.chance(0.4);
    turns.push((at_us, Turn::Join(client)));
    loop {
        at_us += dice.between(1_000_000, 15_000_000);
        // Silences and partings leave a client time to come back before the links are clean.
        if at_us + 500_000 >= clean_at_us {
            return;
        }
        match dice.up_to(3) {
            0 if leaves => {
                let parting = if dice.chance(0.6) {
                    Turn::Leave(client)
                } else {
                    Turn::Vanish(client)
                };
                turns.push((at_us, parting));
                at_us += dice.mostly_small(1_000, 8_000_000);
                if at_us + 500_000 >= clean_at_us || dice.chance(0.1) {
                    return;
                }
                turns.push((at_us, Turn::Join(client)));
            }
            1 if silences => {
                let length_us = dice.between(1_000_000, 10_000_000);
                if at_us + length_us + 500_000 >= clean_at_us {
                    return;
                }
                turns.push((
                    at_us,
                    Turn::Silence {
                        client,
                        length_us,
                        buffered: dice.chance(0.5),
                    },
                ));
                at_us += length_us;
            }
            2 if rebinds => turns.push((at_us, Turn::Rebind(client))),
            3 if relinks => turns.push((
                at_us,
                Turn::Relink {
                    client,
                    link: dice.index(plan.links.len()),
                },
            )),
            _ => {}
        }
    }
}

fn flip_turns(
    dice: &mut Dice,
    client: usize,
    settings: &SimSettings,
    clean_at_us: u64,
    turns: &mut Vec<(u64, Turn)>,
) {
    if settings.flips_per_minute <= 0.0 {
        return;
    }
    let mut at_us = 5_000_000;
    loop {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let gap_us = (dice.real(0.5, 1.5) * 60e6 / settings.flips_per_minute) as u64;
        at_us += gap_us.max(1);
        if at_us + 4_000_000 >= clean_at_us {
            return;
        }
        turns.push((at_us, Turn::Flip(client)));
    }
}

#[cfg(test)]
mod tests;
