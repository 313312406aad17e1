//! The map of an arena: a walled square of cells, most with a building in the middle, some with a door beside it.
//!
//! A cell, 20 m wide, centre at 0: the building within 4 m, the door at x = 7, y from -3 to 3; free places at 8 m along
//! both axes. Invariant: nothing solid reaches out of its cell, so one cell is looked at for one point.

use crate::scenes::draws::Draws;

/// Width of a cell.
const CELL_M: f64 = 20.0;
/// Floor for each bot.
const FLOOR_M2: f64 = 80.0;
/// Cells on one side, at least.
const CELLS_MIN: usize = 2;
/// Half the size of a building.
const BUILDING_M: [f64; 2] = [2.0, 4.0];
/// One cell in so many has no building.
const EMPTY_ODDS: usize = 4;
/// Height of walls and buildings.
pub const BUILDING_HEIGHT_M: f64 = 4.0;
/// Where a door stands in its cell.
const DOOR_AT_M: f64 = 7.0;
/// Half its thickness and width.
const DOOR_M: [f64; 2] = [0.3, 3.0];
/// Height of a door.
const DOOR_HEIGHT_M: f64 = 3.0;
/// From the centre of a cell to its free places, along both axes.
const FREE_M: f64 = 8.0;
/// Distance of two looks along a line of sight.
const LOOK_M: f64 = 0.5;

/// Something solid on the ground.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// Its centre.
    pub centre: [f64; 2],
    /// Half its size.
    pub half: [f64; 2],
    /// How high it stands.
    pub height: f64,
}

impl Block {
    /// How deep a point is within the block grown by `reach`, along both axes; `None` outside.
    fn depth(&self, at: [f64; 2], reach: f64) -> Option<[f64; 2]> {
        let depth = [0, 1].map(|axis: usize| self.half[axis] + reach - (at[axis] - self.centre[axis]).abs());
        (depth[0] > 0.0 && depth[1] > 0.0).then_some(depth)
    }

    /// The point set out of the block grown by `reach`, the shorter way.
    fn out(&self, at: [f64; 2], reach: f64) -> [f64; 2] {
        let Some(depth) = self.depth(at, reach) else {
            return at;
        };
        let axis = usize::from(depth[1] < depth[0]);
        let away = self.half[axis] + reach;
        let mut out = at;
        out[axis] = if at[axis] < self.centre[axis] {
            self.centre[axis] - away
        } else {
            self.centre[axis] + away
        };
        out
    }
}

/// One cell.
#[derive(Clone, Copy, Debug)]
struct Cell {
    centre: [f64; 2],
    building: Option<Block>,
    /// Index of its door.
    door: Option<usize>,
}

/// The map.
#[derive(Debug)]
pub struct Plan {
    side: usize,
    cells: Vec<Cell>,
    doors: Vec<Block>,
    /// Whether a door is shut now.
    shut: Vec<bool>,
}

