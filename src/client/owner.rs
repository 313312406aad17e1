//! The state of the client's own entity, as the origin had it last (SPEC PRE2, DEC10).
//!
//! It comes beside the snapshots and owes nothing to a baseline: whoever predicts takes it as the truth, forgets the inputs
//! it has in it, and plays the rest again.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use crate::delta::decode::{Body, DecodeError, Delta};
use crate::delta::layout::Layout;
use crate::sequence::Tick;
use crate::state::record::Record;
use crate::state::slots::Slot;
use crate::wire::owner::OwnerBlock;

/// The owner's state at one tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerState {
    /// The tick of the state.
    pub tick: Tick,
    /// Server time of that tick, microseconds.
    pub server_us: u64,
    /// The last input that is in it; 0 before any.
    pub processed: u32,
    /// The entity's slot.
    pub slot: Slot,
    /// Its whole record.
    pub record: Record,
}

impl OwnerState {
    /// Reads the record of a block: one complete entry and nothing more.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub(super) fn read(block: &OwnerBlock<'_>, layout: &Layout) -> Result<OwnerState, DecodeError> {
        let mut body = Body::new(layout, block.record, 1, block.server_us)?;
        let slot = body.next_slot()?.ok_or(DecodeError::Short)?;
        let Delta::Complete(record) = body.delta(None)? else {
            return Err(DecodeError::NoSuchMember);
        };
        // Bits left over are found here.
        body.next_slot()?;
        Ok(OwnerState {
            tick: block.tick,
            server_us: block.server_us,
            processed: block.processed,
            slot,
            record,
        })
    }
}
