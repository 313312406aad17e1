//! What dishonest clients say, exchange by exchange.

use ackline::wire::report::{RefuseReason, Report};

use super::liar::Liar;

/// Honest for 40 ticks, then it reports parts of everything it gets, asks for no advance, acknowledges no message
/// and wants records: every place a table of its own, every queue full.
pub fn hoards(liar: &mut Liar) -> Vec<Report> {
    if liar.round <= 200 {
        return vec![liar.honest_report()];
    }
    let some = |mask: u32| {
        if mask.count_ones() > 1 {
            mask & (mask - 1)
        } else {
            mask
        }
    };
    let held: Vec<_> = liar
        .held
        .iter()
        .rev()
        .map(|(id, mask)| (*id, some(*mask)))
        .collect();
    vec![Report {
        requests: (0..4).map(|id| (id, 0)).collect(),
        ..liar.report_of(held)
    }]
}

/// Alive, and acknowledges nothing.
pub fn never_acknowledges(liar: &mut Liar) -> Vec<Report> {
    vec![liar.empty_report()]
}

/// Acknowledges for 40 ticks, and is not heard again.
pub fn goes_silent(liar: &mut Liar) -> Vec<Report> {
    if liar.round <= 200 {
        vec![liar.honest_report()]
    } else {
        Vec::new()
    }
}

/// Asks for full state four times an exchange, whatever it gets.
pub fn asks_for_full_state(liar: &mut Liar) -> Vec<Report> {
    let report = Report {
        refuse: Some(RefuseReason::Requested),
        ..liar.honest_report()
    };
    vec![report; 4]
}

/// Acknowledges what is to come, what never was, other parts, and under generations and epochs gone or to come.
pub fn forges(liar: &mut Liar) -> Vec<Report> {
    let honest = liar.honest_report();
    let newest = liar.newest();
    let of = |ids: &dyn Fn(u32) -> u32| liar.report_of((0..32).map(|n| (ids(n), 1 + n)));
    match liar.round % 8 {
        0 => vec![of(&|n| newest.wrapping_add(40 - n))],
        1 => vec![of(&|n| newest.wrapping_sub(100_000 + n))],
        2 => vec![liar.report_of(liar.held.iter().rev().map(|(id, mask)| (*id, mask | 1 << 31)))],
        3 => vec![Report {
            generation: honest.generation.wrapping_sub(1),
            ..honest
        }],
        4 => vec![
            Report {
                generation: honest.generation.wrapping_add(2),
                ..honest.clone()
            },
            Report {
                session_epoch: honest.session_epoch.wrapping_sub(1),
                ..honest
            },
        ],
        5 => vec![Report {
            next_message: u32::MAX,
            received_newest: u32::MAX,
            received_count: u32::MAX,
            echo: u16::MAX,
            echo_delay: u16::MAX,
            ..honest
        }],
        _ => vec![honest],
    }
}
