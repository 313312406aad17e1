//! The inputs that were predicted and that the server has not said to have processed (SPEC PRE1).
//!
//! Invariant: numbers rise strictly from the oldest kept to the newest; there are
//! [`PREDICTION_PENDING_MAX`] places, made once. One more input takes the oldest one's place, and its number is the gap:
//! until the server has come that far, what is kept cannot be played again from what the server says.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use crate::limits::PREDICTION_PENDING_MAX;
use crate::sequence::InputNumber;
use std::collections::VecDeque;

/// Inputs in order of their numbers.
#[derive(Debug)]
pub(super) struct Pending<I> {
    kept: VecDeque<(InputNumber, I)>,
    gap: Option<InputNumber>,
}

impl<I> Pending<I> {
    pub(super) fn new() -> Pending<I> {
        Pending {
            kept: VecDeque::with_capacity(PREDICTION_PENDING_MAX),
            gap: None,
        }
    }

    /// Number of the newest.
    pub(super) fn newest(&self) -> Option<InputNumber> {
        self.kept.back().map(|(number, _)| *number)
    }

    /// Keeps an input whose number is after the newest.
    pub(super) fn push(&mut self, number: InputNumber, input: I) {
        debug_assert!(self.newest().is_none_or(|newest| number.is_after(newest)));
        if self.kept.len() >= PREDICTION_PENDING_MAX {
            self.gap = self.kept.pop_front().map(|(oldest, _)| oldest).or(self.gap);
        }
        self.kept.push_back((number, input));
    }

    /// The server has processed the inputs up to `number`.
    pub(super) fn forget_through(&mut self, number: InputNumber) {
        while let Some((oldest, _)) = self.kept.front()
            && !oldest.is_after(number)
        {
            self.kept.pop_front();
        }
        self.gap = self.gap.filter(|gap| gap.is_after(number));
    }

    /// True when the server has all that was pushed.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty() && !self.has_gap()
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
        self.gap = None;
    }

    /// True when an input is missing between what the server has processed and the oldest kept.
    pub(super) fn has_gap(&self) -> bool {
        self.gap.is_some()
    }

    /// How many are kept.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// The inputs in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (InputNumber, &I)> {
        self.kept.iter().map(|(number, input)| (*number, input))
    }
}
