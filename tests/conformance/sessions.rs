//! The sessions of a corpus: worlds, schemas and weather of many kinds, and what happens to them.

use std::sync::Arc;

use ackline::relay::budget::Budget;
use ackline::sequence::Tick;
use ackline::state::Frame;

use crate::corpus::Corpus;
use crate::damage::Damage;
use crate::dice::Dice;
use crate::middle::{Middle, Weather};
use crate::origin::{Origin, Style, random_schema};

/// One step of the virtual clock.
const STEP_US: u64 = 2_000;

/// A session that takes longer than this for a payload, on average, is stuck.
const SECONDS_A_PAYLOAD_MAX: u64 = 2;

/// What a session is like. Chances are thousandths.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    hz: u32,
    on_change: bool,
    style: Style,
    down: Weather,
    up: Weather,
    budget: Budget,
    hold_back_us: u64,
    first_tick: u32,
    /// Of a tick to bring another stream.
    streams: u64,
    /// Of a tick to make the client ask for a full state.
    refusals: u64,
    /// Of a tick in which the world stands still, and of it to be said that the origin is lost.
    holds: u64,
    injections: u64,
}

const STYLE: Style = Style {
    entities: 20,
    activity: 200,
    churn: 30,
    teleport: 15,
    extras: 15,
    events: 20,
    uneven: true,
    first_us: 0,
};

const WEATHER: Weather = Weather {
    loss: 10,
    delay_us: 15_000,
    jitter_us: 4_000,
    blackout: 0,
    blackout_us: 0,
};
const FAIR: Weather = Weather {
    loss: 0,
    delay_us: 4_000,
    jitter_us: 0,
    blackout: 0,
    blackout_us: 0,
};
const STORM: Weather = Weather {
    loss: 120,
    delay_us: 40_000,
    jitter_us: 60_000,
    blackout: 0,
    blackout_us: 0,
};
const DARK: Weather = Weather {
    loss: 20,
    delay_us: 30_000,
    jitter_us: 10_000,
    blackout: 2,
    blackout_us: 5_500_000,
};

const KIND: Kind = Kind {
    name: "plain",
    hz: 30,
    on_change: false,
    style: STYLE,
    down: WEATHER,
    up: WEATHER,
    budget: Budget {
        bytes_per_s: 512 << 10,
        burst_bytes: 64 << 10,
    },
    hold_back_us: 8_000,
    first_tick: 1,
    streams: 0,
    refusals: 0,
    holds: 5,
    injections: 90,
};

/// How many kinds there are.
pub const KINDS: usize = 16;

fn kind(index: usize) -> Kind {
    let kind = KIND;
    match index {
        0 => Kind {
            name: "even",
            hz: 60,
            down: FAIR,
            up: FAIR,
            style: Style {
                uneven: false,
                ..STYLE
            },
            ..kind
        },
        1 => Kind {
            name: "on change",
            hz: 10,
            on_change: true,
            ..kind
        },
        2 => Kind {
            name: "storm",
            down: STORM,
            up: STORM,
            ..kind
        },
        3 => {
            let style = Style {
                entities: 350,
                activity: 180,
                ..STYLE
            };
            Kind {
                name: "several parts",
                hz: 20,
                style,
                hold_back_us: 20_000,
                down: STORM,
                ..kind
            }
        }
        4 => {
            let style = Style {
                entities: 180,
                activity: 120,
                ..STYLE
            };
            let budget = Budget {
                bytes_per_s: 12_000,
                burst_bytes: 2_500,
            };
            Kind {
                name: "narrow",
                style,
                budget,
                ..kind
            }
        }
        5 => Kind {
            name: "dark",
            down: DARK,
            up: DARK,
            ..kind
        },
        6 => Kind {
            name: "streams",
            streams: 12,
            hz: 20,
            ..kind
        },
        7 => Kind {
            name: "full states",
            refusals: 12,
            hz: 25,
            ..kind
        },
        8 => Kind {
            name: "wrap",
            first_tick: u32::MAX - 150,
            on_change: true,
            ..kind
        },
        9 => {
            let style = Style {
                first_us: (1 << 46) + 12_345,
                activity: 120,
                ..STYLE
            };
            Kind {
                name: "old",
                style,
                on_change: true,
                hz: 50,
                ..kind
            }
        }
        10 => {
            let style = Style {
                churn: 450,
                teleport: 80,
                entities: 25,
                ..STYLE
            };
            Kind {
                name: "short lives",
                style,
                hz: 45,
                ..kind
            }
        }
        11 => {
            let style = Style {
                extras: 200,
                activity: 60,
                entities: 30,
                ..STYLE
            };
            Kind {
                name: "extra fields",
                style,
                ..kind
            }
        }
        12 => Kind {
            name: "holds",
            holds: 300,
            on_change: true,
            down: DARK,
            ..kind
        },
        13 => {
            let style = Style { events: 400, ..STYLE };
            Kind {
                name: "events",
                style,
                down: STORM,
                up: STORM,
                hz: 15,
                ..kind
            }
        }
        14 => {
            let far = Weather {
                loss: 40,
                delay_us: 150_000,
                jitter_us: 30_000,
                ..WEATHER
            };
            Kind {
                name: "far",
                down: far,
                up: far,
                hz: 60,
                style: Style {
                    activity: 100,
                    ..STYLE
                },
                ..kind
            }
        }
        _ => Kind {
            name: "quiet",
            injections: 0,
            hz: 60,
            down: STORM,
            hold_back_us: 0,
            ..kind
        },
    }
}

