//! What a client says of itself and is told alone: inputs, a camera, the state of its own entity, messages (SPEC PRE2,
//! PRE4, DEC10).

use super::dice::Dice;
use super::director::{Charge, input_payload, message_payload};
use super::outcome::Figures;
use super::role::RolePlan;
use super::sight::{Metres, Sight};
use super::truth::{Fact, Truth};
use crate::client::session::{Client, SessionState};
use crate::delta::message::Directed;
use crate::sequence::Tick;
use crate::state::schema::Schema;

/// Time between two moves of a camera, microseconds.
const CAMERA_US: u64 = 100_000;

/// The player's part of one session.
#[derive(Debug)]
pub struct Own {
    plan: RolePlan,
    dice: Dice,
    mark: [u8; 4],
    /// Nothing new is said from here on.
    until_us: u64,
    input_us: u64,
    camera_us: u64,
    camera: Option<Metres>,
    /// The stream the camera was set in.
    camera_stream: u32,
    /// Cameras told that nobody has asked for yet.
    cameras: Vec<(u64, Option<Metres>)>,
    owner: Option<Tick>,
    processed: u32,
    directed: u64,
}

impl Own {
    /// The part of a session that begins now.
    #[must_use]
    pub fn new(plan: RolePlan, nonce: &[u8; 16], mut dice: Dice, now_us: u64, until_us: u64) -> Own {
        let [a, b, c, d, ..] = *nonce;
        Own {
            plan,
            mark: [a, b, c, d],
            until_us,
            input_us: now_us + dice.up_to(200_000),
            camera_us: now_us + dice.up_to(500_000),
            camera: None,
            camera_stream: 0,
            cameras: Vec::new(),
            owner: None,
            processed: 0,
            directed: 0,
            dice,
        }
    }

