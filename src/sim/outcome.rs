//! What a run, or many, came to: figures, and failures in a sentence each.

use core::fmt;
use std::collections::BTreeMap;

use super::quantiles::Quantiles;

/// Failures kept of one run; more are only counted.
const FAILURES_KEPT: usize = 20;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed that replays it.
    pub seed: u64,
    /// When, virtual microseconds.
    pub at_us: u64,
    /// Which client, where it is one's.
    pub client: Option<usize>,
    /// What, in words.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {} at {}.{:06} s",
            self.seed,
            self.at_us / 1_000_000,
            self.at_us % 1_000_000
        )?;
        if let Some(client) = self.client {
            write!(f, ", client {client}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// What was counted. Times are microseconds of virtual time.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Figures {
    pub runs: u64,
    /// Time clients were in a session, summed.
    pub client_us: u64,
    pub sessions: u64,
    pub frames: u64,
    pub stream_epochs: u64,
    pub datagrams_down: u64,
    pub datagrams_up: u64,
    pub bytes_down: u64,
    pub bytes_up: u64,
    pub datagrams_lost: u64,
    pub records_checked: u64,
    pub tables_checked: u64,
    pub departures_checked: u64,
    /// Looks at everything shown while the newest snapshot is whole and leaves nothing out; those that found it other
    /// than what is to be seen.
    pub looks: u64,
    pub looks_behind: u64,
    pub records_omitted: u64,
    pub messages_dropped: u64,
    pub mismatches: u64,
    pub missing: u64,
    pub ghosts: u64,
    /// Records that differed between a flipped bit and its healing.
    pub tainted_records: u64,
    /// Entries looked at for leaks, and what was told of somebody out of view, events included.
    pub entries_checked: u64,
    pub leaks: u64,
    /// Events that were due and did not come, for want of room.
    pub events_missed: u64,
    /// Records that waited for longer than they may.
    pub starved: u64,
    pub inputs_pushed: u64,
    pub inputs_taken: u64,
    pub inputs_lost: u64,
    pub owner_states: u64,
    pub messages_directed: u64,
    pub directives: u64,
    pub flips: u64,
    pub flips_detected: u64,
    pub flips_harmless: u64,
    pub flips_healed: u64,
    /// Shown wrongly for a while and made good by newer records before anybody noticed.
    pub flips_superseded: u64,
    /// Not noticed when the session ended.
    pub flips_open: u64,
    pub advances: u64,
    pub complete_views: u64,
    pub events_delivered: u64,
    pub events_dropped: u64,
    pub digests_checked: u64,
    pub digest_mismatches: u64,
    pub full_snapshots: u64,
    pub complete_records: u64,
    pub reports_stale: u64,
    pub migrations: u64,
    /// Parts that found every slot taken at the client (SPEC WIN5).
    pub parts_window_full: u64,
    pub parts_received: u64,
    pub snapshots_sent: u64,
    pub slots_most: u64,
    /// Sessions by role.
    pub roles: BTreeMap<&'static str, u64>,
    pub fallbacks: BTreeMap<&'static str, u64>,
    pub withheld: BTreeMap<&'static str, u64>,
    pub refused_by_clients: BTreeMap<&'static str, u64>,
    pub refused_by_relay: BTreeMap<&'static str, u64>,
    /// Between two newest snapshots at a client.
    pub gap_us: Quantiles,
    /// From a session's first datagram to its first complete view.
    pub complete_us: Quantiles,
    pub slots: Quantiles,
    /// From an event's arrival at the relay to the game.
    pub event_late_us: Quantiles,
    /// The longest that a member which changed waited for its record, by session.
    pub starved_us: Quantiles,
    pub advance_us: Quantiles,
    /// From a flipped bit to the refusal; until nothing of it is left; for how long records were shown wrongly.
    pub detect_us: Quantiles,
    pub heal_us: Quantiles,
    pub wrong_us: Quantiles,
    /// The same of those that nobody noticed.
    pub superseded_us: Quantiles,
}

impl Figures {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Figures) {
        let sums: [(&mut u64, u64); 50] = [
            (&mut self.runs, other.runs),
            (&mut self.client_us, other.client_us),
            (&mut self.sessions, other.sessions),
            (&mut self.frames, other.frames),
            (&mut self.stream_epochs, other.stream_epochs),
            (&mut self.datagrams_down, other.datagrams_down),
            (&mut self.datagrams_up, other.datagrams_up),
            (&mut self.bytes_down, other.bytes_down),
            (&mut self.bytes_up, other.bytes_up),
            (&mut self.datagrams_lost, other.datagrams_lost),
            (&mut self.records_checked, other.records_checked),
            (&mut self.tables_checked, other.tables_checked),
            (&mut self.departures_checked, other.departures_checked),
            (&mut self.mismatches, other.mismatches),
            (&mut self.missing, other.missing),
            (&mut self.ghosts, other.ghosts),
            (&mut self.tainted_records, other.tainted_records),
            (&mut self.flips, other.flips),
            (&mut self.flips_detected, other.flips_detected),
            (&mut self.flips_harmless, other.flips_harmless),
            (&mut self.flips_healed, other.flips_healed),
            (&mut self.flips_superseded, other.flips_superseded),
            (&mut self.flips_open, other.flips_open),
            (&mut self.advances, other.advances),
            (&mut self.complete_views, other.complete_views),
            (&mut self.events_delivered, other.events_delivered),
            (&mut self.events_dropped, other.events_dropped),
            (&mut self.digests_checked, other.digests_checked),
            (&mut self.digest_mismatches, other.digest_mismatches),
            (&mut self.full_snapshots, other.full_snapshots),
            (&mut self.complete_records, other.complete_records),
            (&mut self.reports_stale, other.reports_stale),
            (&mut self.migrations, other.migrations),
            (&mut self.parts_window_full, other.parts_window_full),
            (&mut self.parts_received, other.parts_received),
            (&mut self.snapshots_sent, other.snapshots_sent),
            (&mut self.looks, other.looks),
            (&mut self.looks_behind, other.looks_behind),
            (&mut self.records_omitted, other.records_omitted),
            (&mut self.messages_dropped, other.messages_dropped),
            (&mut self.entries_checked, other.entries_checked),
            (&mut self.leaks, other.leaks),
            (&mut self.events_missed, other.events_missed),
            (&mut self.starved, other.starved),
            (&mut self.inputs_pushed, other.inputs_pushed),
            (&mut self.inputs_taken, other.inputs_taken),
            (&mut self.inputs_lost, other.inputs_lost),
            (&mut self.owner_states, other.owner_states),
            (&mut self.messages_directed, other.messages_directed),
            (&mut self.directives, other.directives),
        ];
        for (mine, theirs) in sums {
            *mine += theirs;
        }
        self.slots_most = self.slots_most.max(other.slots_most);
        for (mine, theirs) in [
            (&mut self.roles, &other.roles),
            (&mut self.fallbacks, &other.fallbacks),
            (&mut self.withheld, &other.withheld),
            (&mut self.refused_by_clients, &other.refused_by_clients),
            (&mut self.refused_by_relay, &other.refused_by_relay),
        ] {
            theirs
                .iter()
                .for_each(|(label, count)| *mine.entry(label).or_default() += count);
        }
        for (mine, theirs) in [
            (&mut self.gap_us, &other.gap_us),
            (&mut self.complete_us, &other.complete_us),
            (&mut self.slots, &other.slots),
            (&mut self.event_late_us, &other.event_late_us),
            (&mut self.starved_us, &other.starved_us),
            (&mut self.advance_us, &other.advance_us),
            (&mut self.detect_us, &other.detect_us),
            (&mut self.heal_us, &other.heal_us),
            (&mut self.wrong_us, &other.wrong_us),
            (&mut self.superseded_us, &other.superseded_us),
        ] {
            mine.merge(theirs);
        }
    }
}

