//! One direction of a bad link: datagrams go in, and come out late, twice, damaged, overtaken or never.
//!
//! > The caller gives the time and asks for what is due: [`Link::send`] takes a datagram in,
//! > [`Link::next_at`] says when the next one is due, [`Link::poll`] hands out what is due, in order of time.
//! > The link has no clock, no socket and no randomness but its seed.
//!
//! Each `send` draws the same count of random numbers whatever the settings are, so changing one share leaves
//! all other decisions of a seed as they were. Delivery is in order of due time, and of sending where that is
//! equal. Buffers return to a pool: in steady state nothing is allocated.
//!
//! Invariant: `sent + duplicated = delivered + lost + overflowed + queued`.

use super::chance::{Chance, Fate, up_to};
use super::counts::LinkCounts;
use super::settings::ImpairmentSettings;
use crate::limits::{DATAGRAM_MAX, IMPAIRMENT_QUEUE_MAX};
use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// What became of a datagram given to [`Link::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// It is under way, once or twice.
    Queued,
    /// The link lost it.
    Lost,
    /// As many datagrams as the link holds were under way already.
    Overflowed,
}

/// A datagram under way, without its bytes. The order of the fields is the order of delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    due_us: u64,
    number: u64,
    copy: bool,
    buffer: usize,
}

/// One direction of an impaired link.
#[derive(Debug)]
pub struct Link {
    settings: ImpairmentSettings,
    chance: Chance,
    next_number: u64,
    highest_delivered: Option<u64>,
    flights: BinaryHeap<Reverse<Flight>>,
    buffers: Vec<Vec<u8>>,
    free: Vec<usize>,
    counts: LinkCounts,
}

impl Link {
    /// A link with nothing under way. The settings are asserted to be ones that
    /// [`ImpairmentSettings::check`] accepts.
    #[must_use]
    pub fn new(settings: ImpairmentSettings, seed: u64) -> Link {
        assert_eq!(
            settings.check(),
            Ok(()),
            "impairment settings are checked before a link is made"
        );
        Link {
            settings,
            chance: Chance::new(seed),
            next_number: 0,
            highest_delivered: None,
            flights: BinaryHeap::new(),
            buffers: Vec::new(),
            free: Vec::new(),
            counts: LinkCounts::default(),
        }
    }

    /// Takes a datagram in at `now_us`. `now_us` should not fall from call to call.
    pub fn send(&mut self, now_us: u64, datagram: &[u8]) -> SendOutcome {
        self.counts.sent += 1;
        let number = self.next_number;
        self.next_number += 1;
        let draw = self.chance.draw(&self.settings);
        if draw.lost {
            self.counts.lost += 1;
            return SendOutcome::Lost;
        }
        let outcome = self.launch(now_us, datagram, number, false, draw.first);
        if let Some(second) = draw.second {
            self.counts.duplicated += 1;
            self.launch(now_us, datagram, number, true, second);
        }
        outcome
    }

    /// Writes the next datagram that is due at `now_us` into `out`, replacing what was there, and returns its
    /// length; `None` leaves `out` as it was.
    pub fn poll(&mut self, now_us: u64, out: &mut Vec<u8>) -> Option<usize> {
        if self.next_at()? > now_us {
            return None;
        }
        let Reverse(flight) = self.flights.pop()?;
        let bytes = self.buffers.get(flight.buffer)?;
        out.clear();
        out.extend_from_slice(bytes);
        self.free.push(flight.buffer);
        self.counts.delivered += 1;
        if self.highest_delivered > Some(flight.number) && !flight.copy {
            self.counts.reordered += 1;
        }
        self.highest_delivered = self.highest_delivered.max(Some(flight.number));
        Some(out.len())
    }

    /// When the next datagram is due; `None` when nothing is under way.
    #[must_use]
    pub fn next_at(&self) -> Option<u64> {
        self.flights.peek().map(|Reverse(flight)| flight.due_us)
    }

