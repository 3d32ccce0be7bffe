//! Isolated pageblocks during compaction: no block may be moved into them.

use core::cell::{Cell, RefCell};

use freehold::base::{Gfp, MigrateType, Order, Pfn, ZoneKind};
use freehold::page::MinFree;
use freehold::platform::{CompactEffort, FreePages, Migrated, Migration, Reclaim, Reclaimed};
use freehold::policy::ContigPolicy::Batched;

use crate::common::{self, Hooks, Memory, range};
use crate::contig::scene::{Engine, MOVABLE, bare, take, type_at};
use crate::contig::span;

const PAGEBLOCK: u32 = 512;
const END: u32 = 16 * PAGEBLOCK;
/// The pageblock from which the range is allocated.
const LAST: u32 = END - PAGEBLOCK;

/// Platform that refuses every move. During the first move for the range, it requests a block that requires compaction.
struct Compacting<'a, 'h> {
    engine: &'a Engine<'a, 'h>,
    wanted: Order,
    asked: RefCell<Vec<Migration>>,
    is_isolated: Cell<bool>,
    /// The next page that reclaim frees, one page per call, in a zone with no other pages.
    cold: Cell<u32>,
}

impl Hooks for Compacting<'_, '_> {
    fn migrate(&self, migration: &Migration) -> Migrated {
        if migration.from.raw() < LAST {
            self.asked.borrow_mut().push(*migration);
        } else if !self.is_isolated.replace(true) {
            assert_eq!(type_at(self.engine, LAST), MigrateType::Isolate);
            self.engine.alloc_pages(MOVABLE, self.wanted).expect_err("no page can be moved, so the request must fail");
        }
        Migrated::Refused
    }

    fn reclaim(&self, pages: &dyn FreePages, _: &Reclaim) -> Reclaimed {
        let page = self.cold.replace(self.cold.get() + 2);
        pages.free_pages(Pfn::new(page), Order::ZERO);
        Reclaimed { pages: 1, scanned: 1 }
    }
}

/// Every other page of the lower half of the zone and of the last pageblock is free. Compaction searches for targets
/// from the end of the zone. The isolated pageblock is there, but no effort of compaction takes targets from it.
#[test]
fn isolated_pageblock_is_no_compaction_target() {
    for (wanted, hardest) in [(9, CompactEffort::Async), (1, CompactEffort::SyncFull)] {
        let config = bare(Batched);
        let ranges = [range(ZoneKind::Dma, 0, 0, PAGEBLOCK), range(ZoneKind::Normal, 0, PAGEBLOCK, END)];
        let mut memory = Memory::new(&config, &ranges);
        let engine = &common::build(&config, &ranges, &mut memory);
        ranges.iter().for_each(|range| engine.release(range.start, range.end).expect("the frames must be online"));
        engine.set_up_watermarks(MinFree::Pages(64));
        (0..END).for_each(|pfn| take(engine, pfn, 0, MOVABLE));
        for pfn in (PAGEBLOCK..LAST / 2).chain(LAST..END).step_by(2) {
            engine.free_pages(Pfn::new(pfn), Order::ZERO).expect("the pages must be allocated");
        }
        let (asked, is_isolated, cold) = Default::default();
        let compacting = Compacting { engine, wanted: Order::new(wanted), asked, is_isolated, cold };
        engine.platform().answer_with(&compacting);
        engine
            .alloc_contig_range(span(LAST, END), Gfp::KERNEL)
            .expect_err("no page can be moved, so the request must fail");
        let asked = compacting.asked.take();
        assert_eq!(asked.iter().map(|migration| migration.effort).min(), Some(hardest), "order {wanted}");
        let inside = asked.iter().find(|migration| migration.to.raw() >= LAST);
        assert_eq!(inside, None, "order {wanted}: a target in the isolated pageblock");
        engine.check().expect("the check must find no error");
    }
}
