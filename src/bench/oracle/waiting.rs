//! Parts whose truth has not come: kept, bounded, and judged when it comes.

use super::{Checked, OLDER_AFTER_US, Oracle, Part, View, WAITING_ENTRIES_MAX, Waiting, records_in};
use crate::bench::series::SeriesSet;

impl Oracle {
    /// Takes over new truth and settles what waited for it. Call before a burst of datagrams.
    pub fn refresh(&mut self, now_us: u64, series: &mut SeriesSet) {
        self.unsettled |= self.reader.refresh();
        if !core::mem::take(&mut self.unsettled) {
            return;
        }
        for _ in 0..self.waiting.len() {
            let Some(waiting) = self.waiting.pop_front() else {
                break;
            };
            let Waiting {
                client,
                server_us,
                newest_us,
                came_us,
                fresh,
                ..
            } = waiting;
            let part = Part {
                client,
                server_us,
                newest_us,
                now_us: came_us,
                fresh,
                entries: &waiting.entries,
            };
            let old = now_us.saturating_sub(came_us) > OLDER_AFTER_US;
            let stream = waiting
                .stream
                .or_else(|| self.find_stream(&part, waiting.least_stream, old));
            let checked = stream.map_or(Checked::NotYet, |stream| self.compare(&part, stream, series));
            match checked {
                Checked::NotYet => self.waiting.push_back(waiting),
                Checked::With(_) | Checked::Never => {
                    self.waiting_entries -= waiting.entries.len();
                    self.spare.push(waiting.entries);
                }
            }
        }
    }

    pub(super) fn wait(&mut self, view: &View, part: &Part<'_>) {
        if part.entries.is_empty() && !part.fresh {
            return;
        }
        if self.waiting_entries + part.entries.len() > WAITING_ENTRIES_MAX {
            self.counts.unchecked += records_in(part.entries);
            return;
        }
        self.reader.want(
            view.truth_stream.unwrap_or(view.least_stream.max(1)),
            part.newest_us,
        );
        self.waiting_entries += part.entries.len();
        let mut entries = self.spare.pop().unwrap_or_default();
        entries.clear();
        entries.extend_from_slice(part.entries);
        self.waiting.push_back(Waiting {
            client: part.client,
            stream: view.truth_stream,
            least_stream: view.least_stream,
            server_us: part.server_us,
            newest_us: part.newest_us,
            came_us: part.now_us,
            fresh: part.fresh,
            entries,
        });
    }

    /// Checks that still wait will never be made.
    pub fn finish(&mut self) {
        for waiting in self.waiting.drain(..) {
            self.counts.unchecked += records_in(&waiting.entries);
        }
        self.waiting_entries = 0;
    }
}
