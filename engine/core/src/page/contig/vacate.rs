//! Emptying an isolated range: movable blocks are migrated, per-CPU lists are drained, and the free frames are taken.
//!
//! Other CPUs continue meanwhile. A page may be allocated from a CPU's list, or freed to a list by a CPU that read the
//! pageblock's type before the isolation. The range is therefore checked again, a few times, before it is reported as
//! busy.
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

/// Maximum number of rounds of migration and draining. linux: mm/page_alloc.c:__alloc_contig_migrate_range
const ROUNDS: u32 = 5;

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// Takes an isolated range by `take`, which returns the first frame that it cannot take as the error. If `take`
    /// fails, drains every CPU's lists for the zone, migrates the blocks in the range and tries again, in up to five
    /// rounds. linux: mm/page_alloc.c:__alloc_contig_migrate_range
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
            // A CPU that is about to free a block in the range can do so now. The platform's answer does not matter
            // here.
            let _ = self.platform.relax();
        }
        take().map_err(|pfn| ContigError::Busy { pfn, state: self.map.frame(pfn).word().state() })
    }

    /// Takes all frames of an isolated range off the free lists, or none. The caller makes blocks of them. Returns the
    /// first frame that is not free as the error; for offlining, Reserved and withheld frames are accepted too.
    pub(in crate::page) fn isolate_freepages_range(
        &self,
        zone: &Zone<P::Lock>,
        range: &Range<Pfn>,
        purpose: Purpose,
    ) -> Result<ClaimedRange<'_, 'm>, Pfn> {
        let taken;
        let mut locked = self.lock_zone(zone);
        // Frames that are on no list for good go offline together with the range.
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

    /// Allocates a block like the one to be migrated, near the zone's node and outside of the pageblocks that are being
    /// emptied. Returns `None` if that fails.
    fn alloc_target(&self, zone: &Zone<P::Lock>, word: Word, gfp: Gfp) -> Option<Pfn> {
        // The request tries hard but never ends a task, because the range is worth less than a task.
        let mut wanted = gfp & Gfp::KERNEL | Gfp::MOVABLE | Gfp::RETRY_MAYFAIL | Gfp::NOWARN;
        wanted.set(Gfp::COMP, word.is_compound());
        wanted.set(Gfp::HIGHMEM, zone.kind() == ZoneKind::Movable);
        let to = self.alloc(zone.node(), wanted, word.order(), Holder::Many(word.refs())).ok()?;
        if self.map.pageblock(to).migratetype() != MigrateType::Isolate {
            return Some(to);
        }
        // The block came from a per-CPU list. Freeing it puts it on the Isolate lists.
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
