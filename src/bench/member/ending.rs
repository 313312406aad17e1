//! How a member's sessions and its run end: what each came to is counted, what is shown at last is judged.

use super::{Member, Phase, UNDER_WAY_US};
use crate::bench::oracle::Oracle;
use crate::bench::surroundings::Surroundings;
use crate::bench::tally::add_links;
use crate::impairment::settings::ImpairmentSettings;

impl Member {
    /// Takes over what the client counted; the session is over, and `last`: so is the run.
    pub(super) fn retire(
        &mut self,
        now_us: u64,
        log_end: Option<u64>,
        last: bool,
        around: &mut Surroundings,
    ) {
        if let Some(since_us) = self.client.statistics().connected_us {
            around.tally.session_us += now_us.saturating_sub(since_us);
        }
        around.tally.retire(&self.client);
        let newest_us = self.client.newest().map_or(0, |newest| newest.server_us);
        let Surroundings { oracle, tally, .. } = around;
        oracle.settle_suspects(&mut self.view, u64::MAX);
        oracle.settle_removals_last(&mut self.view, newest_us);
        oracle.watch_last(&mut self.view, newest_us, &mut tally.series);
        if let Some(viewer) = self.viewer.take() {
            let (counts, strip) = viewer.into_parts();
            tally.viewers.add(&counts);
            tally.strip = tally.strip.take().or(strip);
        }
        tally.players.add(&self.player.finish(&self.client, last));
        tally.events.add(&self.view.trail.finish(log_end));
    }

    /// The links become clean; what is under way keeps its time.
    pub fn clean(&mut self) {
        if let Some((down, up)) = &mut self.links {
            down.set_settings(ImpairmentSettings::default());
            up.set_settings(ImpairmentSettings::default());
        }
        self.end = None;
    }

    /// Compares what is shown with the world, until that is found whole once.
    pub fn check_end(&mut self, oracle: &mut Oracle) {
        if self.end.as_ref().is_some_and(|end| end.faults() == 0) || !self.is_in_session() {
            return;
        }
        self.end = oracle.check_end(&mut self.view, &self.client).or(self.end.take());
    }

    /// The run is over: counts what there is and says goodbye.
    pub fn finish(&mut self, now_us: u64, around: &mut Surroundings) {
        if self.phase == Phase::Running && self.is_in_session() && self.marks.joined {
            around.tally.connected += 1;
            let told = self.view.sight.assigned().unwrap_or_default();
            // An origin may take tags out of it.
            let unlike = around.view.is_some_and(|view| view.scope != told.view.scope);
            around.tally.views_unlike += u64::from(unlike);
            match &self.end {
                Some(end) => {
                    around.tally.missing_at_end += end.missing;
                    around.oracle.settle_end(&self.view, end);
                }
                None if around.oracle.is_blind() => {}
                None => around.tally.unchecked += self.client.display().live() as u64,
            }
        }
        if !matches!(self.phase, Phase::Waiting(_)) {
            // What came last may have been ahead of the truth.
            let newest_us = self.client.newest().map_or(0, |newest| newest.server_us);
            let (trail, mut hearing) = self.hearing(now_us, newest_us, around);
            trail.settle_last(&mut hearing);
            let (now_ago_us, newest_ago_us) = (
                now_us.saturating_sub(UNDER_WAY_US),
                newest_us.saturating_sub(UNDER_WAY_US),
            );
            let reader = around.oracle.reader();
            let log_end = self
                .view
                .stream()
                .map(|stream| reader.events_until(stream, now_ago_us, newest_ago_us));
            self.retire(now_us, log_end, true, around);
            self.client.leave(now_us);
            self.speak(now_us, around);
        }
        if let Some((down, up)) = &self.links {
            add_links(&mut around.tally.down_links, &down.counts());
            add_links(&mut around.tally.up_links, &up.counts());
        }
    }
}
