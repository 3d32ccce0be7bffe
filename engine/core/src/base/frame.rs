//! Metadata of a frame: its state word, and in a separate array the links that put it on a list.
//!
//! The two are separate because they are accessed at different times. A free reads its own word and those of its
//! buddies, but accesses the links of only the few frames that join or leave a list.
//!
//! Only the engine writes this metadata; other code may read the word. There are two kinds of writes. The code that
//! owns a word, by the state that the word has ([`word`](super::word)), stores the next state. An allocated block can
//! be freed by any code that has its number, so it leaves its state by a compare-and-swap from the word that was read
//! before. The compare-and-swap is also the check: only one of two concurrent frees succeeds, unless the block is allocated again
//! in between.
//!
//! # Design
//!
//! *One packed word per frame.* The head of a block has the state of the block, so a transition is one store. A buddy
//! is judged by its word alone, and the word determines the lock that protects it. A word counts 131,071 references. A
//! word of 16 bits would need other places for the CPU of a listed frame and for the references; one store could then
//! no longer change the whole state.
//!
//! *Words and links are separate arrays.* A word has 4 bytes and a pair of links has 8. A free reads its own word and
//! those of its buddies, which are in one cache line up to order 3. Links are accessed only when a block joins a list
//! or leaves one.
//!
//! *A free claims its block.* A caller that knows the number of an allocated block may free, split, share or poison it
//! while other callers do the same. The word leaves the Allocated state by one compare-and-exchange to *Claimed*. Of
//! two concurrent frees, one gets the block and the other gets an error. Other calls ignore a claimed block until a
//! list, a stack, the zone or a caller has it. Every frame between two states is claimed or is in no block. Frames of
//! slabs are marked in their word, and calls by number refuse them.
//!
//! *Only the engine writes words, lists, stacks and the section table.* Other code gets `&Frame` and `&Pageblock`,
//! which are read-only. Tests damage this state through the feature `damage`, which no release has.

use core::sync::atomic::{Ordering::AcqRel, Ordering::Relaxed};

use super::Order;
use super::atomic::AtomicU32;
use super::fault::{Fault, is_planted, ordered};
use super::word::Word;

/// State of one frame: 4 bytes.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Frame {
    word: AtomicU32,
}

/// Links of one frame: 8 bytes. They are meaningful while the frame heads a block on a list or stack, and are protected
/// by the lock of that list or stack.
#[derive(Debug, Default)]
#[repr(C, align(8))]
pub(super) struct Links {
    /// Next frame on the list or stack.
    pub(super) next: AtomicU32,
    /// Previous frame on the list.
    pub(super) prev: AtomicU32,
}

/// Bytes of metadata per frame: its word and its links.
pub const METADATA_BYTES: usize = size_of::<Frame>() + size_of::<Links>();

#[cfg(not(loom))]
const _: () = assert!(METADATA_BYTES == 12, "the metadata budget is 12 bytes per frame");

impl Frame {
    /// Returns the current state. It is stable only under the lock that the state implies.
    #[inline]
    pub fn word(&self) -> Word {
        Word(self.word.load(Relaxed))
    }

    /// Stores another state. The caller owns the current one.
    #[inline]
    pub(crate) fn set(&self, word: Word) {
        debug_assert!(self.word().may_become(word), "word: a store must not change {:?} to {word:?}", self.word());
        self.word.store(word.0, Relaxed);
    }

    /// Overwrites the word, without any check.
    #[cfg(feature = "damage")]
    pub(crate) fn plant_word(&self, word: Word) {
        self.word.store(word.0, Relaxed);
    }

    /// Replaces the word `seen` by `next` with a compare-and-swap; fails if the word has changed. On success the writes
    /// of earlier owners are visible.
    #[inline]
    pub(crate) fn claim(&self, seen: Word, next: Word) -> Result<(), Lost> {
        debug_assert!(
            seen.is_sound() && (seen.is_allocated() || seen.is_claimed()),
            "word: {seen:?} cannot be claimed"
        );
        if is_planted(Fault::ClaimInTwoSteps) && self.word() == seen {
            self.set(next);
            return Ok(());
        }
        match self.word.compare_exchange(seen.0, next.0, ordered(Fault::ClaimUnordered, AcqRel), Relaxed) {
            Ok(_) => Ok(()),
            Err(_) => Err(Lost),
        }
    }

    /// Applies `step` to the current word atomically and returns the previous word.
    ///
    /// # Errors
    /// The current word, if `step` returned `None` for it.
    pub(crate) fn step(&self, step: impl Fn(Word) -> Option<Word>) -> Result<Word, Word> {
        let order = ordered(Fault::CountsUnordered, AcqRel);
        let stepped = self.word.fetch_update(order, Relaxed, |word| step(Word(word)).map(|next| next.0));
        stepped.map(Word).map_err(Word)
    }

    /// Marks a frame as broken, if it is inside a block or the head of an allocated one; returns whether it was. Other
    /// threads may change the word concurrently. Pages of a range are not marked, because their word may be overwritten
    /// by a store.
    pub(crate) fn mark_broken(&self) -> bool {
        let marked = self.step(|word| {
            let may_be_marked = word.is_interior() || word.is_allocated() && !word.is_ranged();
            may_be_marked.then(|| word.broken())
        });
        marked.is_ok()
    }

    /// Marks an allocated block of this order as one with a broken frame; returns whether it was marked. Pages of a
    /// range are not marked.
    pub(crate) fn mark_poisoned(&self, order: Order) -> bool {
        self.step(|word| (word.is_allocated_of(order) && !word.is_ranged()).then(|| word.poisoned())).is_ok()
    }
}

/// Error of a claim: the word had changed since it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::State;

    #[test]
    fn second_claim_of_a_block_fails() {
        let frame = Frame::default();
        let held = Word::allocated(Order::new(3)).with_refs(1);
        [Word::RESERVED, Word::INTERIOR, held].into_iter().for_each(|word| frame.set(word));
        assert_eq!(frame.claim(held, held.claimed()), Ok(()));
        assert_eq!(frame.claim(held, held.claimed()), Err(Lost));
        assert_eq!(frame.word().state(), State::Claimed { order: Order::new(3) });
    }

    #[test]
    fn broken_and_poisoned_marks_require_a_suitable_state() {
        let frame = Frame::default();
        assert!(!frame.mark_broken() && !frame.mark_poisoned(Order::ZERO) && frame.word() == Word::ABSENT);
        [Word::RESERVED, Word::INTERIOR].into_iter().for_each(|word| frame.set(word));
        assert!(frame.mark_broken() && frame.word().is_broken() && !frame.mark_poisoned(Order::ZERO));
        frame.set(Word::allocated(Order::new(2)));
        assert!(!frame.mark_poisoned(Order::ZERO) && frame.mark_poisoned(Order::new(2)));
        let page = Frame::default();
        [Word::RESERVED, Word::INTERIOR, Word::allocated(Order::ZERO).ranged()]
            .into_iter()
            .for_each(|word| page.set(word));
        assert!(!page.mark_broken() && !page.mark_poisoned(Order::ZERO), "a store may claim the frame");
    }
}
