//! One run of compaction over a zone: two scanners move towards each other.
//!
//! ```text
//! start of the zone                                                  end of the zone
//! | sources: blocks to move ──>                       <── targets: free blocks |
//! ```
//!
//! A run takes up to 32 pages to move from a pageblock, finds as many free ones at the other end, has the platform move
//! what is in them, and gives the old places to the zone. It ends when a block of the order wanted is free at the end
//! of a pageblock, when one was captured on its way to the lists, or when the scanners meet.
//!
//! Nothing is held while the platform moves pages. Sources are chosen without a lock and are still their owners': the
//! platform refuses what is no longer there. Targets are taken off the free lists and belong to the run; they
//! are linked through their own metadata, so a run needs a few hundred bytes of stack and no memory.
//!
//! linux: mm/compaction.c:compact_zone, __compact_finished

use core::mem;

use super::fast_search::FastSearch;
use super::freepages::Targets;
use crate::base::{MigrateType, Order, Pfn, ZoneKind};
use crate::page::allocator::PageAllocator;
use crate::page::zone::{CaptureRequest, Zone, ZoneFlag, bit, last_pageblock};
use crate::platform::probe::Compactor;
use crate::platform::{CompactEffort, Event, Platform};
use crate::policy::compaction::Trial;
use crate::policy::fallback;
use crate::policy::flags::AllocFlags;

/// Looks at every frame of a zone after which a run ends, whatever the hints say.
const LOOKS_MAX: u64 = 4;

/// What a run is for: a request's block, or a zone in pieces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim {
    /// The order wanted; `None` if the zone is to be less fragmented as a whole.
    pub(super) order: Option<Order>,
    /// Migratetype of the request.
    pub(super) migratetype: MigrateType,
    /// The highest zone that it may use.
    pub(super) highest: ZoneKind,
    /// The request's watermark and reserves.
    pub(super) flags: AllocFlags,
    pub(super) effort: CompactEffort,
    pub(super) by: Compactor,
}

impl Aim {
    /// Scans what was found useless lately, and all of the zone.
    pub(super) fn ignores_hints(&self) -> bool {
        self.effort == CompactEffort::SyncFull || self.order.is_none()
    }

    /// Returns the block to be captured on its way to the free lists, if any.
    fn capture_request(&self) -> Option<CaptureRequest> {
        let order = self.order.filter(|_| self.by == Compactor::Direct)?;
        Some(CaptureRequest { order, migratetype: self.migratetype })
    }

    /// For whom it is, and how hard it tries.
    pub(super) fn trial(&self) -> Trial {
        match (self.by, self.effort) {
            (Compactor::Kcompactd, _) => Trial::Background,
            (Compactor::Direct, CompactEffort::Async) => Trial::Hasty,
            (Compactor::Direct, CompactEffort::SyncLight | CompactEffort::SyncFull) => Trial::Thorough,
        }
    }

    /// Whether this is an optimist: a request that gives up a place as soon as a page in it cannot move.
    pub(super) fn is_optimistic(&self) -> bool {
        self.trial() == Trial::Hasty
    }
}

/// How a run of compaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// No run: compaction is not suitable for the zone.
    Skipped,
    /// A block of the order is there now, or was from the beginning.
    Made,
    /// The scanners met after a look at the whole zone.
    Complete,
    /// The scanners met after a look at a part of it.
    Partial,
    /// There were no more targets, or the zone was looked at often enough.
    Stopped,
}

/// Whether there were targets for all of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Supply {
    Enough,
    Exhausted,
}

/// A run of compaction in one zone, under way.
pub(super) struct Run<'a, 'm, P: Platform> {
    pub(super) allocator: &'a PageAllocator<'m, P>,
    pub(super) zone: &'a Zone<P::Lock>,
    pub(super) aim: Aim,
    /// Where the scanner of sources stands.
    pub(super) source: Pfn,
    /// Where the scanner of targets stands.
    pub(super) target: Pfn,
    pub(super) targets: Targets,
    /// The pageblock to be scanned to its end, whatever was found already: one that pages were moved out of.
    pub(super) finishing: Option<Pfn>,
    pub(super) fast_search: FastSearch,
    pub(super) scan: Scan,
    whole_zone: bool,
    /// The pageblock out of which pages were moved last, until what went to this CPU's lists is drained.
    pub(super) moved_in: Option<Pfn>,
    /// It waits for a block among those that it frees itself, which no other run does in this zone now.
    is_capturing: bool,
    /// The block that it waited for.
    captured: Option<Pfn>,
}

