//! A singly linked queue of blocks that one call processes, threaded through the blocks' metadata.
//!
//! Blocks are never removed from the middle. A block that is merged into another one stays linked, and the drain skips
//! it because of its word. A merge therefore touches no neighbours, while removal from a [`List`](super::list::List)
//! would touch two.

use core::sync::atomic::Ordering::Relaxed;

use super::Pfn;
use super::frame::Frame;
use super::memmap::MemMap;
use super::word::Word;

/// A first-in, first-out chain of blocks.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// Heads of the first and the last block; `None` if the chain is empty.
    ends: Option<(Pfn, Pfn)>,
}

impl Chain {
    /// Returns whether the chain is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_none()
    }

    /// Appends a block that is on no list, and stores the word of its new state.
    #[inline(never)]
    pub(crate) fn push(&mut self, map: &MemMap<'_>, pfn: Pfn, word: Word) {
        map.frame(pfn).set(word);
        let first = match self.ends {
            Some((first, last)) => {
                debug_assert!(last != pfn, "chain: frame {pfn} is already the last frame");
                map.links(last).next.store(pfn.raw(), Relaxed);
                first
            }
            None => pfn,
        };
        self.ends = Some((first, pfn));
    }

    /// Unlinks the first block; returns its head and that frame's metadata, or `None` if the chain is empty.
    #[inline]
    pub(crate) fn pop<'m>(&mut self, map: &MemMap<'m>) -> Option<(Pfn, &'m Frame)> {
        let (first, last) = self.ends?;
        let frame = map.frame(first);
        debug_assert!(
            frame.word().is_claimed() || frame.word().is_interior(),
            "chain: frame {first} is {:?}, neither claimed nor inside of a block",
            frame.word()
        );
        self.ends = (first != last).then(|| (Pfn::new(map.links(first).next.load(Relaxed)), last));
        Some((first, frame))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;
    use crate::base::testing::with_map;

    #[test]
    fn chain_is_first_in_first_out() {
        with_map(|map| {
            let mut chain = Chain::default();
            assert!(chain.pop(map).is_none());
            [7, 3, 9].into_iter().for_each(|pfn| chain.push(map, Pfn::new(pfn), Word::INTERIOR));
            assert_eq!(chain.pop(map).map(|(pfn, _)| pfn.raw()), Some(7));
            chain.push(map, Pfn::new(1), Word::INTERIOR);
            let rest: Vec<u32> = core::iter::from_fn(|| chain.pop(map)).map(|(pfn, _)| pfn.raw()).collect();
            assert_eq!(rest, [3, 9, 1]);
        });
    }
}
