//! From recorded events to an origin's: kinds become numbers, the rest becomes a payload.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::error::TraceFault;
use super::record::TraceEvent;
use crate::limits::EVENT_BYTES_MAX;
use crate::state::entity::Entity;
use crate::state::update::Event;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// Kinds of event that rate tiers may not delay or drop (SPEC CTL3).
pub(crate) const CRITICAL_EVENTS: [&str; 6] = ["kill", "death", "demolish", "goal", "damage", "respawn"];

/// Event kinds so far, in order of first appearance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    pub(crate) kinds: Vec<String>,
    /// Payloads above the bound, which were left out; the events themselves are kept.
    pub(crate) oversized_payloads: u64,
    index: HashMap<String, u16>,
}

impl Events {
    /// The event about `entity`, which the event's id was resolved to, at `at_us`.
    pub(crate) fn take(
        &mut self,
        event: &TraceEvent,
        entity: Option<Entity>,
        at_us: u64,
    ) -> Result<Event, TraceFault> {
        let kind = self.kind(&event.kind)?;
        let mut payload = payload(event, entity.is_some());
        if payload.len() > EVENT_BYTES_MAX {
            payload.clear();
            self.oversized_payloads += 1;
        }
        let critical = CRITICAL_EVENTS.contains(&event.kind.as_str());
        Ok(Event {
            kind,
            critical,
            entity,
            at_us,
            payload,
        })
    }

    fn kind(&mut self, name: &str) -> Result<u16, TraceFault> {
        if let Some(kind) = self.index.get(name) {
            return Ok(*kind);
        }
        let bound = u64::from(u16::MAX) + 1;
        let kind = u16::try_from(self.kinds.len()).map_err(|_| TraceFault::TooMany {
            what: "kinds of event",
            bound,
        })?;
        self.index.insert(name.to_owned(), kind);
        self.kinds.push(name.to_owned());
        Ok(kind)
    }
}

/// What an event carries besides its kind and entity: compact JSON with sorted keys, nothing where there is
/// nothing. An id that names no entity alive stays in it.
fn payload(event: &TraceEvent, entity_known: bool) -> Vec<u8> {
    let mut rest: BTreeMap<&str, &Value> = event
        .rest
        .iter()
        .map(|(key, value)| (key.as_str(), value))
        .collect();
    let id = event.id.filter(|_| !entity_known).map(Value::from);
    if let Some(id) = &id {
        rest.insert("id", id);
    }
    if rest.is_empty() {
        Vec::new()
    } else {
        serde_json::to_vec(&rest).unwrap_or_default()
    }
}
