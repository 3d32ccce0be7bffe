//! Migration of a block. The platform moves the contents; the engine chooses the new place and frees the old one.
//!
//! The engine then checks the block that must be unused: the old block after a move, the new block after a refusal. If
//! its word is no longer what it was, the platform has broken its promise, and the block is left alone. Losing a block
//! is better than allocating it twice.
//!
//! linux: mm/migrate.c:migrate_pages

use super::allocator::PageAllocator;
use crate::base::Pfn;
use crate::base::word::Word;
use crate::platform::{CompactEffort, Event, Migrated, Migration, Platform, Promise};

/// A block to be migrated, for compaction or for a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) pfn: Pfn,
    /// The block's word when the engine read it.
    pub(super) word: Word,
}

impl<P: Platform> PageAllocator<'_, P> {
    /// Asks the platform to move a block to a fresh block of the same order. Returns the block that is unused
    /// afterwards, claimed, and the platform's answer. The block is `None` if its word changed meanwhile: the
    /// platform's broken promise is then reported. linux: mm/migrate.c:migrate_pages
    pub(super) fn migrate_block(
        &self,
        Candidate { pfn: from, word }: Candidate,
        to: Pfn,
        effort: CompactEffort,
    ) -> (Option<Pfn>, Migrated) {
        let (order, refs, compound) = (word.order(), word.refs(), word.is_compound());
        let fresh = self.map.frame(to).word();
        let answer = self.platform.migrate(&Migration { from, to, order, refs, compound, effort });
        self.report(Event::Migrate { order, answer });
        let (left_over, before) = match answer {
            Migrated::Moved => (from, word),
            Migrated::Refused => (to, fresh),
        };
        let claim = self.map.frame(left_over).step(|now| (now.healthy() == before.healthy()).then(|| now.claimed()));
        let is_untouched = claim.is_ok();
        if !is_untouched {
            self.report(Event::BrokenPromise { promise: Promise::Migrate });
        }
        (is_untouched.then_some(left_over), answer)
    }
}
