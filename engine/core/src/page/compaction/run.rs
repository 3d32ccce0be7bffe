//! One run of compaction over a zone, in which two scanners move towards each other.
//!
//! ```text
//! start of the zone                                                  end of the zone
//! | sources: blocks to move ──>                       <── targets: free blocks |
//! ```
//!
//! A run repeats three steps. It collects blocks of about 32 pages to move from a pageblock, finds as many free pages
//! at the other end, and has the platform move the contents; the old places are then freed. The run ends when the
//! scanner of sources is between two pageblocks and the zone has a free block of the wanted order, when such a block
//! was captured while it was freed, when no targets are left, when the scanners meet, or after scans of four times the
//! zone. A proactive run ends when the zone's fragmentation score is low enough.
//!
//! No lock is held while the platform moves pages. Sources are chosen without a lock and still belong to their owners,
//! so the platform refuses a block that has changed. Targets are taken off the free lists and belong to the run. They
//! are linked through their own metadata, so a run needs a few hundred bytes of stack and allocates no memory.
//!
//! linux: mm/compaction.c:compact_zone, __compact_finished
//!
//! # Design
//!
//! Compaction is Linux's: two scanners, hints, deferral, quick searches of the free lists, and a block that is captured
//! while it is freed. There are two differences:
//!
//! - Sources are not taken off a list, because the engine has no list of pages in use. The platform refuses blocks that
//!   have changed by the time of the move.
//! - A request that waits for a block is recorded in the zone, one at a time. The CPU that frees such a block gives it
//!   to the request.

use core::mem;

use super::fast_search::FastSearch;
use super::freepages::Targets;
use crate::base::{Gfp, MigrateType, Order, Pfn, ZoneKind};
use crate::page::allocator::PageAllocator;
use crate::page::zone::{CaptureRequest, Zone, ZoneFlag, bit, last_pageblock};
use crate::platform::probe::{Compactor, ZoneOutcome};
use crate::platform::{CompactEffort, Event, Platform};
use crate::policy::compaction::Trial;
use crate::policy::fallback;
use crate::policy::flags::AllocFlags;

/// Number of scans of the whole zone after which a run ends, regardless of the hints.
const LOOKS_MAX: u64 = 4;

/// Purpose of a run: a block for a request, or less fragmentation of a zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim {
    /// Order of the wanted block; `None` if the run is to reduce the zone's fragmentation.
    pub(super) order: Option<Order>,
    /// Migratetype of the request.
    pub(super) migratetype: MigrateType,
    /// The highest zone that the request may use.
    pub(super) highest: ZoneKind,
    /// Flags of the request, which decide whether pages of files may be moved.
    pub(super) gfp: Gfp,
    /// Watermark and reserves of the request.
    pub(super) flags: AllocFlags,
    pub(super) effort: CompactEffort,
    pub(super) by: Compactor,
}

impl Aim {
    /// Returns whether the run scans the whole zone, including pageblocks that hints would skip.
    pub(super) fn ignores_hints(&self) -> bool {
        self.effort == CompactEffort::SyncFull || self.order.is_none()
    }

    /// Returns the block to be captured when it is freed, if any.
    fn capture_request(&self) -> Option<CaptureRequest> {
        let order = self.order.filter(|_| self.by == Compactor::Direct)?;
        Some(CaptureRequest { order, migratetype: self.migratetype })
    }

    /// Returns the class of the run, by its initiator and its effort.
    pub(super) fn trial(&self) -> Trial {
        match (self.by, self.effort) {
            (Compactor::Kcompactd, _) => Trial::Background,
            (Compactor::Direct, CompactEffort::Async) => Trial::Hasty,
            (Compactor::Direct, CompactEffort::SyncLight | CompactEffort::SyncFull) => Trial::Thorough,
        }
    }

    /// Returns whether the run is optimistic: direct compaction with async effort. It leaves the range of frames in
    /// which the wanted block could be made as soon as one page in the range cannot be moved.
    pub(super) fn is_optimistic(&self) -> bool {
        self.trial() == Trial::Hasty
    }
}

/// Availability of targets for a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Supply {
    Enough,
    Exhausted,
}