/// Figures and failures of one run or many.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What was counted.
    pub figures: Figures,
    /// What must not be, the first ones of each run.
    pub failures: Vec<Failure>,
    /// How many there were.
    pub failed: u64,
    /// What happened to an entity that is watched.
    pub notes: Vec<String>,
}

impl Outcome {
    /// True when nothing was found.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.failed == 0
    }

    /// Notes a failure of a run.
    pub fn fail(&mut self, failure: Failure) {
        self.failed += 1;
        if self.failures.len() < FAILURES_KEPT {
            self.failures.push(failure);
        }
    }

    /// Adds another run's outcome.
    pub fn merge(&mut self, other: Outcome) {
        self.figures.merge(&other.figures);
        self.failures.extend(other.failures);
        self.notes.extend(other.notes);
        self.failed += other.failed;
    }

    /// The seeds with failures, in order.
    #[must_use]
    pub fn seeds(&self) -> Vec<u64> {
        let mut seeds: Vec<u64> = self.failures.iter().map(|failure| failure.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        seeds
    }
}

#[allow(clippy::cast_precision_loss)]
fn share(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

#[allow(clippy::cast_precision_loss)]
fn ms(us: u64) -> f64 {
    us as f64 / 1000.0
}

fn list(counts: &BTreeMap<&'static str, u64>) -> String {
    let some: Vec<String> = counts
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(label, n)| format!("{label} {n}"))
        .collect();
    if some.is_empty() {
        "none".to_owned()
    } else {
        some.join(", ")
    }
}

