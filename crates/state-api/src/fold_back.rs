//! Taking the rows back from snapshots that are over, at once instead of batch by batch.

use crate::TypedRows;

/// Cells of a column that one bounded fold passes: pages of 64 cells, 4,096 of them.
const CELLS_FOLDED: usize = 64 * 4096;

impl TypedRows {
    /// Takes back what snapshots share that are over, so that no later write copies a page: for backends that have used
    /// up a snapshot before their freeze returns.
    ///
    /// Takes time in proportion to the rows. Where many more rows were in use before, some are left to later batches.
    pub fn fold_back(&mut self) {
        for _ in 0..=self.cached_rows() / CELLS_FOLDED {
            self.fold();
        }
    }
}