/// State of a run of compaction in one zone.
pub(super) struct Run<'a, 'm, P: Platform> {
    pub(super) allocator: &'a PageAllocator<'m, P>,
    pub(super) zone: &'a Zone<P::Lock>,
    pub(super) aim: Aim,
    /// Position of the scanner of sources.
    pub(super) source: Pfn,
    /// Position of the scanner of targets.
    pub(super) target: Pfn,
    pub(super) targets: Targets,
    /// Pageblock that is scanned to its end regardless of the blocks found so far, because pages were moved out of it
    /// or could not be moved.
    pub(super) finishing: Option<Pfn>,
    pub(super) fast_search: FastSearch,
    pub(super) scan: Scan,
    whole_zone: bool,
    /// Pageblock out of which pages were moved last, until this CPU's lists are drained for it.
    pub(super) moved_in: Option<Pfn>,
    /// Set while the run may capture a block among those that it frees. Only one run per zone can do so at a time.
    is_capturing: bool,
    /// The block that was captured.
    captured: Option<Pfn>,
}

/// Pages scanned and isolated since the last report to the probe.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) sources: u32,
    pub(super) targets: u32,
    pub(super) isolated: u32,
}

impl<'a, 'm, P: Platform> Run<'a, 'm, P> {
    pub(super) fn new(allocator: &'a PageAllocator<'m, P>, zone: &'a Zone<P::Lock>, aim: Aim) -> Run<'a, 'm, P> {
        let block = allocator.map.pageblock_order();
        let (source, target) = if aim.ignores_hints() {
            (zone.span().0, last_pageblock(zone.span(), block))
        } else {
            zone.compaction.positions(aim.effort, zone.span(), block)
        };
        Run {
            allocator,
            zone,
            aim,
            source,
            target,
            targets: Targets::default(),
            finishing: None,
            fast_search: FastSearch::default(),
            scan: Scan::default(),
            whole_zone: aim.ignores_hints() || zone.compaction.covers_all(source),
            moved_in: None,
            is_capturing: false,
            captured: None,
        }
    }

    /// Runs to the end. Returns the outcome, and the block that was captured, if any.
    pub(super) fn run(mut self) -> (ZoneOutcome, Option<Pfn>) {
        let outcome = self.scan_to_end();
        self.release_free_list();
        self.report_scan();
        let captured = self.captured.take();
        (if captured.is_some() { ZoneOutcome::Made } else { outcome }, captured)
    }

