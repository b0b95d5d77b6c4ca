//! A list as a chain of shared chunks: appending copies nothing that is there, and a clone shares all of it.
//!
//! The lists of keyed state and those of operator state are both this one; a snapshot of one is a clone.

use std::sync::Arc;

/// Elements of a full chunk, and so what a first write after a freeze copies at most.
const CHUNK_ELEMENTS: usize = 64;

/// A list that only grows at its end. Cloning costs two reference counts, whatever its length.
#[derive(Clone)]
pub(crate) struct SharedList<T> {
    /// The newest full chunk, which leads to the older ones.
    full: Option<Arc<Chunk<T>>>,
    /// The last elements: fewer than a chunk has.
    tail: Arc<Vec<T>>,
    len: usize,
}

struct Chunk<T> {
    elements: Arc<Vec<T>>,
    before: Option<Arc<Chunk<T>>>,
}

/// A chain can have millions of chunks: they are let go of one by one, not each by the one after it.
impl<T> Drop for Chunk<T> {
    fn drop(&mut self) {
        let mut before = self.before.take();
        while let Some(mut chunk) = before.and_then(Arc::into_inner) {
            before = chunk.before.take();
        }
    }
}

impl<T> Default for SharedList<T> {
    fn default() -> Self {
        Self { full: None, tail: Arc::default(), len: 0 }
    }
}

impl<T> SharedList<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The elements in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.last(self.len)
    }

    /// The last `count` elements in order; looks only at the chunks that have them.
    pub(crate) fn last(&self, count: usize) -> impl Iterator<Item = &T> {
        let mut parts: Vec<&[T]> = vec![&self.tail];
        let mut missing = count.saturating_sub(self.tail.len());
        let mut next = &self.full;
        while missing > 0
            && let Some(chunk) = next
        {
            parts.push(&chunk.elements);
            missing = missing.saturating_sub(chunk.elements.len());
            next = &chunk.before;
        }
        let held: usize = parts.iter().map(|part| part.len()).sum();
        parts.into_iter().rev().flatten().skip(held.saturating_sub(count))
    }
}

impl<T> SharedList<T> {
    /// The pieces in order, each shared with the list: to be read one after the other without the list.
    pub(crate) fn chunks(&self) -> Vec<Arc<Vec<T>>> {
        let full = std::iter::successors(self.full.as_ref(), |chunk| chunk.before.as_ref());
        let mut chunks: Vec<_> =
            std::iter::once(&self.tail).chain(full.map(|chunk| &chunk.elements)).cloned().collect();
        chunks.reverse();
        chunks
    }
}

impl<T: Clone> SharedList<T> {
    /// Appends an element. Copies the last elements when a clone shares them, and never more than a chunk.
    pub(crate) fn push(&mut self, element: T) {
        Arc::make_mut(&mut self.tail).push(element);
        self.len += 1;
        if self.tail.len() == CHUNK_ELEMENTS {
            let elements = std::mem::take(&mut self.tail);
            self.full = Some(Arc::new(Chunk { elements, before: self.full.take() }));
        }
    }
}

impl<T: Clone> Extend<T> for SharedList<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        elements.into_iter().for_each(|element| self.push(element));
    }
}

impl<T: Clone> FromIterator<T> for SharedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut list = Self::default();
        list.extend(elements);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(list: &SharedList<usize>) -> Vec<usize> {
        list.iter().copied().collect()
    }

    #[test]
    fn elements_come_back_in_order_whatever_their_number() {
        for count in [0, 1, CHUNK_ELEMENTS - 1, CHUNK_ELEMENTS, CHUNK_ELEMENTS + 1, 10 * CHUNK_ELEMENTS + 7] {
            let list: SharedList<usize> = (0..count).collect();
            assert_eq!(list.len(), count);
            assert_eq!(elements(&list), (0..count).collect::<Vec<_>>());
            for last in [0, 1, CHUNK_ELEMENTS, count / 2, count] {
                let last = last.min(count);
                assert!(list.last(last).copied().eq(count - last..count), "the last {last} of {count}");
            }
        }
    }

    #[test]
    fn a_clone_does_not_see_what_is_appended_later() {
        let mut list = SharedList::default();
        let mut clones = Vec::new();
        for number in 0..3 * CHUNK_ELEMENTS {
            clones.push(list.clone());
            list.push(number);
        }
        for (number, clone) in clones.iter().enumerate() {
            assert_eq!(elements(clone), (0..number).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_chunks_are_the_list() {
        for count in [0, 1, CHUNK_ELEMENTS, 3 * CHUNK_ELEMENTS + 1] {
            let mut list: SharedList<usize> = (0..count).collect();
            let chunks = list.chunks();
            list.push(count);
            let read: Vec<usize> = chunks.iter().flat_map(|chunk| chunk.iter().copied()).collect();
            assert_eq!(read, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_clone_shares_the_full_chunks() {
        let list: SharedList<usize> = (0..5 * CHUNK_ELEMENTS).collect();
        let mut other = list.clone();
        other.push(0);
        let (one, two) = (list.full.as_ref().unwrap(), other.full.as_ref().unwrap());
        assert!(Arc::ptr_eq(one, two));
    }

    #[test]
    fn a_list_of_many_chunks_is_dropped_without_running_out_of_stack() {
        let list: SharedList<u8> = (0..CHUNK_ELEMENTS * 40_000).map(|_| 0).collect();
        let clone = list.clone();
        drop(list);
        assert_eq!(clone.iter().count(), CHUNK_ELEMENTS * 40_000);
        drop(clone);
    }
}