    /// Datagrams under way.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.flights.len()
    }

    /// What the link did so far.
    #[must_use]
    pub fn counts(&self) -> LinkCounts {
        self.counts
    }

    /// What the link does now.
    #[must_use]
    pub fn settings(&self) -> &ImpairmentSettings {
        &self.settings
    }

    /// Changes what the link does to datagrams sent from now on; those under way keep their due times. The
    /// settings are asserted as in [`Link::new`].
    pub fn set_settings(&mut self, settings: ImpairmentSettings) {
        assert_eq!(
            settings.check(),
            Ok(()),
            "impairment settings are checked before a link is made"
        );
        self.settings = settings;
    }

    /// Puts one datagram under way, or drops it when the link is full.
    fn launch(&mut self, now_us: u64, datagram: &[u8], number: u64, copy: bool, fate: Fate) -> SendOutcome {
        if self.flights.len() >= IMPAIRMENT_QUEUE_MAX {
            self.counts.overflowed += 1;
            return SendOutcome::Overflowed;
        }
        let mut delay_us = self.settings.delay_us + up_to(fate.jitter, self.settings.jitter_us);
        if fate.held < self.settings.reorder {
            let least = self.settings.hold_us.div_ceil(2);
            delay_us += least + up_to(fate.hold, self.settings.hold_us - least);
            self.counts.held += 1;
        }
        let buffer = self.free.pop().unwrap_or_else(|| {
            self.buffers
                .push(Vec::with_capacity(datagram.len().max(DATAGRAM_MAX)));
            self.buffers.len() - 1
        });
        let bytes = &mut self.buffers[buffer];
        bytes.clear();
        bytes.extend_from_slice(datagram);
        if fate.corrupted < self.settings.corrupt && !bytes.is_empty() {
            let bit = up_to(fate.bit, bytes.len() as u64 * 8 - 1);
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
            self.counts.corrupted += 1;
        }
        let due_us = now_us.saturating_add(delay_us);
        self.flights.push(Reverse(Flight {
            due_us,
            number,
            copy,
            buffer,
        }));
        SendOutcome::Queued
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: u64 = 100_000;

    /// Sends `count` numbered datagrams of 16 bytes, one each `every_us`, polling as time passes, and returns
    /// the numbers in order of delivery with their delays.
    fn run(link: &mut Link, count: u64, every_us: u64) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        let mut got = Vec::new();
        let mut take = |link: &mut Link, until_us: u64| {
            while let Some(due_us) = link.next_at().filter(|due_us| *due_us <= until_us) {
                assert_eq!(link.poll(due_us, &mut out), Some(16), "what is due comes out");
                let number = u64::from_le_bytes(out[..8].try_into().expect("8 bytes"));
                got.push((number, due_us.wrapping_sub(number.wrapping_mul(every_us))));
            }
        };
        for number in 0..count {
            let now_us = number * every_us;
            take(link, now_us);
            let mut datagram = [0; 16];
            datagram[..8].copy_from_slice(&number.to_le_bytes());
            link.send(now_us, &datagram);
        }
        take(link, u64::MAX);
        let counts = link.counts();
        assert_eq!(
            counts.sent + counts.duplicated,
            counts.delivered + counts.lost + counts.overflowed
        );
        got
    }

    /// Within four standard deviations of a binomial count.
    fn near(count: u64, of: u64, share: f64) {
        let expected = of as f64 * share;
        let deviation = (expected * (1.0 - share)).sqrt();
        assert!(
            (count as f64 - expected).abs() <= 4.0 * deviation,
            "{count} of {of}, expected {expected}"
        );
    }

    #[test]
    fn a_clean_link_passes_everything_in_order_at_once() {
        let mut link = Link::new(ImpairmentSettings::default(), 1);
        let mut out = Vec::new();
        for number in 0..100u8 {
            assert_eq!(link.send(7, &[number]), SendOutcome::Queued);
        }
        assert_eq!(link.next_at(), Some(7));
        assert_eq!(link.poll(6, &mut out), None);
        for number in 0..100u8 {
            assert_eq!(link.poll(7, &mut out), Some(1));
            assert_eq!(out, [number]);
        }
        assert_eq!(link.poll(u64::MAX, &mut out), None);
        assert_eq!(link.next_at(), None);
        assert_eq!(
            link.counts(),
            LinkCounts {
                sent: 100,
                delivered: 100,
                ..LinkCounts::default()
            }
        );
    }

    #[test]
    fn shares_are_met() {
        let settings = ImpairmentSettings {
            loss: 0.05,
            duplicate: 0.01,
            corrupt: 0.02,
            reorder: 0.03,
            delay_us: 30_000,
            ..ImpairmentSettings::default()
        };
        let mut link = Link::new(settings, 2);
        run(&mut link, SENT, 1000);
        let counts = link.counts();
        near(counts.lost, SENT, 0.05);
        near(counts.duplicated, SENT - counts.lost, 0.01);
        near(counts.corrupted, counts.delivered, 0.02);
        near(counts.held, counts.delivered, 0.03);
        assert_eq!(counts.overflowed, 0);
    }

    #[test]
    fn bursts_have_their_length_and_their_share() {
        let (begin, end) = (0.02, 0.25);
        let settings = ImpairmentSettings {
            burst_loss: Some((begin, end)),
            ..ImpairmentSettings::default()
        };
        let mut link = Link::new(settings, 3);
        let got = run(&mut link, SENT, 1000);
        let bursts = got.windows(2).filter(|pair| pair[1].0 != pair[0].0 + 1).count() as u64;
        let lost = link.counts().lost;
        let share = lost as f64 / SENT as f64;
        assert!(
            (share / settings.expected_loss() - 1.0).abs() < 0.1,
            "share {share}"
        );
        let length = lost as f64 / bursts as f64;
        assert!((length * end - 1.0).abs() < 0.1, "mean burst of {length}");
    }

    #[test]
    fn delay_and_jitter_stay_in_their_bounds_and_fill_them() {
        let settings = ImpairmentSettings {
            delay_us: 40_000,
            jitter_us: 10_000,
            ..ImpairmentSettings::default()
        };
        let mut link = Link::new(settings, 4);
        let got = run(&mut link, SENT, 3000);
        let least = got.iter().map(|(_, delay)| *delay).min().expect("some");
        let most = got.iter().map(|(_, delay)| *delay).max().expect("some");
        assert!(
            (40_000..40_010).contains(&least) && (49_990..=50_000).contains(&most),
            "{least}..{most}"
        );
        let mean = got.iter().map(|(_, delay)| *delay).sum::<u64>() as f64 / got.len() as f64;
        assert!((mean - 45_000.0).abs() < 50.0, "mean {mean}");
        // Jitter of 10 ms lets a datagram pass those sent up to 3 periods of 3 ms earlier, no more.
        let mut farthest = 0;
        let mut highest = 0;
        for (number, _) in got {
            highest = highest.max(number);
            farthest = farthest.max(highest - number);
        }
        assert_eq!(farthest, 3);
        assert!(link.counts().reordered > 0);
    }

    #[test]
    fn held_datagrams_are_overtaken_and_the_others_stay_in_order() {
        let settings = ImpairmentSettings {
            reorder: 0.02,
            ..ImpairmentSettings::default()
        };
        let mut link = Link::new(settings, 5);
        let got = run(&mut link, SENT, 16_000);
        let held: Vec<u64> = got
            .iter()
            .filter(|(_, delay)| *delay > 0)
            .map(|(_, delay)| *delay)
            .collect();
        assert_eq!(held.len() as u64, link.counts().held);
        assert!(held.iter().all(|delay| (50_000..=100_000).contains(delay)));
        let prompt: Vec<u64> = got
            .iter()
            .filter(|(_, delay)| *delay == 0)
            .map(|(n, _)| *n)
            .collect();
        assert!(prompt.is_sorted());
        near(link.counts().reordered, SENT, 0.02);
    }

    #[test]
    fn a_duplicate_has_the_same_bytes() {
        let settings = ImpairmentSettings {
            duplicate: 1.0,
            ..ImpairmentSettings::default()
        };
        let mut link = Link::new(settings, 6);
        let got: Vec<u64> = run(&mut link, 100, 10)
            .into_iter()
            .map(|(number, _)| number)
            .collect();
        assert_eq!(
            got,
            (0..100).flat_map(|number| [number, number]).collect::<Vec<_>>()
        );
        assert_eq!(link.counts().reordered, 0);
    }

    #[test]
    fn corruption_flips_exactly_one_bit() {
        let settings = ImpairmentSettings {
            corrupt: 1.0,
            ..ImpairmentSettings::default()
        };
        let mut link = Link::new(settings, 7);
        let mut out = Vec::new();
        let mut hit = [false; 24];
        for _ in 0..1000 {
            link.send(0, &[0; 3]);
            assert_eq!(link.poll(0, &mut out), Some(3));
            assert_eq!(out.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
            for (bit, seen) in hit.iter_mut().enumerate() {
                *seen |= out[bit / 8] >> (bit % 8) & 1 == 1;
            }
        }
        assert_eq!(hit, [true; 24]);
        link.send(0, &[]);
        assert_eq!(link.poll(0, &mut out), Some(0));
        assert_eq!(link.counts().corrupted, 1000);
    }

    #[test]
    fn a_seed_is_a_history_on_every_platform() {
        let settings = ImpairmentSettings {
            loss: 0.3,
            burst_loss: Some((0.1, 0.5)),
            delay_us: 1000,
            jitter_us: 5000,
            reorder: 0.2,
            duplicate: 0.2,
            ..ImpairmentSettings::default()
        };
        let one = run(&mut Link::new(settings, 8), 1000, 1000);
        assert_eq!(one, run(&mut Link::new(settings, 8), 1000, 1000));
        assert_ne!(one, run(&mut Link::new(settings, 9), 1000, 1000));
        // Fixed values: another platform, or another version of the generator, must give the same.
        assert_eq!(one[..4], [(1, 4576), (2, 3912), (6, 5654), (7, 5812)]);
    }

    #[test]
    fn changing_one_share_leaves_the_other_decisions() {
        let loss = ImpairmentSettings {
            loss: 0.2,
            ..ImpairmentSettings::default()
        };
        let both = ImpairmentSettings {
            duplicate: 0.5,
            jitter_us: 10,
            ..loss
        };
        let mut one = Link::new(loss, 10);
        let mut two = Link::new(both, 10);
        for now_us in 0..1000 {
            assert_eq!(one.send(now_us, &[1]), two.send(now_us, &[1]));
        }
    }

    #[test]
    fn a_full_link_drops_the_newest_and_counts() {
        let settings = ImpairmentSettings {
            delay_us: 1,
            ..ImpairmentSettings::default()
        };
        let mut link = Link::new(settings, 11);
        for _ in 0..IMPAIRMENT_QUEUE_MAX {
            assert_eq!(link.send(0, &[1]), SendOutcome::Queued);
        }
        assert_eq!(link.send(0, &[2]), SendOutcome::Overflowed);
        assert_eq!(link.counts().overflowed, 1);
        assert_eq!(link.queued(), IMPAIRMENT_QUEUE_MAX);
        let mut out = Vec::new();
        while link.poll(1, &mut out).is_some() {
            assert_eq!(out, [1]);
        }
        assert_eq!(link.send(2, &[3]), SendOutcome::Queued);
    }

    #[test]
    fn buffers_are_used_again() {
        let settings = ImpairmentSettings {
            delay_us: 50_000,
            jitter_us: 20_000,
            ..Default::default()
        };
        let mut link = Link::new(settings, 12);
        run(&mut link, 1000, 1000);
        let buffers = link.buffers.len();
        assert!(
            buffers <= 71,
            "no more than were under way at once, but {buffers}"
        );
        run(&mut link, 10_000, 1000);
        assert!(link.buffers.len() <= 71);
        assert_eq!(link.free.len(), link.buffers.len());
    }

    #[test]
    fn a_change_of_settings_applies_to_what_is_sent_after_it() {
        let mut link = Link::new(
            ImpairmentSettings {
                delay_us: 1000,
                ..Default::default()
            },
            13,
        );
        link.send(0, &[1]);
        link.set_settings(ImpairmentSettings {
            loss: 1.0,
            ..Default::default()
        });
        assert_eq!(link.send(0, &[2]), SendOutcome::Lost);
        link.set_settings(ImpairmentSettings::default());
        link.send(0, &[3]);
        let mut out = Vec::new();
        assert_eq!(link.poll(0, &mut out).map(|_| out.clone()), Some(vec![3]));
        assert_eq!(link.next_at(), Some(1000));
    }

    #[test]
    #[should_panic(expected = "checked before")]
    fn unchecked_settings_are_a_mistake_of_the_caller() {
        let _ = Link::new(
            ImpairmentSettings {
                loss: 2.0,
                ..Default::default()
            },
            0,
        );
    }
}