    /// Calls `frees`, and captures the block that the run needs if it is freed meanwhile.
    pub(super) fn capture_during(&mut self, frees: impl FnOnce(&PageAllocator<'m, P>)) {
        // The lock is taken without a report to the probe, because Linux takes no lock here.
        if let Some(wanted) = self.aim.capture_request().filter(|_| self.captured.is_none()) {
            self.is_capturing = self.zone.areas.lock().begin_capture(wanted);
        }
        frees(self.allocator);
        if mem::take(&mut self.is_capturing) {
            self.captured = self.zone.areas.lock().end_capture();
        }
    }

    /// Repeats batches until the run is finished. Each batch skips a pageblock or moves a scanner, so the scanners
    /// meet. If other tasks reset the hints meanwhile, the number of scans of the zone is limited, because more scans
    /// would not help.
    fn scan_to_end(&mut self) -> ZoneOutcome {
        let (start, end) = self.zone.span();
        let mut looks_left = LOOKS_MAX * u64::from(end.raw() - start.raw());
        let mut nothing_found = self.aim.effort == CompactEffort::Async && self.zone.compaction.shares_source();
        loop {
            if let Some(outcome) = self.compact_finished() {
                return outcome;
            }
            if self.moved_in == Some(self.block_of(self.source)) {
                self.finishing = self.moved_in;
            }
            let batch = self.isolate_migratepages();
            nothing_found &= batch.is_empty();
            if nothing_found {
                self.zone.compaction.share_source();
            }
            if !batch.is_empty() && self.migrate_pages(batch) == Supply::Exhausted && !self.scanners_met() {
                return ZoneOutcome::Stopped;
            }
            self.drain_once_past();
            looks_left = looks_left.saturating_sub(u64::from(self.scan.sources.max(1)));
            self.report_scan();
            self.allocator.platform.cond_resched();
            if self.captured.is_some() {
                return ZoneOutcome::Made;
            }
            if looks_left == 0 {
                return ZoneOutcome::Stopped;
            }
        }
    }

    /// Returns the outcome if the run is finished, or else `None`. This is checked between batches. If the scanners
    /// have met, their saved positions are reset. A pageblock that was begun is scanned completely first, so that the
    /// resulting block is as free as possible. linux: mm/compaction.c:__compact_finished
    fn compact_finished(&self) -> Option<ZoneOutcome> {
        if self.scanners_met() {
            self.zone.compaction.reset_cached_positions();
            if self.aim.by == Compactor::Direct {
                self.zone.compaction.note_stale();
            }
            return Some(if self.whole_zone { ZoneOutcome::Complete } else { ZoneOutcome::Partial });
        }
        let Some(order) = self.aim.order else { return self.compact_finished_proactively() };
        let at_border = self.source.is_aligned(self.pageblock_order());
        (at_border && self.has_block_for(order)).then_some(ZoneOutcome::Made)
    }

    fn compact_finished_proactively(&self) -> Option<ZoneOutcome> {
        if self.zone.has(ZoneFlag::ReclaimActive) {
            return Some(ZoneOutcome::Partial);
        }
        let low = self.allocator.score_marks()?.low;
        (self.allocator.fragmentation_score_zone(self.zone) <= low).then_some(ZoneOutcome::Made)
    }

    /// Returns whether the zone has a block for the request, of its own type or by claiming another type's pageblock.
    fn has_block_for(&self, order: Order) -> bool {
        let wanted = self.aim.migratetype;
        let own = bit(wanted) | if wanted == MigrateType::Movable { bit(MigrateType::Cma) } else { 0 };
        order.to(Order::MAX).any(|found| self.zone.has_block_at(found, own | self.claimable_types(found)))
    }

    /// Returns the types, one bit each, whose pageblocks the request may claim if they have a free block of this order.
    fn claimable_types(&self, order: Order) -> u8 {
        let wanted = self.aim.migratetype;
        if !fallback::is_claimable(order, wanted, self.pageblock_order(), self.allocator.grouping()) {
            return 0;
        }
        fallback::order_of_attempts(wanted).iter().fold(0, |types, &other| types | bit(other))
    }

    /// Returns whether both scanners are in the same pageblock, or have passed each other.
    /// linux: mm/compaction.c:compact_scanners_met
    fn scanners_met(&self) -> bool {
        self.block_of(self.target) <= self.block_of(self.source)
    }

    /// Drains this CPU's lists once the scanner has passed the place that pages were moved out of, because the lists
    /// may hold pages that the wanted block still lacks. The lists and the stack of the pageblock's owner are drained
    /// too, because freed pages may have been returned to the owner.
    fn drain_once_past(&mut self) {
        let Some(order) = self.aim.order else { return };
        let Some(block) = self.moved_in.filter(|&block| block < self.source.align_down(order)) else { return };
        let zone = self.zone;
        self.capture_during(|allocator| allocator.drain_pages_zone(allocator.platform.cpu(), zone));
        if let Some(owner) = self.allocator.map.pageblock(block).owner() {
            self.capture_during(|allocator| allocator.drain_pages_zone(owner, zone));
        }
        self.moved_in = None;
    }

    fn report_scan(&mut self) {
        let Scan { sources, targets, isolated } = mem::take(&mut self.scan);
        if sources + targets > 0 {
            self.allocator.report(Event::CompactScan {
                zone: self.zone.index() as u8,
                by: self.aim.by,
                migrate_scanned: sources,
                free_scanned: targets,
                isolated,
            });
        }
    }

    pub(super) fn pageblock_order(&self) -> Order {
        self.allocator.map.pageblock_order()
    }

    pub(super) fn last_block(&self) -> Pfn {
        last_pageblock(self.zone.span(), self.pageblock_order())
    }

    pub(super) fn block_of(&self, pfn: Pfn) -> Pfn {
        pfn.align_down(self.pageblock_order())
    }
}

/// Ends the capture if a panic of the platform ended the run. The blocks that the run had taken are lost, but nothing
/// else.
impl<P: Platform> Drop for Run<'_, '_, P> {
    fn drop(&mut self) {
        if self.is_capturing {
            // The lock is taken without a report to the probe, because the probe may be what panicked.
            self.zone.areas.lock().end_capture();
        }
    }
}
