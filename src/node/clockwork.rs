//! The thread that publishes an origin's samples when their time has come.
//!
//! The schedule is absolute: a tick is due at the start plus its own time, so the long-run rate is exact. A little
//! lateness is caught up; beyond that the schedule is moved on, so that a stall is never followed by a burst
//! (FAULTS 41).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::fuse::Fuse;
use super::loggate::LogGate;
use super::origin::{Hub, Stage, Truth};
use super::source::Source;
use crate::limits::ORIGIN_LATE_MAX_US;
use crate::net::clock::monotonic_us;
use crate::origin::subscribers::SubscriberId;
use crate::state::player::Directive;
use crate::state::sample::WorldSample;

/// Publishes a source by the clock.
pub(super) struct Clockwork {
    stage: Arc<Stage>,
    source: Source,
    wait_for_subscriber: bool,
    late_max_us: u64,
    directives: Vec<(u64, Directive)>,
    gate: LogGate,
}

impl Clockwork {
    /// A clockwork that has not begun.
    pub(super) fn new(stage: Arc<Stage>, source: Source, wait_for_subscriber: bool) -> Clockwork {
        let period_us = u64::from(source.schema().tick_period_us);
        let late_max_us = ORIGIN_LATE_MAX_US.max(3 * period_us);
        Clockwork {
            stage,
            source,
            wait_for_subscriber,
            late_max_us,
            directives: Vec::new(),
            gate: LogGate::default(),
        }
    }

    /// Runs until the source ends or the origin stops.
    pub(super) fn run(mut self) {
        let _fuse = Fuse::new("the origin's clock");
        while self.wait_for_subscriber && self.stage.hub().subscribers.served() == 0 {
            if !self.rest(monotonic_us() + 2_000) {
                return;
            }
        }
        let mut sample = WorldSample::default();
        // When server time 0 is.
        let mut start_us = None;
        loop {
            if self.source.has_players() {
                let due_us = start_us.zip(self.source.due_us());
                if due_us.is_some_and(|(start, due_us)| !self.rest(u64::saturating_add(start, due_us))) {
                    return;
                }
                // What they did until now is in the sample.
                self.hear();
            }
            if !self.source.next(&mut sample) {
                break;
            }
            let start = start_us.get_or_insert_with(|| monotonic_us().saturating_sub(sample.server_us));
            let due_us = start.saturating_add(sample.server_us);
            if !self.rest(due_us) {
                return;
            }
            let now_us = monotonic_us();
            let late_us = now_us.saturating_sub(due_us);
            let stalled = late_us > self.late_max_us;
            if stalled {
                *start += late_us;
                self.say(
                    now_us,
                    &format!(
                        "the origin was {} ms late and moved its schedule on",
                        late_us / 1000
                    ),
                );
            }
            self.publish(&sample, now_us, stalled);
        }
        self.stage.finish();
    }

    /// Sleeps until `due_us`; false when the origin stops.
    fn rest(&self, due_us: u64) -> bool {
        loop {
            if self.stage.stopping.load(Ordering::Acquire) {
                return false;
            }
            let left_us = due_us.saturating_sub(monotonic_us());
            if left_us == 0 {
                return true;
            }
            std::thread::park_timeout(Duration::from_micros(left_us));
        }
    }

    /// Lets the source hear what players did.
    fn hear(&mut self) {
        let mut hub = self.stage.hub();
        loop {
            hub.hear();
            if hub.waiting.is_empty() {
                return;
            }
            for (id, event) in hub.waiting.drain(..) {
                self.source.hear(id.number(), event);
            }
        }
    }

    fn publish(&mut self, sample: &WorldSample, now_us: u64, stalled: bool) {
        if !self.source.has_players() {
            self.hear();
        }
        let mut complaint = None;
        {
            let mut hub = self.stage.hub();
            let Hub {
                publisher,
                subscribers,
                counts,
                tap,
                ..
            } = &mut *hub;
            let published = publisher.publish(sample, now_us);
            counts.stalls += u64::from(stalled);
            counts.refused += published.errors.len() as u64;
            if let Some(first) = published.errors.first() {
                complaint = Some(format!(
                    "{first} ({} refused in this tick)",
                    published.errors.len()
                ));
            }
            self.source.direct(publisher.world(), &mut self.directives);
            for (subscriber, directive) in self.directives.drain(..) {
                let taken = subscribers.direct(SubscriberId::of_number(subscriber), directive);
                counts.directives += 1;
                counts.directives_refused += u64::from(!taken);
            }
            subscribers.publish(&published, now_us, publisher);
            if let Some(frame) = published.frame {
                counts.ticks += 1;
                counts.entities_max = counts.entities_max.max(frame.live() as u64);
                let truth = Truth {
                    update: Arc::new(published.update),
                    frame,
                };
                let lost = tap.as_ref().is_some_and(|tap| tap.try_send(truth).is_err());
                counts.truth_lost += u64::from(lost);
            }
        }
        self.stage.notify();
        if let Some(complaint) = complaint {
            self.say(now_us, &complaint);
        }
    }

    fn say(&mut self, now_us: u64, sentence: &str) {
        if let Some(held_back) = self.gate.pass(now_us, sentence) {
            tracing::warn!(held_back, "{sentence}");
        }
    }
}
