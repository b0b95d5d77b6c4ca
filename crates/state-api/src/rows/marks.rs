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
    marks: Vec<Mark>,
    /// Every dirty cell; also some that are no longer dirty.
    dirty: Vec<u32>,
}

impl Marks {
    pub(crate) fn get(&self, cell: u32) -> Mark {
        self.marks.get(cell as usize).copied().unwrap_or_default()
    }

    pub(crate) fn set(&mut self, cell: u32, mark: Mark) {
        if self.marks.len() <= cell as usize {
            self.marks.resize(cell as usize + 1, Mark::Unknown);
        }
        let before = std::mem::replace(&mut self.marks[cell as usize], mark);
        if mark == Mark::Dirty && before != Mark::Dirty {
            self.dirty.push(cell);
        }
    }

    /// The cells that may be dirty.
    pub(crate) fn dirty(&self) -> &[u32] {
        &self.dirty
    }

    /// No cell is dirty any more.
    pub(crate) fn all_written(&mut self) {
        self.dirty.clear();
    }

    pub(crate) fn forget(&mut self) {
        self.marks.clear();
        self.dirty.clear();
    }
}
