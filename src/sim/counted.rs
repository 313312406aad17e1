//! What the relay counted in a run, and what it must not have counted.

use std::collections::BTreeMap;

use super::outcome::Figures;
use crate::relay::counters::{Counters, DatagramRefusal, Withheld};
use crate::window::send::RestartReason;

/// Takes the relay's counters into the figures of a run; what they say that must not be.
#[must_use]
pub fn take(counters: &mut Counters, figures: &mut Figures) -> Vec<String> {
    figures.advances = counters.advances_confirmed;
    figures.full_snapshots = counters.full_snapshots;
    figures.complete_records = counters.complete_records;
    figures.reports_stale = counters.reports_stale;
    figures.migrations = counters.migrations;
    figures.snapshots_sent = counters.snapshots_sent;
    figures.fallbacks = labelled(&counters.fallbacks, &RestartReason::ALL.map(RestartReason::label));
    figures.withheld = labelled(&counters.withheld, &Withheld::ALL.map(Withheld::label));
    figures.refused_by_relay = labelled(
        &counters.datagrams_refused,
        &DatagramRefusal::ALL.map(DatagramRefusal::label),
    );
    for (mean, count) in counters.window_advance_us.take() {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        (0..count).for_each(|_| figures.advance_us.add(mean as u64));
    }
    let (contradicting, without_slot) = (
        counters.reports_contradicting,
        counters.withheld[Withheld::Slot as usize],
    );
    let wrong = [
        (contradicting, "reports contradicted what the relay knows"),
        (without_slot, "snapshots were withheld for want of a slot"),
    ];
    let wrong = wrong.into_iter().filter(|(count, _)| *count > 0);
    wrong.map(|(count, what)| format!("{count} {what}")).collect()
}

fn labelled(counts: &[u64], labels: &[&'static str]) -> BTreeMap<&'static str, u64> {
    let all = labels.iter().copied().zip(counts.iter().copied());
    all.filter(|(_, count)| *count > 0).collect()
}
