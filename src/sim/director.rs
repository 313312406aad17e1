//! The origin's side of the players (SPEC PRE2, PRE4): who joins, what it is and may see, which inputs came.
//!
//! It gives orders by seed: an entity and a view after a while, others in flight, another entity once one has died,
//! messages to one player alone. It takes inputs and looks that each comes once and in order, or is said to be lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::dice::Dice;
use super::role::{Role, RolePlan};
use super::scenario::Scenario;
use super::truth::{Fact, Truth};
use crate::limits::INPUT_BYTES_MAX;
use crate::state::entity::Entity;
use crate::state::player::{Directive, Order, PlayerEvent, PlayerId};
use crate::state::schema::Schema;
use crate::state::view::View;

/// One player as the origin knows it.
#[derive(Clone, Debug)]
pub struct Charge {
    /// Which client it is, and the first bytes of its session's randomness.
    pub client: usize,
    mark: [u8; 4],
    entity: Option<Entity>,
    view: Option<View>,
    /// When it is assigned next.
    assign_us: u64,
    /// The next input that may come.
    next_input: u32,
    /// Inputs taken and inputs said to be lost.
    pub taken: u64,
    /// See [`taken`](Charge::taken).
    pub lost: u64,
    processed: u32,
    /// Messages said, by their numbers from 1.
    pub messages: u64,
    left: bool,
}

/// Gives orders and takes inputs.
pub struct Director {
    dice: Dice,
    plans: Vec<RolePlan>,
    players: BTreeMap<PlayerId, Charge>,
    at_us: u64,
    /// From here on nothing new is ordered but what the death of an entity asks for.
    calm_us: u64,
    found: Vec<(usize, String)>,
}

/// The bytes of an input: whose, which, and some filling; sometimes none at all.
#[must_use]
pub fn input_payload(mark: [u8; 4], sequence: u32) -> Vec<u8> {
    if sequence.is_multiple_of(17) {
        return Vec::new();
    }
    let filling = sequence.wrapping_mul(0x9E37_79B1) >> 16;
    let length = 8 + filling as usize % (INPUT_BYTES_MAX - 7);
    let mut payload = [mark, sequence.to_le_bytes()].concat();
    payload.resize(length, filling.to_le_bytes()[0]);
    payload
}

/// The bytes of a message to one player alone: whose, and its number.
#[must_use]
pub fn message_payload(player: PlayerId, number: u64) -> Vec<u8> {
    [player.to_le_bytes(), number.to_le_bytes()].concat()
}

impl Director {
    /// A director of a scenario's players, none of whom has joined.
    #[must_use]
    pub fn new(scenario: &Arc<Scenario>) -> Director {
        Director {
            dice: Dice::new(scenario.seed, "director", 0),
            plans: scenario.clients.iter().map(|plan| plan.role).collect(),
            players: BTreeMap::new(),
            at_us: 0,
            calm_us: scenario.clean_at_us,
            found: Vec::new(),
        }
    }

    /// What was wrong since the last call, by client.
    pub fn take_found(&mut self) -> Vec<(usize, String)> {
        core::mem::take(&mut self.found)
    }

    /// What it knows of a player.
    #[must_use]
    pub fn player(&self, player: PlayerId) -> Option<&Charge> {
        self.players.get(&player)
    }

    /// A new run of the origin: it knows nobody's entity, and all players are said to join again.
    pub fn begin_stream(&mut self) {
        for charge in self.players.values_mut() {
            (charge.entity, charge.view) = (None, None);
            charge.assign_us = self.at_us + self.dice.up_to(1_000_000);
        }
    }

    /// Takes what the relay says of players. `who` tells client and randomness of a connection.
    pub fn hear(
        &mut self,
        now_us: u64,
        event: &PlayerEvent,
        who: impl Fn(PlayerId) -> Option<(usize, [u8; 16])>,
    ) {
        let player = event.player();
        if let PlayerEvent::Joined(..) = event {
            if let Some((client, nonce)) = who(player) {
                self.join(now_us, player, client, nonce);
            }
            return;
        }
        let Some(charge) = self.players.get_mut(&player).filter(|charge| !charge.left) else {
            self.found.push((
                0,
                format!("the origin heard {event:?} of a player who is not there"),
            ));
            return;
        };
        let wrong = match event {
            PlayerEvent::Joined(..) | PlayerEvent::Camera { .. } => None,
            PlayerEvent::Left(_) => {
                charge.left = true;
                None
            }
            PlayerEvent::Input {
                sequence, payload, ..
            } => charge.take_input(*sequence, payload),
            PlayerEvent::InputsLost { first, count, .. } => charge.take_loss(*first, *count),
        };
        self.found.extend(wrong.map(|wrong| (charge.client, wrong)));
    }

