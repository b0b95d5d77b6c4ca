//! Copy-on-write at page granularity: live pages over the layers that open snapshots share.
//!
//! A freeze moves the live page vector into a layer and starts an empty one, so its cost does not grow with the number
//! of cells. The first write to a page after a freeze copies that page. When the snapshots that need a layer are gone,
//! its pages are moved back, a bounded number a call.

use std::sync::Arc;

/// Cells a page: the unit of copying.
const PAGE_CELLS: usize = 64;

/// Page slots of a layer that one [`Paged::fold`] looks at.
const SLOTS_FOLDED: usize = 4096;

/// Superseded pages that one [`Paged::fold`] frees: a cell may own memory, so freeing is the expensive part.
const PAGES_FREED: usize = 16;

/// Pages that one [`Paged::fold`] copies out of the oldest of several layers.
const PAGES_LIFTED: usize = 16;

type Page<T> = Box<[T; PAGE_CELLS]>;

/// The pages that were live at a freeze. A page is missing when it had not been written since the freeze before, and
/// is then found in an older layer.
struct Layer<T> {
    pages: Vec<Option<Page<T>>>,
}

impl<T> Layer<T> {
    fn page(&self, page: usize) -> Option<&Page<T>> {
        self.pages.get(page).and_then(Option::as_ref)
    }
}

/// A growing array of cells that can be frozen. Cells that were never written do not exist.
pub(crate) struct Paged<T> {
    live: Vec<Option<Page<T>>>,
    /// From the oldest to the newest. A snapshot holds a layer and all older ones that there were.
    layers: Vec<Arc<Layer<T>>>,
    /// Slots of the newest layer that have been moved into `live`.
    folded: usize,
    /// Slots of the oldest layer that are superseded in a newer layer or in `live`.
    lifted: usize,
    trash: Vec<Page<T>>,
    /// The page vector of a layer that was moved back, for the next freeze: allocating one may take an allocator
    /// milliseconds after much has been freed.
    spare: Vec<Option<Page<T>>>,
    #[cfg(test)]
    pages_copied: usize,
}

/// The cells as they were at a freeze; can be read on another thread.
pub(crate) struct FrozenPaged<T> {
    layers: Vec<Arc<Layer<T>>>,
}

#[inline]
fn split(cell: u32) -> (usize, usize) {
    (cell as usize / PAGE_CELLS, cell as usize % PAGE_CELLS)
}

/// A page made of these cells, without passing through the stack.
fn page_of<T>(cells: Vec<T>) -> Page<T> {
    cells.try_into().unwrap_or_else(|_| unreachable!("a page is always made of {PAGE_CELLS} cells"))
}

fn look_through<T>(layers: &[Arc<Layer<T>>], page: usize) -> Option<&Page<T>> {
    layers.iter().rev().find_map(|layer| layer.page(page))
}

impl<T: Clone> Paged<T> {
    pub(crate) fn new() -> Self {
        Self {
            live: Vec::new(),
            layers: Vec::new(),
            folded: 0,
            lifted: 0,
            trash: Vec::new(),
            spare: Vec::new(),
            #[cfg(test)]
            pages_copied: 0,
        }
    }

    /// The cell, unless no cell of its page was ever written.
    #[inline]
    pub(crate) fn read(&self, cell: u32) -> Option<&T> {
        let (page, offset) = split(cell);
        match self.live.get(page) {
            Some(Some(page)) => Some(&page[offset]),
            _ => self.read_frozen(page).map(|page| &page[offset]),
        }
    }

    #[inline(never)]
    fn read_frozen(&self, page: usize) -> Option<&Page<T>> {
        look_through(&self.layers, page)
    }

    /// The cell for writing. When no cell of its page was ever written, all of them are made as `vacant` says.
    #[inline]
    pub(crate) fn write_or(&mut self, cell: u32, vacant: impl FnOnce() -> T) -> &mut T {
        let (page, offset) = split(cell);
        if !matches!(self.live.get(page), Some(Some(_))) {
            self.own(page, vacant);
        }
        match &mut self.live[page] {
            Some(page) => &mut page[offset],
            None => unreachable!("the page was just made"),
        }
    }

