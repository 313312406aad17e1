//! Where the entities of one frame are: found by place, in whole centimetres.
//!
//! Built once a frame by whoever needs it first and shared by all sessions of all shards. Cells are squares over the two
//! widest axes of what is there; within a cell positions lie side by side, so that a search walks memory forwards.
//! Centimetres are enough to decide who is in view; a range is wrong by less than one.

use super::record::Motion;
use super::schema::Schema;
use super::slots::Slot;
use super::view::Tags;

/// A place, centimetres by axis.
pub type Point = [i32; 3];

/// Entities a cell should hold, on average.
const CELL_ENTITIES: usize = 6;
/// Cells along one side, at most.
const SIDE_MAX: usize = 256;

/// One entity's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Whose.
    pub slot: Slot,
    /// Its tag bits.
    pub tags: Tags,
    /// Where.
    pub at: Point,
}

/// Places of the entities of a frame, by cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    axes: [usize; 2],
    origin: [i32; 2],
    side_cm: i64,
    cells: [usize; 2],
    /// Where each cell's places begin; one more than cells.
    starts: Vec<u32>,
    placed: Vec<Placed>,
}

/// Where a motion is, centimetres; `None` beyond their reach.
#[must_use]
pub fn point(schema: &Schema, motion: &Motion) -> Option<Point> {
    point_of(schema, motion.position)
}

/// Where a quantised position is, centimetres. `None` farther than 21,474 km from the axes' zero: that is in no range,
/// for places all taken for the farthest one would be near each other.
#[must_use]
#[allow(clippy::cast_possible_truncation)]
pub fn point_of(schema: &Schema, position: [u32; 3]) -> Option<Point> {
    let mut point = [0; 3];
    for ((to, axis), q) in point.iter_mut().zip(&schema.position).zip(position) {
        let cm = (axis.metres(q) * 100.0).round();
        if cm.abs() > f64::from(i32::MAX) {
            return None;
        }
        *to = cm as i32;
    }
    Some(point)
}

/// Square of the distance between two places, square centimetres.
#[must_use]
pub fn distance_squared(a: Point, b: Point) -> u64 {
    let square = |(a, b): (i32, i32)| {
        let d = u64::from(a.abs_diff(b));
        d.saturating_mul(d)
    };
    a.into_iter().zip(b).map(square).fold(0, u64::saturating_add)
}

impl Grid {
    /// A grid of these places.
    #[must_use]
    pub fn new(places: &[Placed]) -> Grid {
        let mut low = [i32::MAX; 3];
        let mut high = [i32::MIN; 3];
        for placed in places {
            for axis in 0..3 {
                low[axis] = low[axis].min(placed.at[axis]);
                high[axis] = high[axis].max(placed.at[axis]);
            }
        }
        let extent = |axis: usize| i64::from(high[axis]) - i64::from(low[axis]);
        let mut axes = [0, 1, 2];
        axes.sort_by_key(|axis| core::cmp::Reverse(extent(*axis)));
        let axes = [axes[0], axes[1]];
        let wide = axes.map(|axis| extent(axis).max(0) + 1);
        let wanted = (places.len() / CELL_ENTITIES).max(1) as f64;
        let area = wide[0] as f64 * wide[1] as f64;
        #[allow(clippy::cast_possible_truncation)]
        let side_cm = ((area / wanted).sqrt().ceil() as i64).max(wide[0] / SIDE_MAX as i64 + 1);
        let cells = wide.map(|wide| usize::try_from((wide - 1) / side_cm + 1).unwrap_or(1));
        let mut grid = Grid {
            axes,
            origin: axes.map(|axis| if places.is_empty() { 0 } else { low[axis] }),
            side_cm,
            cells,
            starts: vec![0; cells[0] * cells[1] + 1],
            placed: Vec::new(),
        };
        grid.fill(places);
        grid
    }

    /// A counting sort by cell, stable in slots.
    fn fill(&mut self, places: &[Placed]) {
        let cell = |grid: &Grid, placed: &Placed| {
            let [x, y] = [0, 1].map(|i| grid.line(i, placed.at[grid.axes[i]]));
            x * grid.cells[1] + y
        };
        for placed in places {
            let cell = cell(self, placed);
            self.starts[cell + 1] += 1;
        }
        for index in 1..self.starts.len() {
            self.starts[index] += self.starts[index - 1];
        }
        let mut next = self.starts.clone();
        self.placed = vec![
            Placed {
                slot: 0,
                tags: 0,
                at: [0; 3],
            };
            places.len()
        ];
        for placed in places {
            let at = &mut next[cell(self, placed)];
            self.placed[*at as usize] = *placed;
            *at += 1;
        }
    }

