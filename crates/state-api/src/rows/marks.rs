//! What a write-back cache knows of its cells: nothing, the same as the byte tables, or more.

/// What is known of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Mark {
    /// Nothing: the byte tables have to be asked.
    #[default]
    Unknown,
    /// The cell says what the byte tables say.
    Clean,
    /// The cell is newer than the byte tables.
    Dirty,
}

/// The marks of the cells of a column; all unknown, and without memory, where the rows are no cache.
#[derive(Default)]
pub(crate) struct Marks {
    cells: Vec<Marked>,
    /// Every dirty cell, once; also some that are no longer dirty.
    dirty: Vec<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Marked {
    mark: Mark,
    /// It is among those that may be dirty.
    is_listed: bool,
}

impl Marks {
    pub(crate) fn get(&self, cell: u32) -> Mark {
        self.cells.get(cell as usize).map_or(Mark::Unknown, |cell| cell.mark)
    }

    pub(crate) fn set(&mut self, cell: u32, mark: Mark) {
        if self.cells.len() <= cell as usize {
            self.cells.resize(cell as usize + 1, Marked::default());
        }
        let marked = &mut self.cells[cell as usize];
        marked.mark = mark;
        if mark == Mark::Dirty && !std::mem::replace(&mut marked.is_listed, true) {
            self.dirty.push(cell);
        }
    }

    /// The cells that may be dirty.
    pub(crate) fn dirty(&self) -> &[u32] {
        &self.dirty
    }

    /// No cell is dirty any more.
    pub(crate) fn all_written(&mut self) {
        for cell in self.dirty.drain(..) {
            self.cells[cell as usize].is_listed = false;
        }
    }

    pub(crate) fn forget(&mut self) {
        self.cells.clear();
        self.dirty.clear();
    }
}
