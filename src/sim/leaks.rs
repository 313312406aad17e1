//! Whether a datagram told a client of somebody it must not know (SPEC CTL1): hidden is hidden.
//!
//! Every entry that decoded is looked at, those that came too late to be shown among them.

use super::sight::{Sight, Verdict};
use super::truth::{Fact, FrameFact, Truth};
use crate::client::session::Client;
use crate::delta::decode::Change;
use crate::state::entity::{Departure, Entity};
use crate::state::slots::Slot;

/// Looks at the entries that a client decoded last, of the snapshot of `frame`: what of them is a leak, and how many there
/// were.
#[must_use]
pub fn look(client: &Client, frame: &FrameFact, sight: &Sight, truth: &Truth) -> (Vec<String>, u64) {
    let eye = Eye { frame, sight, truth };
    let (mut found, mut looked) = (Vec::new(), 0);
    for entry in client.decoded() {
        looked += 1;
        let wrong = match entry.change {
            Change::Update(record) | Change::Complete(record) => eye.names(record.entity, "a record"),
            Change::Awake => {
                let tenant = truth.tenants(frame, entry.slot).next();
                tenant.and_then(|entity| eye.names(entity, "a waking"))
            }
            Change::Removed {
                departure,
                at_us,
                reason,
            } => eye.removes(entry.slot, departure, at_us, reason),
        };
        found.extend(wrong);
    }
    (found, looked)
}

struct Eye<'a> {
    frame: &'a FrameFact,
    sight: &'a Sight,
    truth: &'a Truth,
}

impl Eye<'_> {
    fn names(&self, entity: Entity, what: &str) -> Option<String> {
        let tick = self.frame.tick;
        let hidden = self.sight.judge(self.truth, tick, entity) == Verdict::Never;
        hidden.then(|| {
            let why = self.sight.explain(self.truth, tick, entity);
            format!("LEAK: snapshot {tick} has {what} of entity {entity}, which is out of view: {why}")
        })
    }

    /// A removal is about somebody who was in view once; that it was destroyed is said of who died in view alone.
    fn removes(&self, slot: Slot, departure: Departure, at_us: u64, reason: u8) -> Option<String> {
        let Eye { frame, sight, truth } = *self;
        let tick = frame.tick;
        let mut tenants = truth.tenants(frame, slot).peekable();
        tenants.peek()?;
        match departure {
            Departure::Destroyed => {
                let died = |entity: &Entity| truth.at(frame, *entity) == Fact::Ended { at_us, reason };
                let Some(entity) = tenants.find(died) else {
                    return Some(format!(
                        "snapshot {tick} says that who was in slot {slot} was destroyed at {at_us}, and nobody was"
                    ));
                };
                let before = truth.ended_tick(frame, entity)?.minus(1);
                let stranger = sight.judge(truth, before, entity) == Verdict::Never;
                stranger.then(|| {
                    let why = sight.explain(truth, before, entity);
                    format!("LEAK: snapshot {tick} says that entity {entity} was destroyed, which died out of view: {why}")
                })
            }
            Departure::LeftView | Departure::Hidden => {
                let known = |entity: Entity| {
                    let hidden = departure == Departure::LeftView || sight.ever_hidden(truth, tick, entity);
                    hidden && sight.ever(truth, tick, entity)
                };
                let first = tenants.next();
                let right = first.is_some_and(known) || tenants.any(known);
                (!right).then(|| {
                    format!("LEAK: snapshot {tick} says {departure:?} of slot {slot}, of {first:?}, who was never in view or never hidden")
                })
            }
        }
    }
}
