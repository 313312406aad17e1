//! A client's inputs at the relay: each taken once, in order, or said to be lost (SPEC PRE4).
//!
//! A block says which input is the oldest its client still keeps; so one number, the next that is waited for, tells what
//! is new, what was there before and what will never come. More than [`INPUTS_PER_S`] a second are not taken: they stay
//! unacknowledged with the client, whose window is bounded.

use crate::limits::INPUTS_PER_S;
use crate::state::player::{PlayerEvent, PlayerId};
use crate::wire::input::InputsBlock;

/// What the relay remembers of a client's inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inputs {
    next: u32,
    /// Inputs that may be taken now, in millionths.
    micros: u64,
    filled_us: u64,
}

/// What became of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Inputs taken.
    pub taken: u64,
    /// Inputs that were there before.
    pub repeated: u64,
    /// Inputs that will never come.
    pub lost: u64,
    /// Inputs not taken, for they are too many.
    pub held_back: u64,
}

const MICROS: u64 = 1_000_000;

impl Default for Inputs {
    fn default() -> Inputs {
        Inputs {
            next: 1,
            micros: INPUTS_PER_S * MICROS,
            filled_us: 0,
        }
    }
}

impl Inputs {
    /// The number of the next input that is waited for; `None` before any came.
    #[must_use]
    pub fn acknowledged(&self) -> Option<u32> {
        (self.next > 1).then_some(self.next)
    }

    /// Takes a block in; what is new goes to `events` in order.
    pub fn receive(
        &mut self,
        now_us: u64,
        player: PlayerId,
        block: &InputsBlock<'_>,
        events: &mut Vec<PlayerEvent>,
    ) -> Outcome {
        let gained = now_us.saturating_sub(self.filled_us).saturating_mul(INPUTS_PER_S);
        self.micros = self.micros.saturating_add(gained).min(INPUTS_PER_S * MICROS);
        self.filled_us = now_us;
        let mut outcome = Outcome::default();
        if block.first() > self.next && self.micros >= MICROS {
            let count = block.first() - self.next;
            outcome.lost = u64::from(count);
            events.push(PlayerEvent::InputsLost {
                player,
                first: self.next,
                count,
            });
            self.next = block.first();
        }
        for (sequence, payload) in block.iter() {
            if sequence < self.next {
                outcome.repeated += 1;
            } else if sequence > self.next || self.micros < MICROS {
                outcome.held_back += 1;
            } else {
                self.micros -= MICROS;
                self.next += 1;
                outcome.taken += 1;
                events.push(PlayerEvent::Input {
                    player,
                    sequence,
                    payload: payload.to_vec(),
                });
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::bytes::ByteReader;
    use crate::wire::input::put_inputs;

    fn receive(inputs: &mut Inputs, now_us: u64, first: u32, count: u32) -> (Outcome, Vec<PlayerEvent>) {
        let payloads: Vec<[u8; 4]> = (first..first + count).map(u32::to_le_bytes).collect();
        let mut bytes = Vec::new();
        put_inputs(first, payloads.iter().map(|payload| &payload[..]), &mut bytes);
        let block = InputsBlock::read(&mut ByteReader::new(&bytes)).unwrap();
        let mut events = Vec::new();
        (inputs.receive(now_us, 9, &block, &mut events), events)
    }

    fn numbers(events: &[PlayerEvent]) -> Vec<u32> {
        let number = |event: &PlayerEvent| match event {
            PlayerEvent::Input {
                player: 9,
                sequence,
                payload,
            } => {
                assert_eq!(payload, &sequence.to_le_bytes());
                *sequence
            }
            other => panic!("{other:?}"),
        };
        events.iter().map(number).collect()
    }

    /// SPEC PRE4: late, repeated and overlapping blocks give each input once and in order.
    #[test]
    fn pre4_each_input_is_taken_once_and_in_order() {
        let mut inputs = Inputs::default();
        assert_eq!(inputs.acknowledged(), None);
        assert_eq!(numbers(&receive(&mut inputs, 0, 1, 2).1), [1, 2]);
        assert_eq!(numbers(&receive(&mut inputs, 0, 1, 5).1), [3, 4, 5]);
        let (outcome, events) = receive(&mut inputs, 0, 1, 3);
        assert_eq!((outcome.repeated, events.len()), (3, 0), "a late block");
        assert_eq!(inputs.acknowledged(), Some(6));
    }

    /// SPEC PRE4: what left the client's window is said to be lost, and the rest goes on.
    #[test]
    fn pre4_inputs_past_the_window_are_said_to_be_lost() {
        let mut inputs = Inputs::default();
        receive(&mut inputs, 0, 1, 2);
        let (outcome, events) = receive(&mut inputs, 0, 6, 2);
        let lost = PlayerEvent::InputsLost {
            player: 9,
            first: 3,
            count: 3,
        };
        assert_eq!((outcome.lost, &events[0]), (3, &lost));
        assert_eq!(numbers(&events[1..]), [6, 7]);
        // What comes late of the lost stays lost: order would suffer.
        assert_eq!(receive(&mut inputs, 0, 3, 3).1, []);
    }

    /// THREATS 71: a flood is held back, without a queue at the relay.
    #[test]
    fn threats_71_a_flood_of_inputs_stays_with_its_client() {
        let mut inputs = Inputs::default();
        let mut taken = 0;
        for block in 0..200u32 {
            let now_us = u64::from(block) * 1_000;
            let next = inputs.acknowledged().unwrap_or(1);
            taken += receive(&mut inputs, now_us, next, 64).0.taken;
        }
        assert!(
            (INPUTS_PER_S..INPUTS_PER_S + INPUTS_PER_S / 4).contains(&taken),
            "{taken}"
        );
    }
}
