//! The lives that are shown, were just shown or soon will be: one track each (SPEC ENT1, ID2).
//!
//! Playback is behind what arrives, so at one time a slot may have a life that still has to be shown to its end and the next
//! one that has not begun at r. A track is one stay of one life in view; it begins and ends at server times and goes once r
//! has passed its end. Removal looks for the very life it is about (FAULTS 97).
//!
//! Memory: a track for each stay, at most [`LIVES`] a slot; places are used again, with what their lists allocated.

#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::evaluate::Evaluated;
use super::history::History;
use crate::client::display::Absence;
use crate::limits::TIER_MAX;
use crate::state::entity::Entity;
use crate::state::slots::Slot;

/// Stays of one slot that are kept: a life of two ticks each, over a delay of a quarter second at 20 Hz, and some. Past it
/// the oldest is not shown to its end.
pub const LIVES: usize = 6;

/// A place among the tracks.
pub(super) type TrackIndex = u32;
const NONE: TrackIndex = TrackIndex::MAX;

/// The end of a stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// From when on it is gone, server microseconds.
    pub at_us: u64,
    /// Why.
    pub absence: Absence,
}

/// One stay of one life.
#[derive(Clone, Debug)]
pub(super) struct Track {
    pub(super) slot: Slot,
    pub(super) entity: Entity,
    pub(super) class: u8,
    pub(super) tier: u8,
    /// The birth of the life, or the end of its stay before: it is not shown earlier.
    pub(super) not_before_us: u64,
    /// From when on it is shown.
    pub(super) starts_us: u64,
    pub(super) end: Option<End>,
    pub(super) history: History,
    /// What the last evaluated frame showed.
    pub(super) shown: Option<Evaluated>,
    /// A segment of it was heard of after it had begun at r (SPEC ENT4).
    pub(super) switched_late: bool,
    older: TrackIndex,
    live: bool,
}

/// All tracks.
#[derive(Clone, Debug, Default)]
pub(super) struct Tracks {
    tracks: Vec<Track>,
    free: Vec<TrackIndex>,
    /// By slot the newest stay.
    newest: Vec<TrackIndex>,
    /// Tracks of each tier.
    tiers: [usize; TIER_MAX as usize + 1],
}

impl Tracks {
    pub(super) fn get(&self, index: TrackIndex) -> Option<&Track> {
        self.tracks.get(index as usize).filter(|track| track.live)
    }

    pub(super) fn get_mut(&mut self, index: TrackIndex) -> Option<&mut Track> {
        self.tracks.get_mut(index as usize).filter(|track| track.live)
    }

    /// Every track.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Track> {
        self.tracks.iter().filter(|track| track.live)
    }

    /// The places there are: each may have a track.
    pub(super) fn places(&self) -> TrackIndex {
        TrackIndex::try_from(self.tracks.len()).unwrap_or(NONE)
    }

    /// The stays of a slot, the newest first.
    pub(super) fn of_slot(&self, slot: Slot) -> impl Iterator<Item = (TrackIndex, &Track)> {
        let first = self.newest.get(usize::from(slot)).copied().unwrap_or(NONE);
        let with = |index| self.get(index).map(|track| (index, track));
        core::iter::successors(with(first), move |(_, track)| with(track.older))
    }

    /// The newest stay of a life in a slot.
    pub(super) fn find(&self, slot: Slot, entity: Entity) -> Option<TrackIndex> {
        self.of_slot(slot)
            .find(|(_, track)| track.entity == entity)
            .map(|(index, _)| index)
    }

    /// The segment of a life in a slot as it is drawn.
    pub(super) fn shown_segment(&self, slot: Slot, entity: Entity) -> Option<u32> {
        let mut stays = self.of_slot(slot).filter(|(_, track)| track.entity == entity);
        stays.find_map(|(_, track)| track.shown.map(|shown| shown.segment))
    }

    /// Begins a stay; its fields are the caller's to fill.
    pub(super) fn begin(&mut self, slot: Slot, entity: Entity) -> TrackIndex {
        let at = usize::from(slot);
        if self.newest.len() <= at {
            self.newest.resize(at + 1, NONE);
        }
        let older = self.newest.get(at).copied().unwrap_or(NONE);
        let index = match self.free.pop() {
            Some(index) => {
                if let Some(track) = self.tracks.get_mut(index as usize) {
                    (track.slot, track.entity, track.older, track.live) = (slot, entity, older, true);
                    (track.class, track.tier) = (0, 0);
                    (track.not_before_us, track.starts_us) = (0, 0);
                    (track.end, track.shown, track.switched_late) = (None, None, false);
                    track.history.clear();
                }
                index
            }
            None => {
                self.tracks.push(Track {
                    slot,
                    entity,
                    class: 0,
                    tier: 0,
                    not_before_us: 0,
                    starts_us: 0,
                    end: None,
                    history: History::default(),
                    shown: None,
                    switched_late: false,
                    older,
                    live: true,
                });
                // A slot has at most LIVES tracks, and there are at most 2^15 slots.
                self.places() - 1
            }
        };
        if let Some(newest) = self.newest.get_mut(at) {
            *newest = index;
        }
        self.count_tier(0, true);
        index
    }

    /// Ends a track: its place is free.
    pub(super) fn drop_track(&mut self, index: TrackIndex) {
        let Some(track) = self.get_mut(index) else { return };
        track.live = false;
        track.shown = None;
        let (slot, tier, older) = (track.slot, track.tier, track.older);
        self.count_tier(tier, false);
        self.free.push(index);
        let newer = self.of_chain(slot).find(|at| self.older(*at) == index);
        match newer.and_then(|newer| self.tracks.get_mut(newer as usize)) {
            Some(newer) => newer.older = older,
            None => {
                if let Some(newest) = self.newest.get_mut(usize::from(slot)).filter(|at| **at == index) {
                    *newest = older;
                }
            }
        }
    }

    fn older(&self, index: TrackIndex) -> TrackIndex {
        self.tracks.get(index as usize).map_or(NONE, |track| track.older)
    }

    /// The places linked from a slot, whether or not they have a track.
    fn of_chain(&self, slot: Slot) -> impl Iterator<Item = TrackIndex> {
        let first = self.newest.get(usize::from(slot)).copied().unwrap_or(NONE);
        let there = |index: TrackIndex| (index != NONE).then_some(index);
        core::iter::successors(there(first), move |index| there(self.older(*index)))
    }

    fn count_tier(&mut self, tier: u8, more: bool) {
        if let Some(count) = self.tiers.get_mut(usize::from(tier.min(TIER_MAX))) {
            *count = if more { *count + 1 } else { count.saturating_sub(1) };
        }
    }

    /// An entity is of this tier from now on.
    pub(super) fn set_tier(&mut self, index: TrackIndex, tier: u8) {
        let Some(track) = self.get_mut(index) else { return };
        let before = core::mem::replace(&mut track.tier, tier);
        self.count_tier(before, false);
        self.count_tier(tier, true);
    }

    /// The slowest tier that somebody has.
    pub(super) fn slowest_tier(&self) -> u8 {
        let tiers = (0..).zip(&self.tiers);
        tiers
            .filter(|(_, count)| **count > 0)
            .map(|(tier, _)| tier)
            .last()
            .unwrap_or(0)
    }

    /// All tracks go; places stay allocated.
    pub(super) fn clear(&mut self) {
        self.free.clear();
        self.newest.clear();
        self.tiers = Default::default();
        for (index, track) in (0..).zip(&mut self.tracks) {
            track.live = false;
            self.free.push(index);
        }
    }
}
