//! A growing list that can be frozen: chunks that live list and snapshots share, and a tail that only the list has.
//!
//! A freeze seals the tail into a chunk and shares the chunks; it moves elements and never copies one. So its cost does
//! not depend on how long the list is, and what is appended afterwards goes into a new tail.

use std::sync::Arc;

/// A chunk that has fewer elements than this takes in the next tail, unless a snapshot still reads it.
const CHUNK_ELEMENTS: usize = 1024;

/// Elements that do not change any more, and those before them.
struct Chunk<T> {
    before: Option<Arc<Chunk<T>>>,
    elements: Vec<T>,
}

impl<T> Drop for Chunk<T> {
    /// Drops the chunks before it one after the other: the usual way would need a stack as deep as the list is long.
    fn drop(&mut self) {
        let mut next = self.before.take();
        while let Some(mut chunk) = next.and_then(Arc::into_inner) {
            next = chunk.before.take();
        }
    }
}

/// The list.
pub(super) struct SharedList<T> {
    sealed: Option<Arc<Chunk<T>>>,
    tail: Vec<T>,
    length: usize,
}

/// The list as it was at a freeze; can be read on another thread.
pub(super) struct FrozenList<T> {
    newest: Option<Arc<Chunk<T>>>,
    length: usize,
}

impl<T> SharedList<T> {
    pub(super) fn new() -> Self {
        Self { sealed: None, tail: Vec::new(), length: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn push(&mut self, element: T) {
        self.tail.push(element);
        self.length += 1;
    }

    pub(super) fn extend(&mut self, elements: Vec<T>) {
        self.length += elements.len();
        if self.tail.is_empty() {
            self.tail = elements;
        } else {
            self.tail.extend(elements);
        }
    }

    /// The elements in the order in which they were added.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        slices(self.sealed.as_deref()).into_iter().flatten().chain(&self.tail)
    }

    /// Freezes the list as it is. Several frozen states may exist at once.
    pub(super) fn freeze(&mut self) -> FrozenList<T> {
        if !self.tail.is_empty() {
            let tail = std::mem::take(&mut self.tail);
            match self.sealed.as_mut().and_then(Arc::get_mut) {
                Some(chunk) if chunk.elements.len() < CHUNK_ELEMENTS => chunk.elements.extend(tail),
                _ => self.sealed = Some(Arc::new(Chunk { before: self.sealed.take(), elements: tail })),
            }
        }
        FrozenList { newest: self.sealed.clone(), length: self.length }
    }
}

impl<T> FrozenList<T> {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// The elements in pieces, the oldest first.
    pub(super) fn slices(&self) -> Vec<&[T]> {
        slices(self.newest.as_deref())
    }
}

fn slices<T>(newest: Option<&Chunk<T>>) -> Vec<&[T]> {
    let chunks = std::iter::successors(newest, |chunk| chunk.before.as_deref());
    let mut slices: Vec<&[T]> = chunks.map(|chunk| &chunk.elements[..]).collect();
    slices.reverse();
    slices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(list: &SharedList<u32>) -> Vec<u32> {
        list.iter().copied().collect()
    }

    fn frozen_content(list: &FrozenList<u32>) -> Vec<u32> {
        list.slices().concat()
    }

    #[test]
    fn a_frozen_list_never_changes() {
        let mut list = SharedList::new();
        let mut frozen = Vec::new();
        for round in 0..50 {
            list.push(round);
            list.extend(vec![round, round]);
            frozen.push((list.freeze(), content(&list)));
            if round % 3 == 0 {
                frozen.remove(frozen.len() / 2);
            }
        }
        list = SharedList::new();
        list.push(7);
        for (frozen, expected) in &frozen {
            assert_eq!(frozen_content(frozen), *expected);
            assert_eq!(frozen.len(), expected.len());
        }
        assert_eq!((content(&list), list.len()), (vec![7], 1));
    }

    #[test]
    fn a_freeze_moves_the_elements_and_copies_none() {
        // Not `Clone`: there is nothing else that it could do.
        struct Unique(u32);
        let mut list = SharedList::new();
        list.extend((0..5_000).map(Unique).collect());
        let first = list.freeze();
        list.push(Unique(5_000));
        let second = list.freeze();
        assert!(second.slices().concat_numbers().eq(0..5_001));
        assert!(first.slices().concat_numbers().eq(0..5_000));

        trait Numbers {
            fn concat_numbers(&self) -> impl Iterator<Item = u32>;
        }
        impl Numbers for Vec<&[Unique]> {
            fn concat_numbers(&self) -> impl Iterator<Item = u32> {
                self.iter().flat_map(|slice| slice.iter().map(|unique| unique.0))
            }
        }
    }

    #[test]
    fn snapshots_that_come_one_after_the_other_leave_few_chunks() {
        let mut list = SharedList::new();
        for number in 0..10_000 {
            list.push(number);
            drop(list.freeze());
        }
        assert!(list.freeze().slices().len() <= 10, "{} chunks", list.freeze().slices().len());
        assert!(content(&list).into_iter().eq(0..10_000));
    }

    #[test]
    fn a_list_of_very_many_chunks_is_dropped_without_a_deep_stack() {
        let mut list = SharedList::new();
        let mut open = Vec::new();
        for number in 0..200_000 {
            list.push(number);
            open.push(list.freeze());
        }
        drop(list);
        let newest = open.pop();
        drop(open);
        drop(newest);
    }
}