    /// The row or column of a coordinate along axis `i`; the nearest one for what lies outside.
    fn line(&self, i: usize, cm: i32) -> usize {
        let offset = (i64::from(cm) - i64::from(self.origin[i])).max(0);
        usize::try_from(offset / self.side_cm)
            .unwrap_or(usize::MAX)
            .min(self.cells[i] - 1)
    }

    /// Everybody within `reach_cm` of `centre`, with the square of the distance, in no order.
    pub fn near(&self, centre: Point, reach_cm: u32) -> impl Iterator<Item = (&Placed, u64)> + '_ {
        let reach = i32::try_from(reach_cm).unwrap_or(i32::MAX);
        let lines = |i: usize| {
            let at = centre[self.axes[i]];
            self.line(i, at.saturating_sub(reach))..self.line(i, at.saturating_add(reach)) + 1
        };
        let columns = lines(1);
        let bound = u64::from(reach_cm) * u64::from(reach_cm);
        lines(0)
            .flat_map(move |row| {
                let begin = row * self.cells[1];
                let from = self.starts[begin + columns.start] as usize;
                let to = self.starts[begin + columns.end] as usize;
                &self.placed[from..to]
            })
            .filter_map(move |placed| {
                let distance = distance_squared(placed.at, centre);
                (distance <= bound).then_some((placed, distance))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn places(points: &[(i32, i32, i32)]) -> Vec<Placed> {
        let placed = |(slot, (x, y, z)): (usize, &(i32, i32, i32))| Placed {
            slot: u16::try_from(slot).unwrap(),
            tags: 0,
            at: [*x, *y, *z],
        };
        points.iter().enumerate().map(placed).collect()
    }

    proptest! {
        /// The grid finds just whom a walk over all finds.
        #[test]
        fn near_is_what_a_walk_over_all_finds(
            points in proptest::collection::vec((-9_000i32..9_000, -300i32..300, -20_000i32..20_000), 0..200),
            centre in (-12_000i32..12_000, -400i32..400, -25_000i32..25_000),
            reach in 1u32..30_000,
        ) {
            let all = places(&points);
            let grid = Grid::new(&all);
            let centre = [centre.0, centre.1, centre.2];
            let bound = u64::from(reach) * u64::from(reach);
            let mut expected: Vec<Slot> = all
                .iter()
                .filter(|placed| distance_squared(placed.at, centre) <= bound)
                .map(|placed| placed.slot)
                .collect();
            expected.sort_unstable();
            let mut found: Vec<Slot> = grid.near(centre, reach).map(|(placed, _)| placed.slot).collect();
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }

    /// SPEC CTL1: who is farther away than centimetres count is near nobody.
    #[test]
    fn ctl1_a_place_beyond_centimetres_is_none() {
        let mut schema = crate::state::schema::tests::full_schema();
        schema.position[0] = crate::state::schema::Axis::new(0.0, 4e9, 1.0).unwrap();
        let at = |x| point_of(&schema, [x, 0, 0]).map(|point| point[0]);
        assert_eq!(at(21_474_836), Some(2_147_483_600));
        assert_eq!((at(21_474_837), at(3_000_000_000)), (None, None));
    }

    #[test]
    fn one_place_no_place_and_the_ends_of_the_world_are_grids_too() {
        assert_eq!(Grid::new(&[]).near([0; 3], 1_000).count(), 0);
        let same = places(&[(5, 5, 5); 300]);
        assert_eq!(Grid::new(&same).near([5, 5, 6], 1).count(), 300);
        let far = places(&[(i32::MIN, 0, i32::MAX), (i32::MAX, 0, i32::MIN)]);
        let grid = Grid::new(&far);
        assert_eq!(grid.near([i32::MAX, 0, i32::MIN], 10).count(), 1);
        assert_eq!(grid.near([0; 3], i32::MAX as u32).count(), 0);
        assert_eq!(grid.near([0; 3], u32::MAX).count(), 2);
    }
}
