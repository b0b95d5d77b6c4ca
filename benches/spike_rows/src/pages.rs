//! Copy-on-write at page granularity: a column is an overlay of pages over the layers that readers share.

use std::sync::Arc;

/// `P` cells; a page is the unit of copying.
pub(crate) type Page<C, const P: usize> = Box<[C; P]>;

/// Pages that a reader may look at, over the older layers that it may look at too.
pub(crate) struct Layer<C, const P: usize> {
    pages: Vec<Option<Page<C, P>>>,
    below: Option<Arc<Layer<C, P>>>,
}

/// One column of the rows.
pub(crate) struct Column<C, const P: usize> {
    overlay: Vec<Option<Page<C, P>>>,
    base: Option<Arc<Layer<C, P>>>,
    /// Pages that nobody reads any more, freed a few at a time.
    stale: Vec<Page<C, P>>,
    /// The page vector of the last layer that folded back, kept for the next freeze.
    spare: Vec<Option<Page<C, P>>>,
}

/// Stale pages freed a batch are bounded in cells, since a cell may own memory.
const STALE_CELLS_PER_BATCH: usize = 1024;

impl<C: Clone + Default, const P: usize> Column<C, P> {
    pub(crate) fn new() -> Self {
        Self { overlay: Vec::new(), base: None, stale: Vec::new(), spare: Vec::new() }
    }

    /// Makes room for `row`, which is at most one beyond the last.
    pub(crate) fn reserve(&mut self, row: usize) {
        if row / P == self.overlay.len() {
            self.overlay.push(Some(Box::new(std::array::from_fn(|_| C::default()))));
        }
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> &C {
        match &self.overlay[row / P] {
            Some(page) => &page[row % P],
            None => &self.shared(row / P)[row % P],
        }
    }

    /// The cell for writing; copies its page when a reader may see it.
    #[inline]
    pub(crate) fn get_mut(&mut self, row: usize) -> &mut C {
        if self.overlay[row / P].is_none() {
            self.copy(row / P);
        }
        match &mut self.overlay[row / P] {
            Some(page) => &mut page[row % P],
            None => unreachable!("the page was copied above"),
        }
    }

    #[inline]
    fn shared(&self, page: usize) -> &Page<C, P> {
        match self.base.as_deref().and_then(|base| base.page(page)) {
            Some(page) => page,
            None => unreachable!("every page is in the overlay or in a layer"),
        }
    }

    #[cold]
    #[inline(never)]
    fn copy(&mut self, page: usize) {
        self.overlay[page] = Some(self.shared(page).clone());
    }

    /// Moves the pages into a layer and starts an empty overlay, which is a zeroed allocation.
    ///
    /// Normally there is a spare one: a large allocation after many small frees makes glibc's allocator
    /// walk all of them, which took up to 30 ms here.
    pub(crate) fn freeze(&mut self) -> Arc<Layer<C, P>> {
        let length = self.overlay.len();
        let mut empty = std::mem::take(&mut self.spare);
        if empty.capacity() == 0 {
            empty = vec![None; length];
        } else {
            empty.resize_with(length, || None);
        }
        let pages = std::mem::replace(&mut self.overlay, empty);
        let layer = Arc::new(Layer { pages, below: self.base.take() });
        self.base = Some(Arc::clone(&layer));
        layer
    }

    /// Between batches: folds layers that lost their last reader back into the overlay, frees some stale pages.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if self.base.is_some() || !self.stale.is_empty() {
            self.fold();
        }
    }

    #[cold]
    #[inline(never)]
    fn fold(&mut self) {
        let keep = self.stale.len().saturating_sub((STALE_CELLS_PER_BATCH / P).max(1));
        self.stale.truncate(keep);
        while self.base.as_ref().is_some_and(|base| Arc::strong_count(base) == 1) {
            let Some(mut layer) = self.base.take().and_then(Arc::into_inner) else {
                return;
            };
            for (own, old) in self.overlay.iter_mut().zip(&mut layer.pages) {
                match own {
                    Some(_) => self.stale.extend(old.take()),
                    None => *own = old.take(),
                }
            }
            self.spare = layer.pages;
            self.base = layer.below;
        }
    }
}

impl<C, const P: usize> Layer<C, P> {
    #[inline]
    fn page(&self, page: usize) -> Option<&Page<C, P>> {
        let mut layer = self;
        loop {
            match (layer.pages.get(page), &layer.below) {
                (Some(Some(page)), _) => return Some(page),
                (_, Some(below)) => layer = below,
                (_, None) => return None,
            }
        }
    }

    /// The cell of `row`, if a page holds it.
    pub(crate) fn get(&self, row: usize) -> Option<&C> {
        self.page(row / P).map(|page| &page[row % P])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_fold_back_in_any_order_of_readers() {
        let mut column = Column::<u64, 4>::new();
        for row in 0..40 {
            column.reserve(row);
            *column.get_mut(row) = row as u64;
        }
        let older = column.freeze();
        *column.get_mut(5) = 100;
        let newer = column.freeze();
        *column.get_mut(5) = 200;
        *column.get_mut(39) = 300;
        assert_eq!((older.get(5), newer.get(5), *column.get(5)), (Some(&5), Some(&100), 200));
        drop(newer);
        column.settle();
        assert_eq!((older.get(5), *column.get(5), *column.get(39)), (Some(&5), 200, 300));
        drop(older);
        column.settle();
        assert!(column.base.is_none());
        assert_eq!((*column.get(4), *column.get(5), *column.get(39)), (4, 200, 300));
    }
}
