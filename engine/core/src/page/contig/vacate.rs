//! Emptying an isolated range: blocks in the way move elsewhere, page lists are drained, and what is free is taken.
//!
//! Nobody stops while this goes on. A page may be allocated from a CPU's list, or freed to one by a CPU that read the
//! pageblock's type before it was isolated, so the range is looked over again, a few times, before it is called busy.
//!
//! linux: mm/page_alloc.c:__alloc_contig_migrate_range, mm/compaction.c:isolate_freepages_range

use core::ops::Range;

use super::range::Purpose;
use crate::base::word::Word;
use crate::base::{Gfp, MigrateType, Pfn, ZoneKind};
use crate::page::alloc::Holder;
use crate::page::allocator::PageAllocator;
use crate::page::error::ContigError;
use crate::page::free::ClaimedRange;
use crate::page::migrate::Candidate;
use crate::page::zone::Zone;
use crate::platform::{CompactEffort, Platform};

/// Rounds of moving and draining. linux: mm/page_alloc.c:__alloc_contig_migrate_range
const ROUNDS: u32 = 5;

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// Takes an isolated range, after moving away what is in it. linux: mm/page_alloc.c:__alloc_contig_migrate_range
    pub(in crate::page) fn alloc_contig_migrate_range<T>(
        &self,
        zone: &Zone<P::Lock>,
        range: &Range<Pfn>,
        gfp: Gfp,
        take: impl Fn() -> Result<T, Pfn>,
    ) -> Result<T, ContigError> {
        for _ in 0..ROUNDS {
            if let Ok(taken) = take() {
                return Ok(taken);
            }
            self.drain_all_pages_zone(zone);
            self.migrate_range(zone, range, gfp);
            // A CPU that is about to free what is in the way may do so now; its patience does not matter here.
            let _ = self.platform.relax();
        }
        take().map_err(|pfn| ContigError::Busy { pfn, state: self.map.frame(pfn).word().state() })
    }

    /// Takes all frames of an isolated range off the free lists: the caller's, to make something of. Says which is the
    /// first that is not there.
    pub(in crate::page) fn isolate_freepages_range(
        &self,
        zone: &Zone<P::Lock>,
        range: &Range<Pfn>,
        purpose: Purpose,
    ) -> Result<ClaimedRange<'_, 'm>, Pfn> {
        let taken;
        let mut locked = self.lock_zone(zone);
        // What goes offline takes along what is on no list for good.
        locked.isolate_freepages_range(range, |word| {
            purpose == Purpose::Offline && (word.is_reserved() || word == Word::WITHHELD)
        })?;
        taken = ClaimedRange::new(&self.map, range.clone());
        drop(locked);
        Ok(taken)
    }

    fn migrate_range(&self, zone: &Zone<P::Lock>, range: &Range<Pfn>, gfp: Gfp) {
        for (from, word) in self.blocks_in(range).filter(|(_, word)| word.is_movable()) {
            if let Some(to) = self.alloc_target(zone, word, gfp) {
                self.migrate_to(from, to, word);
            }
        }
    }

    /// A block like one that is to be moved, not in a pageblock that is itself to be emptied.
    fn alloc_target(&self, zone: &Zone<P::Lock>, word: Word, gfp: Gfp) -> Option<Pfn> {
        // Tries hard, but ends nobody for it: the range is worth less than a task.
        let mut wanted = gfp & Gfp::KERNEL | Gfp::MOVABLE | Gfp::RETRY_MAYFAIL | Gfp::NOWARN;
        wanted.set(Gfp::COMP, word.is_compound());
        wanted.set(Gfp::HIGHMEM, zone.kind() == ZoneKind::Movable);
        let to = self.alloc(zone.node(), wanted, word.order(), Holder::Many(word.refs())).ok()?;
        if self.map.pageblock(to).migratetype() != MigrateType::Isolate {
            return Some(to);
        }
        // It came from a CPU's list, and goes to the Isolate lists.
        if self.map.frame(to).step(|word| word.is_allocated().then(|| word.claimed())).is_ok() {
            self.free_claimed(to, word.order());
        }
        None
    }

    fn migrate_to(&self, from: Pfn, to: Pfn, word: Word) {
        let (left_over, _) = self.migrate_block(Candidate { pfn: from, word }, to, CompactEffort::SyncFull);
        if let Some(pfn) = left_over {
            self.free_claimed(pfn, word.order());
        }
    }
}