    /// The word for what it may see.
    #[must_use]
    pub fn label(&self) -> &'static str {
        self.plan.role.label()
    }

    /// When it has something to say.
    #[must_use]
    pub fn next_us(&self) -> u64 {
        let inputs = if self.plan.inputs_hz > 0.01 && self.input_us < self.until_us {
            self.input_us
        } else {
            u64::MAX
        };
        let films = if self.plan.films { self.camera_us } else { u64::MAX };
        inputs.min(films)
    }

    /// Says what is due.
    pub fn speak(&mut self, now_us: u64, client: &mut Client, figures: &mut Figures) {
        if client.state() != SessionState::Connected {
            (self.input_us, self.camera_us) = (now_us + 20_000, now_us + 20_000);
            return;
        }
        if self.plan.inputs_hz > 0.01 && self.input_us < self.until_us && self.input_us <= now_us {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let period_us = (self.dice.real(0.5, 1.5) * 1e6 / self.plan.inputs_hz) as u64;
            self.input_us = now_us + period_us.max(1_000);
            let number = u32::try_from(client.statistics().inputs_pushed + 1).unwrap_or(u32::MAX);
            if client.push_input(&input_payload(self.mark, number)) == Ok(number) {
                figures.inputs_pushed += 1;
            }
        }
        if self.plan.films && self.camera_us <= now_us {
            self.camera_us = now_us + CAMERA_US + self.dice.up_to(CAMERA_US);
            let stands = now_us >= self.until_us && self.camera_stream == client.stream_epoch();
            if !stands {
                self.film(now_us, client);
            }
        }
    }

    /// Moves the camera a little, or to somewhere else.
    fn film(&mut self, now_us: u64, client: &mut Client) {
        let Some(schema) = client.schema().cloned() else {
            return;
        };
        let jumps =
            self.camera.is_none() || self.camera_stream != client.stream_epoch() || self.dice.chance(0.03);
        let mut place = self.camera.unwrap_or_default();
        for (at, axis) in place.iter_mut().zip(&schema.position) {
            let width = axis.max - axis.min;
            *at = if jumps {
                self.dice.real(axis.min, axis.max)
            } else {
                (*at + width * self.dice.real(-0.01, 0.01)).clamp(axis.min, axis.max)
            };
        }
        if client.set_camera(place).is_ok() {
            (self.camera, self.camera_stream) = (Some(place), client.stream_epoch());
            self.cameras.push((now_us, quantised(&schema, place)));
        }
    }

    /// A new stream measures the camera anew.
    pub fn stream_changed(&mut self, now_us: u64, client: &Client) {
        self.owner = None;
        if let (Some(camera), Some(schema)) = (self.camera, client.schema()) {
            self.cameras.push((now_us, quantised(schema, camera)));
        }
        self.camera_us = self.camera_us.min(now_us);
    }

    /// Cameras told since the last call.
    pub fn take_cameras(&mut self) -> std::vec::Drain<'_, (u64, Option<Metres>)> {
        self.cameras.drain(..)
    }

    /// Looks at the state of the own entity, where a new one came.
    pub fn look(
        &mut self,
        client: &Client,
        sight: Option<&Sight>,
        truth: &Truth,
        figures: &mut Figures,
    ) -> Option<String> {
        let state = client.owner()?;
        if self.owner.replace(state.tick) == Some(state.tick) {
            return None;
        }
        let frame = truth.frame(state.tick)?;
        figures.owner_states += 1;
        let tick = state.tick;
        let pushed = client.statistics().inputs_pushed;
        let before = core::mem::replace(&mut self.processed, state.processed);
        if state.processed < before || u64::from(state.processed) > pushed {
            let now = state.processed;
            return Some(format!(
                "the own state of {tick} has input {now} in it after {before}, of {pushed} pushed"
            ));
        }
        let fact = truth.at(frame, state.record.entity);
        if fact != Fact::Alive(&state.record) || frame.server_us != state.server_us {
            return Some(format!("the own state of {tick} is {state:?}, true is {fact:?}"));
        }
        let owner = sight?.owner_at(tick)?;
        let (shown, told) = (state.record.entity, owner);
        (shown != told).then(|| {
            format!("the own state of {tick} is of entity {shown}, which is not its own: that is {told}")
        })
    }

    /// A message to this client alone has come.
    pub fn directed(
        &mut self,
        directed: &Directed,
        client: &Client,
        sight: Option<&Sight>,
        refused: u64,
        figures: &mut Figures,
    ) -> Option<String> {
        figures.messages_directed += 1;
        let number = directed
            .payload
            .get(8..)
            .and_then(|number| number.try_into().ok())
            .map(u64::from_le_bytes)?;
        if let Some(sight) = sight
            && directed.payload != message_payload(sight.connection, number)
        {
            return Some(format!("a message to another player came: {directed:?}"));
        }
        let last = core::mem::replace(&mut self.directed, number);
        let dropped = client.statistics().messages_dropped + refused > 0;
        if number <= last || (number > last + 1 && !dropped) {
            return Some(format!("message {number} to this client came after {last}"));
        }
        None
    }

    /// The run is over and all was said: nothing is on its way.
    #[must_use]
    pub fn end(
        &self,
        client: &Client,
        charge: &Charge,
        sight: &Sight,
        truth: &Truth,
        refused: u64,
    ) -> Vec<String> {
        let mut found = Vec::new();
        let counts = client.statistics();
        let (arrived, pushed) = (charge.inputs(), counts.inputs_pushed);
        if charge.taken + charge.lost != pushed || arrived != pushed || charge.lost > counts.inputs_lost {
            let (taken, lost, own) = (charge.taken, charge.lost, counts.inputs_lost);
            found.push(format!("of {pushed} inputs {taken} came to the origin and {lost} were said to be lost; the client lost {own}"));
        }
        let dropped = counts.messages_dropped + refused > 0;
        if self.directed != charge.messages && !dropped {
            let (last, all) = (self.directed, charge.messages);
            found.push(format!("{last} of {all} messages to this client came"));
        }
        let (told, (entity, view)) = (client.assigned(), sight.assigned());
        if (told.entity, told.view) != (entity, view) && refused == 0 {
            found.push(format!(
                "at the end {told:?} is assigned as told; that is {entity:?} with {view:?}"
            ));
        }
        if let (Some(entity), Some(frame)) = (entity, truth.newest())
            && let Fact::Alive(expected) = truth.at(frame, entity)
        {
            let state = client.owner();
            if state.map(|state| state.record) != Some(*expected) {
                found.push(format!(
                    "at the end the own state is {state:?}, true is {expected:?}"
                ));
            }
            let processed = state.map_or(0, |state| state.processed);
            if processed != charge.processed() {
                let said = charge.processed();
                found.push(format!(
                    "at the end the own state has input {processed} in it, the origin said {said}"
                ));
            }
        }
        found
    }
}

/// Where a camera is on the axes of a stream; `None` outside of them.
fn quantised(schema: &Schema, place: Metres) -> Option<Metres> {
    let mut on_axes = [0.0; 3];
    for ((to, at), (axis, name)) in on_axes
        .iter_mut()
        .zip(place)
        .zip(schema.position.iter().zip(["x", "y", "z"]))
    {
        let q = axis.quantise(name, at).ok()?;
        *to = axis.min + axis.step * f64::from(q);
    }
    Some(on_axes)
}
