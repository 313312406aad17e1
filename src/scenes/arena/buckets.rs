//! Who is in which cell, so that neighbours are found without asking everybody.

use super::plan::Plan;

/// Seats by cell, as of the last build.
#[derive(Debug, Default)]
pub struct Buckets {
    /// Where a cell's seats begin; one more than there are cells.
    starts: Vec<usize>,
    seats: Vec<usize>,
    side: usize,
}

impl Buckets {
    /// Sorts everybody into cells, each in order of seats.
    pub fn build(&mut self, plan: &Plan, everybody: impl Iterator<Item = (usize, [f64; 2])> + Clone) {
        self.side = plan.side();
        self.starts.clear();
        self.starts.resize(plan.cells() + 1, 0);
        for (_, place) in everybody.clone() {
            self.starts[plan.cell(place) + 1] += 1;
        }
        for cell in 0..plan.cells() {
            self.starts[cell + 1] += self.starts[cell];
        }
        self.seats.clear();
        self.seats.resize(self.starts[plan.cells()], 0);
        for (seat, place) in everybody {
            let start = &mut self.starts[plan.cell(place)];
            self.seats[*start] = seat;
            *start += 1;
        }
        // Every start has become the end of its cell: the start of the next.
        self.starts.rotate_right(1);
        self.starts[0] = 0;
    }

    /// Seats in a cell and those around it.
    pub fn around(&self, cell: usize) -> impl Iterator<Item = usize> + '_ {
        let (column, row) = (cell % self.side, cell / self.side);
        let rows = row.saturating_sub(1)..=(row + 1).min(self.side - 1);
        let (first, last) = (column.saturating_sub(1), (column + 1).min(self.side - 1));
        rows.flat_map(move |row| {
            let range = self.starts[row * self.side + first]..self.starts[row * self.side + last + 1];
            self.seats[range].iter().copied()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenes::draws::Draws;

    #[test]
    fn around_a_cell_is_everybody_within_one_cell() {
        let plan = Plan::new(600, 1);
        let mut draws = Draws::new(3, 3);
        let wall = plan.wall();
        let places: Vec<[f64; 2]> = (0..900)
            .map(|_| [draws.between([-wall, wall]), draws.between([-wall, wall])])
            .collect();
        let mut buckets = Buckets::default();
        for _ in 0..2 {
            buckets.build(&plan, places.iter().copied().enumerate());
        }
        let side = plan.side();
        for cell in 0..plan.cells() {
            let mut found: Vec<usize> = buckets.around(cell).collect();
            found.sort_unstable();
            let near = |at: [f64; 2]| {
                let other = plan.cell(at);
                (other % side).abs_diff(cell % side) <= 1 && (other / side).abs_diff(cell / side) <= 1
            };
            let wanted: Vec<usize> = (0..900).filter(|seat| near(places[*seat])).collect();
            assert_eq!(found, wanted, "cell {cell}");
        }
    }
}
