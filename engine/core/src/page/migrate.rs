//! Moving a block: the platform moves what is in it, the engine finds the place and takes what is left over.
//!
//! The engine looks at what it alone can have: after a move nobody uses the old place any more, after a refusal nobody
//! ever used the new one. A word that is not what it was by then is a broken promise, and the block is left alone:
//! losing a block is better than handing it out twice.
//!
//! linux: mm/migrate.c:migrate_pages

use super::allocator::PageAllocator;
use crate::base::Pfn;
use crate::base::word::Word;
use crate::platform::{CompactEffort, Event, Migrated, Migration, Platform, Promise};

/// A block that compaction or a range wants moved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) pfn: Pfn,
    /// What it was when the engine looked.
    pub(super) word: Word,
}

impl<P: Platform> PageAllocator<'_, P> {
    /// Asks the platform to move a block to a fresh one of the same order; returns the block that is left over,
    /// claimed, and the platform's answer. `None` in place of the block if the platform did something to it that it
    /// must not. linux: mm/migrate.c:migrate_pages
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