    fn join(&mut self, now_us: u64, player: PlayerId, client: usize, nonce: [u8; 16]) {
        let soon = self.dice.chance(0.5);
        let delay_us = if soon { 0 } else { self.dice.up_to(2_000_000) };
        let [a, b, c, d, ..] = nonce;
        self.players.insert(
            player,
            Charge {
                client,
                mark: [a, b, c, d],
                entity: None,
                view: None,
                assign_us: now_us + delay_us,
                next_input: 1,
                taken: 0,
                lost: 0,
                processed: 0,
                messages: 0,
                left: false,
            },
        );
    }

    /// Orders that come with the next tick. `truth` is the world before it.
    pub fn direct(&mut self, now_us: u64, truth: &Truth, schema: &Schema, out: &mut Vec<Directive>) {
        let elapsed_us = now_us.saturating_sub(self.at_us);
        self.at_us = now_us;
        #[allow(clippy::cast_precision_loss)]
        let elapsed_s = elapsed_us as f64 / 1e6;
        let Director {
            dice,
            plans,
            players,
            calm_us,
            ..
        } = self;
        for (player, charge) in players.iter_mut().filter(|(_, charge)| !charge.left) {
            let Some(plan) = plans.get(charge.client) else {
                continue;
            };
            let mut order = |order| {
                out.push(Directive {
                    player: *player,
                    order,
                })
            };
            if dice.chance(plan.messages * elapsed_s) {
                charge.messages += 1;
                order(Order::Message {
                    kind: u16::try_from(dice.up_to(500)).unwrap_or(0),
                    payload: message_payload(*player, charge.messages),
                });
            }
            let last_input = charge.next_input - 1;
            if last_input > charge.processed && dice.chance(0.7) {
                charge.processed = last_input;
                order(Order::Processed(last_input));
            }
            if charge.orphaned(truth) && charge.assign_us == u64::MAX {
                let most_us = if dice.chance(0.3) { 15_000_000 } else { 3_000_000 };
                charge.assign_us = now_us + dice.up_to(most_us);
            }
            let wants = now_us < *calm_us && dice.chance(plan.changes * elapsed_s);
            if now_us >= charge.assign_us || wants {
                charge.assign_us = u64::MAX;
                if let Some(assign) = charge.assign(plan, wants, dice, truth, schema) {
                    order(assign);
                }
            }
        }
    }
}

impl Charge {
    /// Its entity has died.
    fn orphaned(&self, truth: &Truth) -> bool {
        let (Some(entity), Some(frame)) = (self.entity, truth.newest()) else {
            return false;
        };
        !matches!(truth.at(frame, entity), Fact::Alive(_))
    }

    /// Another entity, another view, or both.
    fn assign(
        &mut self,
        plan: &RolePlan,
        changes: bool,
        dice: &mut Dice,
        truth: &Truth,
        schema: &Schema,
    ) -> Option<Order> {
        if plan.role == Role::Whole && !plan.owns && plan.changes == 0.0 {
            return None;
        }
        let role = if changes && dice.chance(0.5) {
            Role::ALL[dice.index(4)]
        } else {
            plan.role
        };
        let owns = plan.owns || role == Role::Owner || (role == Role::Camera && dice.chance(0.3));
        let living = truth.living();
        if owns && !living.is_empty() && !(changes && dice.chance(0.3)) {
            self.entity = Some(living[dice.index(living.len())]);
        } else if changes && dice.chance(0.2) {
            self.entity = None;
        }
        let view = (self.view.is_none() || (changes && dice.chance(0.7))).then(|| role.draw(dice, schema));
        self.view = view.or(self.view);
        Some(Order::Assign {
            entity: self.entity,
            view,
        })
    }

    fn take_input(&mut self, sequence: u32, payload: &[u8]) -> Option<String> {
        if sequence != self.next_input {
            let next = self.next_input;
            self.next_input = sequence + 1;
            return Some(format!(
                "input {sequence} reached the origin where {next} was next"
            ));
        }
        self.next_input += 1;
        self.taken += 1;
        let wrong = payload != input_payload(self.mark, sequence);
        wrong.then(|| format!("input {sequence} reached the origin with other bytes: {payload:?}"))
    }

    fn take_loss(&mut self, first: u32, count: u32) -> Option<String> {
        let next = self.next_input;
        self.next_input = first + count;
        self.lost += u64::from(count);
        let wrong = first != next || count == 0;
        wrong.then(|| format!("{count} inputs from {first} on were said to be lost where {next} was next"))
    }

    /// What the origin has assigned: the entity, and the view where it said one.
    #[must_use]
    pub fn assigned(&self) -> (Option<Entity>, Option<View>) {
        (self.entity, self.view)
    }

    /// Inputs that came or will never come.
    #[must_use]
    pub fn inputs(&self) -> u64 {
        u64::from(self.next_input - 1)
    }

    /// The last input it has said to be in the world's state.
    #[must_use]
    pub fn processed(&self) -> u32 {
        self.processed
    }
}
