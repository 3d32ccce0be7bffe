//! Metadata of a frame: its word, and, in an array of their own, the links that put it on a list.
//!
//! The two are apart because they are wanted at different times: a free looks at words, its own and its buddies', and
//! at the links of those few frames only that join a list or leave one.
//!
//! What may be written here is the engine's alone: others read the word. Two kinds of writes are told apart. The part
//! that owns a word by the state that it names ([`word`](super::word)) stores the next one. An allocated block is
//! anybody's whose number is known, so it leaves its state by one atomic step from the word that was looked at: that
//! step *is* the check, and of two that free a block at once one takes it.

use core::sync::atomic::{Ordering::AcqRel, Ordering::Relaxed};

use super::Order;
use super::atomic::AtomicU32;
use super::fault::{Fault, is_planted, ordered};
use super::word::Word;

/// The state of one frame: 4 bytes.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Frame {
    word: AtomicU32,
}

/// Where a frame is on a list or a stack: 8 bytes. They mean something while it heads a block that is on one, and are
/// protected by what protects that.
#[derive(Debug, Default)]
#[repr(C, align(8))]
pub(super) struct Links {
    /// Next frame on the list or stack.
    pub(super) next: AtomicU32,
    /// Previous frame on the list.
    pub(super) prev: AtomicU32,
}

/// Bytes of metadata that a frame has: its word and its links.
pub const METADATA_BYTES: usize = size_of::<Frame>() + size_of::<Links>();

#[cfg(not(loom))]
const _: () = assert!(METADATA_BYTES == 12, "metadata budget: 12 bytes a frame");

impl Frame {
    /// The state now. Stable only under the lock that the state names.
    #[inline]
    pub fn word(&self) -> Word {
        Word(self.word.load(Relaxed))
    }

    /// Puts the frame into another state. The caller owns the present one, by what that names.
    #[inline]
    pub(crate) fn set(&self, word: Word) {
        debug_assert!(self.word().may_become(word), "word: {:?} does not become {word:?} by a store", self.word());
        self.word.store(word.0, Relaxed);
    }

    /// Writes the word of a frame, whatever it was.
    #[cfg(feature = "damage")]
    pub(crate) fn plant_word(&self, word: Word) {
        self.word.store(word.0, Relaxed);
    }

    /// Takes the frame from the state that it was seen in to the next, unless somebody has changed it since. What
    /// earlier holders wrote is seen.
    #[inline]
    pub(crate) fn claim(&self, seen: Word, next: Word) -> Result<(), Lost> {
        debug_assert!(
            seen.is_sound() && (seen.is_allocated() || seen.is_claimed()),
            "word: {seen:?} is not to be claimed"
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

    /// Takes the frame one step on, from whatever state it is in by then; returns the state before.
    ///
    /// # Errors
    /// The state from which `step` leads nowhere.
    pub(crate) fn step(&self, step: impl Fn(Word) -> Option<Word>) -> Result<Word, Word> {
        let order = ordered(Fault::CountsUnordered, AcqRel);
        let stepped = self.word.fetch_update(order, Relaxed, |word| step(Word(word)).map(|next| next.0));
        stepped.map(Word).map_err(Word)
    }

    /// Marks a frame that is inside a block, or the head of an allocated one, as broken, while others may be changing
    /// it; says whether it is either. Not a page of a range, whose word may be stored to.
    pub(crate) fn mark_broken(&self) -> bool {
        let marked = self.step(|word| {
            let may_be_marked = word.is_interior() || word.is_allocated() && !word.is_ranged();
            may_be_marked.then(|| word.broken())
        });
        marked.is_ok()
    }

    /// Marks an allocated block as one that has a broken frame, likewise.
    pub(crate) fn mark_poisoned(&self, order: Order) -> bool {
        self.step(|word| (word.is_allocated_of(order) && !word.is_ranged()).then(|| word.poisoned())).is_ok()
    }
}

/// Somebody else took the frame out of the state that it was seen in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::State;

    #[test]
    fn a_block_is_claimed_once() {
        let frame = Frame::default();
        let held = Word::allocated(Order::new(3)).with_refs(1);
        [Word::RESERVED, Word::INTERIOR, held].into_iter().for_each(|word| frame.set(word));
        assert_eq!(frame.claim(held, held.claimed()), Ok(()));
        assert_eq!(frame.claim(held, held.claimed()), Err(Lost));
        assert_eq!(frame.word().state(), State::Claimed { order: Order::new(3) });
    }

    #[test]
    fn marks_are_made_only_where_they_mean_something() {
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
        assert!(!page.mark_broken() && !page.mark_poisoned(Order::ZERO), "it may be claimed by a store");
    }
}