impl Plan {
    /// A map with room for so many bots.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    pub fn new(bots: usize, seed: u64) -> Plan {
        let side = ((bots as f64 * FLOOR_M2).sqrt() / CELL_M).ceil() as usize;
        let side = side.max(CELLS_MIN);
        let mut draws = Draws::new(seed, 0);
        let (mut cells, mut doors) = (Vec::with_capacity(side * side), Vec::new());
        for index in 0..side * side {
            let line = [index % side, index / side];
            let centre = line.map(|line| (line as f64 + 0.5 - side as f64 / 2.0) * CELL_M);
            let half = [draws.between(BUILDING_M), draws.between(BUILDING_M)];
            let building = (!draws.one_in(EMPTY_ODDS)).then_some(Block {
                centre,
                half,
                height: BUILDING_HEIGHT_M,
            });
            let door = ((line[0] + line[1]) % 4 == 1).then_some(doors.len());
            doors.extend(door.map(|_| Block {
                centre: [centre[0] + DOOR_AT_M, centre[1]],
                half: DOOR_M,
                height: DOOR_HEIGHT_M,
            }));
            cells.push(Cell {
                centre,
                building,
                door,
            });
        }
        let shut = vec![false; doors.len()];
        Plan {
            side,
            cells,
            doors,
            shut,
        }
    }

    /// Half the distance between opposite walls.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn wall(&self) -> f64 {
        self.side as f64 * CELL_M / 2.0
    }

    /// Cells on one side.
    #[must_use]
    pub fn side(&self) -> usize {
        self.side
    }

    /// Cells there are.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// The cell of a point; that at the border for a point outside.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn cell(&self, at: [f64; 2]) -> usize {
        let [x, y] = at.map(|part| (((part + self.wall()) / CELL_M).max(0.0) as usize).min(self.side - 1));
        y * self.side + x
    }

    /// The buildings.
    pub fn buildings(&self) -> impl Iterator<Item = &Block> {
        self.cells.iter().filter_map(|cell| cell.building.as_ref())
    }

    /// The doors, as they stand when shut.
    #[must_use]
    pub fn doors(&self) -> &[Block] {
        &self.doors
    }

    /// Shuts or opens a door.
    pub fn set_shut(&mut self, door: usize, shut: bool) {
        self.shut[door] = shut;
    }

    /// A free place of a cell: `corner` 0 to 3, 3 the furthest from the middle of the map, where pads are.
    #[must_use]
    pub fn free(&self, cell: usize, corner: usize) -> [f64; 2] {
        let centre = self.cells[cell].centre;
        [0, 1].map(|axis: usize| {
            let outward = if centre[axis] < 0.0 { -FREE_M } else { FREE_M };
            centre[axis]
                + if corner >> axis & 1 == 1 {
                    outward
                } else {
                    -outward
                }
        })
    }

    /// A place in a cell where pickups lie.
    #[must_use]
    pub fn shelf(&self, cell: usize) -> [f64; 2] {
        let [x, y] = self.cells[cell].centre;
        [x, y - FREE_M]
    }

    /// The places of pads. Across the middle of the map from a pad there is none.
    #[must_use]
    pub fn pads(&self) -> Vec<[f64; 2]> {
        let is_pad = |cell: &usize| {
            let (column, row) = (cell % self.side, cell / self.side);
            let corner = column == 0 && (row == 0 || row + 1 == self.side);
            corner || (column < self.side / 2 && (column * 7 + row * 3).is_multiple_of(8))
        };
        let cells = (0..self.cells.len()).filter(is_pad);
        cells.map(|cell| self.free(cell, 3)).collect()
    }

    /// What stands in the cell of a point now.
    fn solids(&self, at: [f64; 2]) -> impl Iterator<Item = &Block> {
        let cell = &self.cells[self.cell(at)];
        let door = cell.door.filter(|door| self.shut[*door]);
        cell.building.iter().chain(door.map(|door| &self.doors[door]))
    }

    /// The point, set out of walls and solids by `reach`.
    #[must_use]
    pub fn keep_out(&self, at: [f64; 2], reach: f64) -> [f64; 2] {
        let most = self.wall() - reach;
        let inside = at.map(|part| part.clamp(-most, most));
        self.solids(inside).fold(inside, |at, block| block.out(at, reach))
    }

    /// True when a point is in a wall or a solid.
    #[must_use]
    pub fn is_solid(&self, [x, y, z]: [f64; 3]) -> bool {
        let wall = self.wall();
        let outside = x.abs() > wall || y.abs() > wall;
        outside
            || self
                .solids([x, y])
                .any(|block| z < block.height && block.depth([x, y], 0.0).is_some())
    }

    /// True when nothing solid stands between two points at this height.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    pub fn sees(&self, from: [f64; 2], to: [f64; 2], height: f64) -> bool {
        let way = [to[0] - from[0], to[1] - from[1]];
        let looks = ((way[0] * way[0] + way[1] * way[1]).sqrt() / LOOK_M) as usize + 1;
        (0..looks).all(|look| {
            let share = look as f64 / looks as f64;
            !self.is_solid([from[0] + way[0] * share, from[1] + way[1] * share, height])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_places_are_free_and_pads_lead_to_places_without_a_pad() {
        for (bots, seed) in [(16, 1), (64, 2), (65, 3), (1000, 4), (4000, 5)] {
            let mut plan = Plan::new(bots, seed);
            for door in 0..plan.doors().len() {
                plan.set_shut(door, true);
            }
            let is_free = |at: [f64; 2]| plan.keep_out(at, 0.5) == at && !plan.is_solid([at[0], at[1], 0.0]);
            for cell in 0..plan.cells() {
                assert!(
                    (0..4).all(|corner| is_free(plan.free(cell, corner))),
                    "cell {cell}"
                );
                assert!(is_free(plan.shelf(cell)));
            }
            let pads = plan.pads();
            assert!(pads.len() >= 2 && !plan.doors().is_empty(), "{bots} bots");
            for [x, y] in &pads {
                assert!(is_free([-x, -y]) && !pads.contains(&[-x, -y]));
            }
        }
    }

    #[test]
    fn solids_stop_points_and_sight_and_open_doors_do_not() {
        let mut plan = Plan::new(64, 2);
        let [x, y] = plan.doors()[0].centre;
        let (before, behind) = ([x - 1.0, y], [x + 1.0, y]);
        assert!(plan.sees(before, behind, 1.4));
        plan.set_shut(0, true);
        assert!(!plan.sees(before, behind, 1.4) && plan.is_solid([x, y, 1.0]));
        assert_eq!(plan.keep_out([x + 0.1, y], 0.4), [x + 0.7, y]);
        let wall = plan.wall();
        assert_eq!(
            plan.keep_out([wall + 9.0, -wall - 9.0], 0.4),
            [wall - 0.4, 0.4 - wall]
        );
        let block = *plan.buildings().next().unwrap();
        assert!(plan.is_solid([block.centre[0], block.centre[1], 1.0]));
        assert!(!plan.is_solid([block.centre[0], block.centre[1], BUILDING_HEIGHT_M]));
    }
}