/// Runs session `number` until the client has taken `packets` payloads.
pub fn run(number: u64, seed: u64, packets: u64, corpus: &mut Corpus, damage: &mut Damage) {
    let kind = kind(number as usize % KINDS);
    let mut dice = Dice::new(0xACE1 + number * 7919 + seed * 1_000_003);
    corpus.session(&format!("{number} {}", kind.name));
    // Payloads of several parts are long: fewer of them.
    let packets = if kind.name == "several parts" {
        packets / 2
    } else {
        packets
    };
    let goal = corpus.accepted + packets;
    let seed = Dice::new(dice.roll());
    let mut session = Session {
        origin: Origin::new(
            random_schema(&mut dice, kind.hz, kind.on_change),
            1,
            kind.style,
            Dice::new(dice.roll()),
        ),
        middle: Middle::new(
            corpus,
            damage,
            seed,
            [kind.down, kind.up],
            kind.budget,
            kind.hold_back_us,
        ),
        kind,
        dice,
        stream: 1,
        tick: Tick(kind.first_tick).minus(1),
        next_tick_us: 0,
        frame: None,
    };
    // Every other round is left in peace, so that its sessions can be compared with the world.
    let peace = number as usize / KINDS % 2 == 1;
    session.middle.injections = if peace { 0 } else { kind.injections };
    let last_us = session.middle.now_us + packets * SECONDS_A_PAYLOAD_MAX * 1_000_000;
    while session.middle.corpus.accepted < goal {
        session.step();
        assert!(
            !session.middle.is_over() && session.middle.now_us < last_us,
            "{}: stuck",
            kind.name
        );
    }
    session.settle();
}

struct Session<'a> {
    kind: Kind,
    dice: Dice,
    origin: Origin,
    middle: Middle<'a>,
    stream: u32,
    tick: Tick,
    next_tick_us: u64,
    frame: Option<Arc<Frame>>,
}

impl Session<'_> {
    fn step(&mut self) {
        let middle = &mut self.middle;
        if middle.now_us >= self.next_tick_us {
            self.next_tick_us = middle.now_us + self.origin.period_us;
            self.tick();
        }
        let middle = &mut self.middle;
        if (middle.now_us / STEP_US).is_multiple_of(10) {
            middle.timers();
        }
        middle.step();
        middle.now_us += STEP_US;
    }

    fn tick(&mut self) {
        self.tick = self.tick.next();
        if self.dice.chance(self.kind.streams) {
            self.stream += 1 + self.dice.under(2);
            let schema = random_schema(&mut self.dice, self.kind.hz, self.kind.on_change);
            let seed = Dice::new(self.dice.roll());
            self.origin = Origin::new(schema, self.stream, self.kind.style, seed);
            self.frame = None;
        }
        let frame = if self.frame.is_some() && self.dice.chance(self.kind.holds) {
            let stale = self.dice.chance(500);
            self.origin.hold(self.tick, stale)
        } else {
            self.origin.advance(self.tick, self.middle.player())
        };
        self.frame = Some(Arc::clone(&frame));
        self.middle.publish(frame, &self.origin.schema_bytes);
        self.middle.wants_full_state |= self.dice.chance(self.kind.refusals);
    }

    /// Lets the world stand still until the client has all of it, compares, and ends the session.
    fn settle(mut self) {
        self.middle.clear_up();
        // The record of a client's own entity is refreshed every 128 ticks at the latest: its motion comes beside it.
        for _ in 0..140 {
            self.tick = self.tick.next();
            let frame = self.origin.hold(self.tick, false);
            self.frame = Some(Arc::clone(&frame));
            self.middle.publish(frame, &self.origin.schema_bytes);
            for _ in 0..100_000 / STEP_US {
                if (self.middle.now_us / STEP_US).is_multiple_of(10) {
                    self.middle.timers();
                }
                self.middle.step();
                self.middle.now_us += STEP_US;
            }
        }
        self.middle.tell_messages();
        self.compare();
        self.middle.shard.drain(self.middle.now_us);
        for _ in 0..200 {
            self.middle.timers();
            self.middle.step();
            self.middle.now_us += 20_000;
        }
        assert!(self.middle.is_over(), "the relay closed the session");
        self.middle.corpus.deeds.add(self.middle.client.statistics());
    }

    /// Unless it was misled, the client shows the world as it is.
    fn compare(&self) {
        let frame = self.frame.as_ref().unwrap();
        let truth: Vec<_> = frame.records().map(|(slot, record)| (slot, *record)).collect();
        let shown: Vec<_> = self
            .middle
            .client
            .display()
            .records()
            .map(|(slot, record, _)| (slot, record))
            .collect();
        let wrong: Vec<_> = shown.iter().filter(|entry| !truth.contains(entry)).collect();
        let missing: Vec<_> = truth.iter().filter(|entry| !shown.contains(entry)).collect();
        assert!(
            self.middle.misled || (wrong.is_empty() && missing.is_empty()),
            "{}: shown is {wrong:#?}, the world is {missing:#?}",
            self.kind.name
        );
    }
}
