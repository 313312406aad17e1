//! Ten virtual minutes over a way that loses, delays and reorders: nothing stays behind.

use super::HERE;
use crate::client::inputs::Inputs;
use crate::client::prediction::visible::SmoothingSettings;
use crate::client::prediction::{Authority, Prediction, Rules};
use crate::wire::bytes::ByteReader;
use crate::wire::input::InputsBlock;

/// A walker with inertia, so that the order of inputs matters.
#[derive(Debug)]
struct Walk;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Walker {
    at: [f64; 2],
    speed: [f64; 2],
}

impl Rules for Walk {
    type State = Walker;
    type Input = [i8; 2];

    fn apply(&self, state: &mut Walker, input: &[i8; 2]) {
        let axes = state.at.iter_mut().zip(&mut state.speed).zip(input);
        for ((at, speed), input) in axes {
            *speed = 0.9 * *speed + 0.05 * f64::from(*input) / 127.0;
            *at = (*at + *speed).clamp(-40.0, 40.0);
        }
    }

    fn place(&self, state: &Walker) -> [f64; 3] {
        [state.at[0], state.at[1], 0.0]
    }
}

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

/// A way that loses `loss_percent` and takes 50 ms and up to 20 more, so that things are reordered.
struct Way<T> {
    dice: Dice,
    loss_percent: u64,
    flying: Vec<(u64, T)>,
}

impl<T> Way<T> {
    fn send(&mut self, now_us: u64, what: T) {
        if self.dice.below(100) >= self.loss_percent {
            self.flying
                .push((now_us + 50_000 + self.dice.below(20_000), what));
        }
    }

    fn arrived(&mut self, now_us: u64) -> Vec<T> {
        let (here, flying) = self.flying.drain(..).partition(|(at, _)| *at <= now_us);
        self.flying = flying;
        let mut here: Vec<(u64, T)> = here;
        here.sort_by_key(|(at, _)| *at);
        here.into_iter().map(|(_, what)| what).collect()
    }
}

struct Outcome {
    largest_jump: f64,
    corrections: u64,
    smoothed: u64,
    snapped: u64,
    stalled: u64,
    error: f64,
    exact: bool,
    applied: u64,
}

/// Ten virtual minutes at 60 inputs a second and 20 states, with the client's own window of inputs and its blocks.
fn ten_minutes(loss_percent: u64, pushed_every_s: Option<u64>) -> Outcome {
    let mut inputs = Inputs::new();
    let start = Walker {
        at: [0.0; 2],
        speed: [0.0; 2],
    };
    let mut prediction = Prediction::new(Walk, SmoothingSettings::default(), start);
    let way = |seed| Dice(seed);
    let mut up = Way {
        dice: way(7),
        loss_percent,
        flying: Vec::new(),
    };
    let mut down = Way {
        dice: way(9),
        loss_percent,
        flying: Vec::new(),
    };
    let (mut server, mut processed) = (start, 0u32);
    let (mut dice, mut last, mut largest) = (Dice(5), [0.0; 3], 0f64);
    const MINUTES: u64 = 10 * 60 * 60;
    for frame in 1..=MINUTES + 120 {
        let now = frame * 16_667;
        if frame <= MINUTES {
            let held = (dice.below(255) as i32 - 127) as i8;
            let input = [held, (127 - (frame % 255) as i32) as i8];
            let pushed = inputs.push(&input.map(|axis| axis as u8)).unwrap();
            assert_eq!(pushed.lost, None, "redundancy is enough");
            prediction.predict(pushed.number, input);
        }
        if !inputs.is_empty() {
            let mut block = Vec::new();
            inputs.put_block(&mut block);
            up.send(now, block);
        }
        for block in up.arrived(now) {
            let block = InputsBlock::read(&mut ByteReader::new(&block)).unwrap();
            for (number, payload) in block
                .iter()
                .filter(|(number, _)| *number > processed)
                .collect::<Vec<_>>()
            {
                assert_eq!(number, processed + 1, "in order, none left out");
                Walk.apply(&mut server, &[payload[0] as i8, payload[1] as i8]);
                processed = number;
            }
        }
        if pushed_every_s.is_some_and(|every| frame <= MINUTES && frame.is_multiple_of(every * 60)) {
            server.at[0] += 0.4;
        }
        if frame.is_multiple_of(3) {
            down.send(now, (now, processed, server));
        }
        for (server_us, processed, state) in down.arrived(now) {
            inputs.acknowledge(processed + 1);
            prediction.correct(Authority {
                server_us,
                processed,
                continuity: HERE,
                state,
            });
        }
        let drawn = prediction.frame(16_667, 1.0);
        largest = largest.max((drawn[0] - last[0]).hypot(drawn[1] - last[1]));
        last = drawn;
    }
    let counts = prediction.counts();
    Outcome {
        largest_jump: largest,
        corrections: counts.corrections,
        smoothed: counts.smoothed,
        snapped: counts.snapped,
        stalled: counts.stalled,
        error: prediction.error().length_m(),
        exact: *prediction.state() == server && last == Walk.place(&server),
        applied: counts.applied,
    }
}

/// SPEC PRE1, PRE2: with a tenth of all packets lost, where the rules are the server's, ten minutes bring not one visible
/// correction, and in the end both are equal to the bit.
#[test]
fn pre2_ten_minutes_without_drift() {
    let outcome = ten_minutes(10, None);
    assert_eq!((outcome.smoothed, outcome.snapped, outcome.stalled), (0, 0, 0));
    assert!(outcome.exact && outcome.error == 0.0);
    assert_eq!(outcome.applied, 36_000);
    assert!(outcome.corrections > 10_000, "{}", outcome.corrections);
}

/// SPEC PRE3: pushes that the client cannot foresee are smoothed, each by itself, and leave nothing behind.
#[test]
fn pre3_ten_minutes_of_pushes_leave_nothing() {
    let outcome = ten_minutes(10, Some(2));
    // 300 pushes; some meet the clamp of the field.
    assert!((200..=300).contains(&outcome.smoothed), "{}", outcome.smoothed);
    assert!(outcome.exact && outcome.error == 0.0 && outcome.snapped == 0);
    // A step of the walker is at most 0.71 m a frame; of a push a frame shows 0.3.
    assert!(
        outcome.largest_jump < 0.71 + 0.3 * 0.4 + 1e-9,
        "{}",
        outcome.largest_jump
    );
}
