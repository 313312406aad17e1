//! Rate tiers: how dense a region is says how often its entities change (SPEC CTL5).
//!
//! The world is cut into square cells over the two widest axes of its schema. Once a second each entity gets the tier of its
//! cell: 0 in a sparse one, 1 (every 2nd tick) from `dense` entities on, 2 (every 4th) from `crowded` on; a tier is left
//! again a fifth below, so that nobody flickers. Between an entity's ticks its record waits, the newest of it, whole, so that
//! what is published was true at one tick; a new segment, the first motion, another tier and the change between rest and
//! motion never wait.

use std::collections::{BTreeMap, HashMap};

use super::grid::{Point, point};
use super::record::{Motion, Record};
use super::schema::Schema;
use super::slots::Slot;
use crate::limits::TIER_MAX;
use crate::sequence::Tick;

/// When a region is dense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierSettings {
    /// Side of a cell, centimetres, at least one.
    pub cell_cm: u32,
    /// Entities in a cell from which on it is of tier 1.
    pub dense: u32,
    /// Entities in a cell from which on it is of tier 2.
    pub crowded: u32,
}

/// Time between two looks at the densities, server microseconds.
const LOOK_US: u64 = 1_000_000;

/// Tiers of a world, and what waits for its tick.
#[derive(Debug)]
pub(super) struct Tiers {
    settings: TierSettings,
    axes: [usize; 2],
    looked_us: Option<u64>,
    waiting: BTreeMap<Slot, Record>,
}

impl Tiers {
    pub(super) fn new(settings: TierSettings, schema: &Schema) -> Tiers {
        let mut axes = [0, 1, 2];
        let extent = |axis: &usize| schema.position[*axis].max - schema.position[*axis].min;
        axes.sort_by(|a, b| extent(b).total_cmp(&extent(a)));
        Tiers {
            settings,
            axes: [axes[0], axes[1]],
            looked_us: None,
            waiting: BTreeMap::new(),
        }
    }

    /// True when densities are to be looked at, at most once a second.
    pub(super) fn is_due(&mut self, server_us: u64) -> bool {
        let due = self
            .looked_us
            .is_none_or(|looked| server_us.saturating_sub(looked) >= LOOK_US);
        if due {
            self.looked_us = Some(server_us);
        }
        due
    }

    fn cell(&self, at: Point) -> (i64, i64) {
        let side = i64::from(self.settings.cell_cm.max(1));
        let [x, y] = self.axes.map(|axis| i64::from(at[axis]).div_euclid(side));
        (x, y)
    }

    /// The tier of each entity that has another than before, by the density of its cell.
    pub(super) fn changed<'a>(
        &self,
        schema: &Schema,
        moving: impl Iterator<Item = (Slot, u8, &'a Motion)>,
    ) -> Vec<(Slot, u8)> {
        let mut density: HashMap<(i64, i64), u32> = HashMap::new();
        let cell = |(slot, tier, motion)| (slot, tier, point(schema, motion).map(|at| self.cell(at)));
        let placed: Vec<_> = moving.map(cell).collect();
        for cell in placed.iter().filter_map(|(_, _, cell)| *cell) {
            *density.entry(cell).or_default() += 1;
        }
        let changed = placed.into_iter().filter_map(|(slot, tier, cell)| {
            let crowd = cell.and_then(|cell| density.get(&cell).copied());
            let wanted = self.tier(crowd.unwrap_or(0), tier);
            (wanted != tier).then_some((slot, wanted))
        });
        changed.collect()
    }

    /// The tier of a cell of so many, for an entity that has `tier` now.
    fn tier(&self, entities: u32, tier: u8) -> u8 {
        let bounds = [self.settings.dense, self.settings.crowded];
        let reached = |(bound, of): (u32, u8)| {
            let bound = if tier >= of { bound / 5 * 4 } else { bound };
            entities >= bound.max(1)
        };
        let tiers = bounds.into_iter().zip(1..=TIER_MAX);
        tiers
            .filter(|bound| reached(*bound))
            .map(|(_, of)| of)
            .max()
            .unwrap_or(0)
    }

    /// True at the ticks at which an entity of this tier changes. Slots are spread over the ticks.
    pub(super) fn is_turn(tick: Tick, slot: Slot, tier: u8) -> bool {
        let mask = (1u32 << tier.min(TIER_MAX)) - 1;
        tick.0.wrapping_add(u32::from(slot)) & mask == 0
    }

    /// True when `now` may wait for its tick, where `published` is what is known of the slot.
    pub(super) fn may_wait(published: &Record, now: &Record) -> bool {
        let rests = |record: &Record| record.motion.map(|motion| motion.at_rest);
        published.entity == now.entity
            && (published.segment, published.tier) == (now.segment, now.tier)
            && rests(published) == rests(now)
    }

    /// A record waits for its entity's tick; a newer one takes its place.
    pub(super) fn wait(&mut self, slot: Slot, record: Record) {
        self.waiting.insert(slot, record);
    }

    /// What waits for a slot.
    pub(super) fn waiting(&self, slot: Slot) -> Option<&Record> {
        self.waiting.get(&slot)
    }

    /// What waited for a slot waits no longer.
    pub(super) fn forget(&mut self, slot: Slot) {
        self.waiting.remove(&slot);
    }

    /// Takes out what waited for this tick.
    pub(super) fn take_due(&mut self, tick: Tick) -> Vec<(Slot, Record)> {
        let due = |(slot, record): (&Slot, &Record)| Tiers::is_turn(tick, *slot, record.tier);
        let due: Vec<Slot> = self
            .waiting
            .iter()
            .filter(|(s, r)| due((s, r)))
            .map(|(slot, _)| *slot)
            .collect();
        due.into_iter()
            .filter_map(|slot| self.waiting.remove(&slot).map(|record| (slot, record)))
            .collect()
    }
}
