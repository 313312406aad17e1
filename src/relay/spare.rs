//! Records of what snapshots held, which nobody needs any more: memory for the next ones.
//!
//! A snapshot's contents are shared by its candidate, the tables made of it and whoever else was sent the same body; the last
//! to let go gives them here, so that a shard in steady state asks for no memory for a snapshot or its report.
//!
//! Invariant: nobody else holds what is kept. At most 4,096 are kept of either kind.

use std::sync::Arc;

use super::contents::Contents;
use super::table::Table;

/// Most records kept of either kind: what all sessions of a shard let go in a tick or two.
const KEPT_MAX: usize = 4096;

/// Memory of contents that were let go by windows.
#[derive(Debug, Default)]
pub struct Spare {
    /// Of candidates.
    pub candidates: Pool,
    /// Of tables.
    pub tables: Pool,
}

/// Contents that nobody holds.
#[derive(Debug, Default)]
pub struct Pool {
    kept: Vec<Arc<Contents>>,
}

impl Spare {
    /// Contents to be written anew: what they hold has no meaning.
    #[must_use]
    pub fn take(&mut self) -> Arc<Contents> {
        let kept = self.candidates.kept.pop().or_else(|| self.tables.kept.pop());
        kept.unwrap_or_default()
    }
}

impl Pool {
    fn keep(&mut self, mut contents: Arc<Contents>) {
        if self.kept.len() < KEPT_MAX && Arc::get_mut(&mut contents).is_some() {
            self.kept.push(contents);
        }
    }
}

impl Extend<Arc<Contents>> for Pool {
    fn extend<I: IntoIterator<Item = Arc<Contents>>>(&mut self, freed: I) {
        freed.into_iter().for_each(|contents| self.keep(contents));
    }
}

impl Extend<Table> for Pool {
    fn extend<I: IntoIterator<Item = Table>>(&mut self, freed: I) {
        for table in freed {
            if let Table::View { contents, .. } = table {
                self.keep(contents);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequence::Tick;

    /// What somebody still holds is not given away.
    #[test]
    fn what_a_table_holds_is_not_written_over() {
        let mut spare = Spare::default();
        let contents = Arc::new(Contents::default());
        let table = Table::View {
            tick: Tick(1),
            contents: Arc::clone(&contents),
        };
        spare.candidates.extend([contents]);
        assert!(spare.candidates.kept.is_empty());
        spare.tables.extend([table, Table::Whole(Tick(2))]);
        assert_eq!(spare.tables.kept.len(), 1);
        assert!(Arc::get_mut(&mut spare.take()).is_some() && spare.tables.kept.is_empty());
    }
}
