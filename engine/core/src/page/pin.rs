//! Pins. A pin keeps a block from being migrated while a device uses it, or while its address is stored.
//!
//! `pin` sets a mark in the word of the block's head. Compaction and ranges pass over a pinned block as over an
//! unmovable one, without a call of [`Platform::migrate`]. `pin_longterm` makes a block unmovable instead. If the block
//! is in a pageblock of movable memory, which it would keep from ever becoming free, or in a CMA area, which could not
//! use its memory, the block is moved first.
//!
//! linux: mm/gup.c:pin_user_pages, migrate_longterm_unpinnable_folios

use core::fmt;

use super::alloc::Holder;
use super::allocator::PageAllocator;
use super::error::AllocError;
use super::migrate::Candidate;
use crate::base::word::Word;
use crate::base::{Gfp, MigrateType, Order, Pfn};
use crate::platform::{CompactEffort, Isolation, Migrated, Platform};

/// Error of `pin`, `unpin` and `pin_longterm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinError {
    /// No allocated block of this order, with references, begins at the frame.
    NotAllocated,
    /// The block is pinned already; only from `pin_longterm`.
    Pinned,
    /// There is no memory to move the block to.
    NoMemory(AllocError),
    /// The platform did not move the block, or the block changed meanwhile.
    Refused,
}

impl fmt::Display for PinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PinError::NotAllocated => f.write_str("no allocated block of this order with references begins there"),
            PinError::Pinned => f.write_str("the block is pinned already"),
            PinError::NoMemory(error) => write!(f, "the block cannot be moved among unmovable ones: {error}"),
            PinError::Refused => {
                f.write_str("the block was not made unmovable: the platform refused, or the block changed")
            }
        }
    }
}

impl core::error::Error for PinError {}

impl<P: Platform> PageAllocator<'_, P> {
    /// Pins an allocated block with references, if its request was movable; other blocks never move. The caller ensures
    /// that no migration of the block is in progress: if the platform answers [`Moved`](Migrated::Moved) after the pin,
    /// a broken promise is reported and the old block is lost. Pins are not counted. Costs one atomic step.
    ///
    /// # Errors
    /// [`PinError::NotAllocated`].
    pub fn pin(&self, pfn: Pfn, order: Order) -> Result<(), PinError> {
        self.step_movable(pfn, order, Word::pinned)
    }

    /// Ends all pins of an allocated block with references. Must not be called for a block that a handle of the
    /// `kernel` module owns, since the handle uses the same mark. Costs one atomic step.
    ///
    /// # Errors
    /// [`PinError::NotAllocated`].
    pub fn unpin(&self, pfn: Pfn, order: Order) -> Result<(), PinError> {
        self.step_movable(pfn, order, Word::unpinned)
    }

    /// Makes a block unmovable for good, and returns its place. If it is in a pageblock of movable memory or of a CMA
    /// area, [`Platform::migrate`] first moves it to a block that is allocated with these flags without
    /// [`Gfp::MOVABLE`], which is in an unmovable pageblock unless memory is short. The caller holds no lock that
    /// `migrate` takes, and no other migration of the block is in progress.
    ///
    /// # Errors
    /// See [`PinError`]. On an error this function has neither moved the block nor changed its mark.
    pub fn pin_longterm(&self, pfn: Pfn, order: Order, gfp: Gfp) -> Result<Pfn, PinError> {
        let frame = self.map.try_frame(pfn).ok_or(PinError::NotAllocated)?;
        let word = frame.word();
        if !is_block(word, order) {
            return Err(PinError::NotAllocated);
        }
        if !word.is_of_movable_request() {
            return Ok(pfn);
        }
        if !word.is_movable() {
            return Err(PinError::Pinned);
        }
        let mut wanted = gfp - Gfp::MOVABLE;
        wanted.set(Gfp::COMP, word.is_compound());
        let kept = self.map.pageblock(pfn).lasting_migratetype();
        if !matches!(kept, MigrateType::Movable | MigrateType::Cma) {
            let unmovable = Holder::many(word.refs()).word(wanted, order);
            let stepped = frame.step(|now| (now == word && !now.is_poisoned()).then_some(unmovable));
            return stepped.map(|_| pfn).map_err(|_| PinError::Refused);
        }
        self.move_longterm(Candidate { pfn, word }, wanted)
    }

    fn move_longterm(&self, block: Candidate, wanted: Gfp) -> Result<Pfn, PinError> {
        let (order, effort) = (block.word.order(), CompactEffort::SyncFull);
        let isolation = Isolation { pfn: block.pfn, order, gfp: wanted, effort };
        if !self.platform.migrates() || !self.platform.can_isolate(&isolation) {
            return Err(PinError::Refused);
        }
        let node = self.zone_around(self.map.pageblock(block.pfn)).node();
        let holder = Holder::many(block.word.refs());
        let to = self.alloc(node, wanted, order, holder).map_err(PinError::NoMemory)?;
        let (left_over, answer) = self.migrate_block(block, to, effort);
        if let Some(left_over) = left_over {
            self.free_claimed(left_over, order);
        }
        match answer {
            Migrated::Moved => Ok(to),
            Migrated::Refused => Err(PinError::Refused),
        }
    }

    /// Changes the word of a block if its request was movable. Other words are left alone, because the holder of the
    /// zone lock may be storing to the words of pages of a range.
    fn step_movable(&self, pfn: Pfn, order: Order, change: impl Fn(Word) -> Word) -> Result<(), PinError> {
        let frame = self.map.try_frame(pfn).ok_or(PinError::NotAllocated)?;
        let stepped = frame.step(|word| (is_block(word, order) && word.is_of_movable_request()).then(|| change(word)));
        match stepped {
            Err(word) if !is_block(word, order) => Err(PinError::NotAllocated),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

fn is_block(word: Word, order: Order) -> bool {
    word.is_allocated_of(order) && !word.is_slab() && word.refs() > 0
}