/// The middle, the 99th percentile and the most, in milliseconds.
fn spread(times: &Quantiles) -> String {
    let [p50, p99, most] = [times.at(0.5), times.at(0.99), times.most()].map(ms);
    format!("{p50:.0}/{p99:.0}/{most:.0} ms p50/p99/max")
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.figures.fmt(f)?;
        for note in &self.notes {
            writeln!(f, "{note}")?;
        }
        for failure in &self.failures {
            writeln!(f, "FAILED {failure}")?;
        }
        let more = self.failed.saturating_sub(self.failures.len() as u64);
        if more > 0 {
            writeln!(f, "and {more} more failures")?;
        }
        Ok(())
    }
}

impl fmt::Display for Figures {
    #[allow(clippy::cast_precision_loss)]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.client_us as f64 / 3.6e9;
        let Figures {
            runs,
            sessions,
            stream_epochs,
            ..
        } = self;
        writeln!(
            f,
            "runs {runs}, sessions {sessions}, client-hours {hours:.2}, stream epochs {stream_epochs}"
        )?;
        let Figures {
            datagrams_down,
            datagrams_up,
            datagrams_lost,
            ..
        } = self;
        let megabytes = self.bytes_down / 1_000_000;
        writeln!(
            f,
            "datagrams      {datagrams_down} down ({megabytes} MB), {datagrams_up} up, {datagrams_lost} lost on the way"
        )?;
        let Figures {
            records_checked,
            tables_checked,
            departures_checked,
            ..
        } = self;
        writeln!(
            f,
            "checked        {records_checked} records, {tables_checked} tables, {departures_checked} departures"
        )?;
        let Figures {
            entries_checked,
            leaks,
            starved,
            ..
        } = self;
        let waits = spread(&self.starved_us);
        writeln!(
            f,
            "views          {}; {entries_checked} entries looked at, {leaks} leaks",
            list(&self.roles)
        )?;
        writeln!(
            f,
            "waits          {waits} of the worst in a session; {starved} starved"
        )?;
        let Figures {
            mismatches,
            missing,
            ghosts,
            ..
        } = self;
        writeln!(
            f,
            "found          {mismatches} mismatches; at the end {missing} missing, {ghosts} that do not live"
        )?;
        let Figures {
            looks, looks_behind, ..
        } = self;
        writeln!(f, "whole views    {looks}, {looks_behind} wrong")?;
        let (times, slots) = (spread(&self.advance_us), &self.slots);
        let (p50, p99, most) = (slots.at(0.5), slots.at(0.99), self.slots_most);
        writeln!(
            f,
            "window         {} advances ({times}), slots {p50}/{p99}/{most}",
            self.advances
        )?;
        let full = share(self.parts_window_full, self.parts_received);
        writeln!(f, "               full for {full:.3}% of parts")?;
        writeln!(f, "fallbacks      {}", list(&self.fallbacks))?;
        writeln!(f, "withheld       {}", list(&self.withheld))?;
        writeln!(f, "client refused {}", list(&self.refused_by_clients))?;
        writeln!(f, "relay refused  {}", list(&self.refused_by_relay))?;
        writeln!(f, "gap            {}", spread(&self.gap_us))?;
        writeln!(f, "complete view  {}", spread(&self.complete_us))?;
        writeln!(
            f,
            "events         {} delivered ({}), {} dropped, {} missed",
            self.events_delivered,
            spread(&self.event_late_us),
            self.events_dropped,
            self.events_missed
        )?;
        let Figures {
            inputs_pushed,
            inputs_taken,
            inputs_lost,
            owner_states,
            messages_directed,
            directives,
            ..
        } = self;
        writeln!(
            f,
            "players        {inputs_pushed} inputs, {inputs_taken} taken, {inputs_lost} lost; {owner_states} own states, {messages_directed} messages, {directives} orders"
        )?;
        writeln!(
            f,
            "digests        {} checked, {} mismatches",
            self.digests_checked, self.digest_mismatches
        )?;
        if self.records_omitted > 0 {
            writeln!(
                f,
                "budget         {} entries left out for want of it: what lags for that is not called wrong",
                self.records_omitted
            )?;
        }
        if self.flips > 0 {
            let Figures {
                flips,
                flips_detected,
                flips_healed,
                flips_harmless,
                flips_superseded,
                flips_open,
                tainted_records,
                ..
            } = self;
            let (times, heals) = (spread(&self.detect_us), spread(&self.wrong_us));
            let superseded = spread(&self.superseded_us);
            writeln!(
                f,
                "bit flips      {flips}: {flips_detected} detected ({times}), {flips_healed} of them healed"
            )?;
            writeln!(
                f,
                "               {flips_superseded} made good by newer records before that (shown wrongly for {superseded})"
            )?;
            writeln!(
                f,
                "               {flips_harmless} without effect, {flips_open} unnoticed when the session ended"
            )?;
            writeln!(
                f,
                "               records shown wrongly for {heals}; {tainted_records} looks found a wrong record meanwhile"
            )?;
        }
        Ok(())
    }
}
