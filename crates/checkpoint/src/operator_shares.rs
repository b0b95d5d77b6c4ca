//! Redistribution of the operator state of one operator: split lists are dealt, union lists shared, broadcast states copied.
//!
//! From the counts alone: which elements of which parts each subtask gets. Nobody reads them here.

use std::collections::BTreeMap;
use std::ops::Range;

use highwater_state_api::{
    Checksum, OperatorStateHandle, OperatorStateMeta, OperatorStatePart, Redistribution, StateHandle,
};

/// What one subtask gets of one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorStateShare {
    /// The state.
    pub meta: OperatorStateMeta,
    /// The elements, in order; none when there are more subtasks than elements.
    pub pieces: Vec<OperatorStatePiece>,
}

/// Consecutive elements of one part of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorStatePiece {
    /// The bytes that the part is a part of.
    pub state: StateHandle,
    /// First byte of the part.
    pub offset: u64,
    /// Length of the part in bytes.
    pub length: u64,
    /// Checksum of the part.
    pub checksum: Checksum,
    /// Number of elements of the part.
    pub part_elements: u64,
    /// Which of them.
    pub elements: Range<u64>,
    /// Whether the subtask writes them again as long as it does not register the state.
    pub is_carried: bool,
}

/// The state of every old subtask, by kind and name: lists before broadcast states.
pub(crate) struct OldStates<'a> {
    parallelism: usize,
    states: BTreeMap<(bool, &'a str), Vec<OldPart<'a>>>,
}

/// One old subtask's part of a state.
#[derive(Clone, Copy)]
struct OldPart<'a> {
    subtask: usize,
    part: &'a OperatorStatePart,
    state: &'a StateHandle,
}

impl OldPart<'_> {
    fn piece(&self, elements: Range<u64>, is_carried: bool) -> OperatorStatePiece {
        let OperatorStatePart { elements: part_elements, offset, length, checksum, .. } = *self.part;
        OperatorStatePiece { state: self.state.clone(), offset, length, checksum, part_elements, elements, is_carried }
    }

    fn whole(&self, is_carried: bool) -> OperatorStatePiece {
        self.piece(0..self.part.elements, is_carried)
    }
}

impl<'a> OldStates<'a> {
    /// The operator state of the old subtasks, in order. An error is the name of a state on which they do not agree.
    pub(crate) fn new(subtasks: impl Iterator<Item = Option<&'a OperatorStateHandle>>) -> Result<Self, String> {
        let mut old = Self { parallelism: 0, states: BTreeMap::new() };
        for handle in subtasks {
            let subtask = old.parallelism;
            old.parallelism += 1;
            let Some(OperatorStateHandle { parts, state }) = handle else { continue };
            for part in parts {
                let key = (part.meta.is_broadcast(), part.meta.name.as_str());
                let parts = old.states.entry(key).or_default();
                if parts.first().is_some_and(|first| first.part.meta != part.meta) {
                    return Err(part.meta.name.clone());
                }
                parts.push(OldPart { subtask, part, state });
            }
        }
        Ok(old)
    }

    /// Takes a list out; what there is of it, in the order of the subtasks.
    pub(crate) fn take_list(&mut self, name: &'a str) -> Option<OperatorStateShare> {
        let parts = self.states.remove(&(false, name))?;
        let meta = parts.first()?.part.meta.clone();
        Some(OperatorStateShare { meta, pieces: parts.iter().map(|part| part.whole(true)).collect() })
    }

    /// The shares of `parallelism` new subtasks.
    ///
    /// Every new subtask gets every state, be it empty: that a state was restored is something a function may ask.
    pub(crate) fn redistribute(self, parallelism: usize) -> Vec<Vec<OperatorStateShare>> {
        let is_rescaled = self.parallelism != parallelism;
        let mut new = vec![Vec::with_capacity(self.states.len()); parallelism];
        // Who gets the first element rotates from list to list, or subtask 0 would get the odd element of each.
        let mut first = 0;
        for parts in self.states.into_values() {
            let Some(OldPart { part, .. }) = parts.first() else { continue };
            let pieces = match part.meta.redistribution {
                Redistribution::Split if is_rescaled => deal(&parts, parallelism, &mut first),
                Redistribution::Split => own(&parts, parallelism),
                Redistribution::Union => everything(&parts, self.parallelism, parallelism),
                Redistribution::Broadcast => one_copy(&parts, self.parallelism, parallelism),
            };
            for (shares, pieces) in new.iter_mut().zip(pieces) {
                shares.push(OperatorStateShare { meta: part.meta.clone(), pieces });
            }
        }
        new
    }
}

type Pieces = Vec<Vec<OperatorStatePiece>>;

/// Consecutive runs of elements, as equal as can be, to the subtasks from `first` on in a circle; `first` goes on to who
/// comes next.
fn deal(parts: &[OldPart<'_>], parallelism: usize, first: &mut usize) -> Pieces {
    let total: u64 = parts.iter().map(|part| part.part.elements).sum();
    let (share, odd) = (total / parallelism as u64, (total % parallelism as u64) as usize);
    let mut pieces = vec![Vec::new(); parallelism];
    let mut rest = parts.iter().flat_map(|part| (part.part.elements > 0).then_some((part, 0)));
    let mut current = rest.next();
    for turn in 0..parallelism {
        let mut wanted = share + u64::from(turn < odd);
        while wanted > 0
            && let Some((part, start)) = current
        {
            let end = part.part.elements.min(start + wanted);
            pieces[(*first + turn) % parallelism].push(part.piece(start..end, true));
            wanted -= end - start;
            current = if end < part.part.elements { Some((part, end)) } else { rest.next() };
        }
    }
    *first = (*first + odd) % parallelism;
    pieces
}

/// Everybody's own.
fn own(parts: &[OldPart<'_>], parallelism: usize) -> Pieces {
    let mut pieces = vec![Vec::new(); parallelism];
    parts.iter().filter(|part| part.part.elements > 0).for_each(|part| pieces[part.subtask].push(part.whole(true)));
    pieces
}

/// Everything to everyone. Each part is carried on by one, in order: at the same parallelism by whom it came from.
fn everything(parts: &[OldPart<'_>], old_parallelism: usize, parallelism: usize) -> Pieces {
    let parts = || parts.iter().filter(|part| part.part.elements > 0);
    let carrier = |old: usize| old * parallelism / old_parallelism;
    let of = |subtask| parts().map(|part| part.whole(carrier(part.subtask) == subtask)).collect();
    (0..parallelism).map(of).collect()
}

/// One copy to each: that of the old subtask whose turn it is, or of the next that has one.
fn one_copy(parts: &[OldPart<'_>], old_parallelism: usize, parallelism: usize) -> Pieces {
    let copy = |subtask: usize| {
        let turn = subtask % old_parallelism;
        let distance = |part: &&OldPart<'_>| (part.subtask + old_parallelism - turn) % old_parallelism;
        parts.iter().min_by_key(distance).map(|part| part.whole(true))
    };
    (0..parallelism).map(|subtask| copy(subtask).into_iter().collect()).collect()
}