    #[cold]
    #[inline(never)]
    fn own(&mut self, page: usize, vacant: impl FnOnce() -> T) {
        let cells = match look_through(&self.layers, page) {
            Some(frozen) => {
                #[cfg(test)]
                {
                    self.pages_copied += 1;
                }
                frozen.to_vec()
            }
            None => vec![vacant(); PAGE_CELLS],
        };
        if self.live.len() <= page {
            self.live.resize_with(page + 1, || None);
        }
        self.live[page] = Some(page_of(cells));
    }

    /// Freezes the cells as they are. Several frozen states may exist at once.
    pub(crate) fn freeze(&mut self) -> FrozenPaged<T> {
        let mut empty = std::mem::take(&mut self.spare);
        if empty.capacity() < self.live.len() {
            // A vector of `None` boxes is a zeroed allocation: the kernel hands out its memory when it is touched.
            empty = vec![None; self.live.len()];
        } else {
            empty.resize_with(self.live.len(), || None);
        }
        let pages = std::mem::replace(&mut self.live, empty);
        self.layers.push(Arc::new(Layer { pages }));
        self.folded = 0;
        FrozenPaged { layers: self.layers.clone() }
    }

    /// Does a bounded part of the work that finished and overlapping snapshots have left behind. Whether finished ones have
    /// left more.
    #[inline]
    pub(crate) fn fold(&mut self) -> bool {
        (!self.layers.is_empty() || !self.trash.is_empty()) && self.fold_some()
    }

    fn fold_some(&mut self) -> bool {
        let kept = self.trash.len().saturating_sub(PAGES_FREED);
        self.trash.truncate(kept);
        let layer_count = self.layers.len();
        match self.layers.last_mut().map(Arc::get_mut) {
            Some(Some(layer)) => {
                let end = layer.pages.len().min(self.folded + SLOTS_FOLDED);
                let slots = self.folded..end;
                for (live, frozen) in self.live[slots.clone()].iter_mut().zip(&mut layer.pages[slots]) {
                    match live {
                        Some(_) => self.trash.extend(frozen.take()),
                        None => *live = frozen.take(),
                    }
                }
                self.folded = end;
                if end == layer.pages.len() {
                    self.spare =
                        self.layers.pop().and_then(Arc::into_inner).map(|layer| layer.pages).unwrap_or_default();
                    self.folded = 0;
                    if self.layers.is_empty() {
                        self.lifted = 0;
                    }
                }
            }
            Some(None) if layer_count > 1 => self.lift_some(),
            _ => {}
        }
        !self.trash.is_empty() || self.layers.last_mut().is_some_and(|layer| Arc::get_mut(layer).is_some())
    }

    /// Where every snapshot overlaps the next, the newest layer is never unshared. So that the stack does not grow for
    /// ever, pages that only the oldest layer has are copied, until new snapshots no longer need that layer.
    fn lift_some(&mut self) {
        let (oldest, newer) = self.layers.split_first().expect("there are at least two layers");
        let mut budget = PAGES_LIFTED;
        let end = oldest.pages.len().min(self.lifted + SLOTS_FOLDED);
        while self.lifted < end && budget > 0 {
            let slot = self.lifted;
            if let Some(page) = oldest.page(slot)
                && self.live[slot].is_none()
                && look_through(newer, slot).is_none()
            {
                self.live[slot] = Some(page_of(page.to_vec()));
                budget -= 1;
            }
            self.lifted += 1;
        }
        if self.lifted == oldest.pages.len() {
            let oldest = self.layers.remove(0);
            self.trash.extend(Arc::into_inner(oldest).into_iter().flat_map(|layer| layer.pages).flatten());
            self.lifted = 0;
        }
    }
}

impl<T: Clone + Default> Paged<T> {
    /// The cell for writing; made with its default value when it did not exist.
    #[inline]
    pub(crate) fn write(&mut self, cell: u32) -> &mut T {
        self.write_or(cell, T::default)
    }
}

impl<T> FrozenPaged<T> {
    /// The cell as it was, unless no cell of its page had ever been written.
    pub(crate) fn read(&self, cell: u32) -> Option<&T> {
        let (page, offset) = split(cell);
        look_through(&self.layers, page).map(|page| &page[offset])
    }
}

#[cfg(test)]
#[path = "paged_test.rs"]
mod paged_test;