/// What was looked at since the probe heard last.
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

    /// Runs to the end; returns the block that was captured, if one was.
    pub(super) fn run(mut self) -> (Outcome, Option<Pfn>) {
        let outcome = self.scan_to_end();
        self.release_free_list();
        self.report_scan();
        let captured = self.captured.take();
        (if captured.is_some() { Outcome::Made } else { outcome }, captured)
    }

    /// Frees something, and catches the block that the run is for on its way to the lists.
    pub(super) fn capture_during(&mut self, frees: impl FnOnce(&PageAllocator<'m, P>)) {
        // The lists are told without a word to the probe: this is no hold that Linux has.
        if let Some(wanted) = self.aim.capture_request().filter(|_| self.captured.is_none()) {
            self.is_capturing = self.zone.areas.lock().begin_capture(wanted);
        }
        frees(self.allocator);
        if mem::take(&mut self.is_capturing) {
            self.captured = self.zone.areas.lock().end_capture();
        }
    }

    /// Each batch ends with a pageblock passed over or a scanner moved on, so the scanners meet. Others may make the
    /// hints forgotten meanwhile; what a few looks at the whole zone did not bring, another one does not.
    fn scan_to_end(&mut self) -> Outcome {
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
                return Outcome::Stopped;
            }
            self.drain_once_past();
            looks_left = looks_left.saturating_sub(u64::from(self.scan.sources.max(1)));
            self.report_scan();
            self.allocator.platform.cond_resched();
            if self.captured.is_some() {
                return Outcome::Made;
            }
            if looks_left == 0 {
                return Outcome::Stopped;
            }
        }
    }

    /// Whether the run is over, and how. Looked at between batches; a pageblock that was begun is finished first, so
    /// that the block that is made is as free as it can be. linux: mm/compaction.c:__compact_finished
    fn compact_finished(&self) -> Option<Outcome> {
        if self.scanners_met() {
            self.zone.compaction.reset_cached_positions();
            if self.aim.by == Compactor::Direct {
                self.zone.compaction.note_stale();
            }
            return Some(if self.whole_zone { Outcome::Complete } else { Outcome::Partial });
        }
        let Some(order) = self.aim.order else { return self.compact_finished_proactively() };
        let at_border = self.source.is_aligned(self.pageblock_order());
        (at_border && self.has_block_for(order)).then_some(Outcome::Made)
    }

    fn compact_finished_proactively(&self) -> Option<Outcome> {
        if self.zone.has(ZoneFlag::ReclaimActive) {
            return Some(Outcome::Partial);
        }
        let low = self.allocator.score_marks()?.low;
        (self.allocator.fragmentation_score_zone(self.zone) <= low).then_some(Outcome::Made)
    }

    /// Whether the zone has a block for the request, by its own type or by claiming another's.
    fn has_block_for(&self, order: Order) -> bool {
        let wanted = self.aim.migratetype;
        let own = bit(wanted) | if wanted == MigrateType::Movable { bit(MigrateType::Cma) } else { 0 };
        order.to(Order::MAX).any(|found| self.zone.has_block_at(found, own | self.claimable_types(found)))
    }

    /// Types, a bit each, of whose blocks of this order the request may claim the pageblock.
    fn claimable_types(&self, order: Order) -> u8 {
        let wanted = self.aim.migratetype;
        if !fallback::is_claimable(order, wanted, self.pageblock_order(), self.allocator.grouping()) {
            return 0;
        }
        fallback::order_of_attempts(wanted).iter().fold(0, |types, &other| types | bit(other))
    }

    /// Whether both scanners are in the same pageblock, or have passed each other.
    /// linux: mm/compaction.c:compact_scanners_met
    fn scanners_met(&self) -> bool {
        self.block_of(self.target) <= self.block_of(self.source)
    }

    /// Drains this CPU's lists once the scanner is past the place that pages were moved out of: they may hold what the
    /// wanted block still lacks. So may the lists and the stack of the pageblock's owner, to which the pages went home.
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

/// A run that a panic of the platform's ended captures nothing: what it had in hand is lost, and no more.
impl<P: Platform> Drop for Run<'_, '_, P> {
    fn drop(&mut self) {
        if self.is_capturing {
            // Without a word to the probe, whose panic this may be.
            self.zone.areas.lock().end_capture();
        }
    }
}
