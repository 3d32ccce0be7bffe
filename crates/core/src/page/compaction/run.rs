//! One run of compaction over a zone: two scanners move towards each other.
//!
//! ```text
//! start of the zone                                                  end of the zone
//! | sources: blocks to move ──>                       <── targets: free blocks |
//! ```
//!
//! A run takes up to 32 pages to move from a pageblock, finds as many free ones at the other end, has the platform move
//! what is in them, and gives the old places to the zone. It ends when a block of the order wanted is free at the end of a
//! pageblock, when one was caught on its way to the lists, or when the scanners meet.
//!
//! Nothing is held while the platform moves pages. Sources are chosen without a lock and are still their owners': the
//! platform refuses what is no longer there. Targets are taken off the free lists and belong to the run; they
//! are linked through their own metadata, so a run needs a few hundred bytes of stack and no memory.
//!
//! linux: mm/compaction.c:compact_zone, __compact_finished

use core::mem;

use super::quick::Quick;
use super::source::Batch;
use super::target::Targets;
use crate::base::{MigrateType, Order, Pfn, ZoneKind};
use crate::page::PageAllocator;
use crate::page::buddy::Placement;
use crate::page::free_area::Awaited;
use crate::page::migrate::Candidate;
use crate::page::zone::{Zone, ZoneFlag, bit};
use crate::platform::probe::Compactor;
use crate::platform::{CompactEffort, Event, Migrated, Platform};
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

    /// What is to be caught on its way to the free lists, if anything.
    fn awaited(&self) -> Option<Awaited> {
        let order = self.order.filter(|_| self.by == Compactor::Direct)?;
        Some(Awaited { order, migratetype: self.migratetype })
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
    pub(super) quick: Quick,
    pub(super) scan: Scan,
    whole_zone: bool,
    /// The pageblock out of which pages were moved last, until what went to this CPU's lists is drained.
    moved_in: Option<Pfn>,
    /// It waits for a block: no other run does in this zone.
    waits: bool,
    /// Whether the block that the run waits for was caught.
    is_served: bool,
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
        let (start, end) = zone.span();
        let block = allocator.map.pageblock_order();
        let (source, target) = if aim.ignores_hints() {
            (start, Pfn::new(end.raw().saturating_sub(1)).align_down(block))
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
            quick: Quick::default(),
            scan: Scan::default(),
            whole_zone: source == start,
            moved_in: None,
            waits: false,
            is_served: false,
        }
    }

    /// Runs to the end; the block that was caught, if one was.
    pub(super) fn run(mut self) -> (Outcome, Option<Pfn>) {
        if let Some(wanted) = self.aim.awaited() {
            let mut locked = self.allocator.lock_zone(self.zone);
            // Noted before the lock opens, which the probe hears of: it may panic.
            self.waits = locked.areas.wait_for(wanted);
        }
        let outcome = self.scan_to_end();
        let caught = self.stop_waiting();
        self.give_targets_back();
        self.report_scan();
        (if caught.is_some() { Outcome::Made } else { outcome }, caught)
    }

    /// Waits no longer; the block that came meanwhile, if one did.
    fn stop_waiting(&mut self) -> Option<Pfn> {
        mem::take(&mut self.waits).then(|| self.allocator.lock_zone(self.zone).areas.stop_waiting()).flatten()
    }

    /// Each batch ends with a pageblock passed over or a scanner moved on, so the scanners meet. Others may make the hints
    /// forgotten meanwhile; what a few looks at the whole zone did not bring, another one does not.
    fn scan_to_end(&mut self) -> Outcome {
        let (start, end) = self.zone.span();
        let mut looks_left = LOOKS_MAX * u64::from(end.raw() - start.raw());
        let mut nothing_found = self.aim.effort == CompactEffort::Async && self.zone.compaction.shares_source();
        loop {
            if let Some(outcome) = self.finished() {
                return outcome;
            }
            if self.moved_in == Some(self.block_of(self.source)) {
                self.finishing = self.moved_in;
            }
            let batch = self.next_sources();
            nothing_found &= batch.is_empty();
            if nothing_found {
                self.zone.compaction.share_source();
            }
            if !batch.is_empty() && self.move_batch(batch) == Supply::Exhausted && !self.scanners_met() {
                return Outcome::Stopped;
            }
            self.drain_once_past();
            looks_left = looks_left.saturating_sub(u64::from(self.scan.sources.max(1)));
            self.report_scan();
            if self.is_served {
                return Outcome::Made;
            }
            if looks_left == 0 {
                return Outcome::Stopped;
            }
        }
    }

    /// Whether the run is over, and how. Looked at between batches; a pageblock that was begun is finished first, so
    /// that the block that is made is as free as it can be.
    fn finished(&self) -> Option<Outcome> {
        if self.scanners_met() {
            self.zone.compaction.begin_anew();
            if self.aim.by == Compactor::Direct {
                self.zone.compaction.note_stale();
            }
            return Some(if self.whole_zone { Outcome::Complete } else { Outcome::Partial });
        }
        let Some(order) = self.aim.order else { return self.finished_proactively() };
        let at_border = self.source.is_aligned(self.pageblock_order());
        (at_border && self.offers(order)).then_some(Outcome::Made)
    }

    fn finished_proactively(&self) -> Option<Outcome> {
        if self.zone.has(ZoneFlag::ReclaimActive) {
            return Some(Outcome::Partial);
        }
        let low = self.allocator.score_marks()?.low;
        (self.allocator.zone_score(self.zone) <= low).then_some(Outcome::Made)
    }

    /// Whether the zone has a block for the request, by its own type or by claiming another's.
    fn offers(&self, order: Order) -> bool {
        let wanted = self.aim.migratetype;
        let own = bit(wanted) | if wanted == MigrateType::Movable { bit(MigrateType::Cma) } else { 0 };
        let grouping = self.allocator.grouping();
        let claimable = |at: Order| {
            let others = fallback::order_of_attempts(wanted).iter().fold(0, |types, &other| types | bit(other));
            let types = if fallback::is_claimable(at, wanted, self.pageblock_order(), grouping) { others } else { 0 };
            self.zone.has_block_at(at, own | types)
        };
        order.to(Order::MAX).any(claimable)
    }

    fn scanners_met(&self) -> bool {
        self.block_of(self.target) <= self.block_of(self.source)
    }

    /// Moves what a batch holds, as far as targets can be had, and gives the old places to the zone.
    fn move_batch(&mut self, mut batch: Batch) -> Supply {
        let block = self.block_of(Pfn::new(self.source.raw() - 1));
        let (mut pages_left, mut supply, found) = (batch.pages(), Supply::Enough, batch.len());
        batch.retain(|candidate| {
            let order = candidate.word.order();
            let Some(to) = self.take_target(order, pages_left) else {
                supply = Supply::Exhausted;
                return false;
            };
            pages_left -= order.pages();
            self.move_one(candidate, to)
        });
        self.moved_in = Some(block);
        if batch.len() < found {
            self.finish_block(block);
        }
        self.free_sources(batch);
        supply
    }

    /// Some page of a block stays. The rest of the block is scanned nevertheless: then the hint to pass it over is true,
    /// and a quick search does not come back to it again and again.
    fn finish_block(&mut self, block: Pfn) {
        let is_begun = !self.source.is_aligned(self.pageblock_order());
        if is_begun && !self.aim.ignores_hints() && self.finishing.replace(block) != Some(block) {
            // The block will not be whole, drained or not.
            let is_lost = self.aim.order == Some(self.pageblock_order());
            self.moved_in = self.moved_in.filter(|_| !is_lost);
        }
    }

    /// Moves one block; says whether its old place is free now.
    fn move_one(&mut self, candidate: Candidate, to: Pfn) -> bool {
        let map = &self.allocator.map;
        let order = candidate.word.order();
        map.frame(to).set(candidate.word);
        let (left_over, answer) = self.allocator.move_block(candidate, to, self.aim.effort);
        match (answer, left_over) {
            (Migrated::Moved, left_over) => left_over.is_some(),
            (Migrated::Refused, Some(to)) => {
                self.targets.put(map, to, order);
                false
            }
            (Migrated::Refused, None) => false,
        }
    }

    /// Gives the old places of moved blocks to the zone, under one hold of its lock.
    fn free_sources(&mut self, mut batch: Batch) {
        let allocator = self.allocator;
        batch.retain(|Candidate { pfn, .. }| {
            let word = allocator.map.frame(pfn).word();
            if word.is_poisoned() {
                allocator.free_claimed(pfn, word.order());
            }
            !word.is_poisoned()
        });
        let mut locked = allocator.lock_zone(self.zone);
        for Candidate { pfn, word } in batch.iter() {
            let migratetype = locked.map.pageblock(pfn).migratetype();
            locked.free_block(pfn, word.order(), migratetype, Placement::ByMergeLikelihood);
        }
        self.is_served = self.waits && locked.areas.has_caught();
    }

    /// Drains this CPU's lists once the scanner is past the place that pages were moved out of: they may hold what the
    /// wanted block still lacks.
    fn drain_once_past(&mut self) {
        let Some(order) = self.aim.order else { return };
        if self.moved_in.is_some_and(|block| block < self.source.align_down(order)) {
            self.allocator.drain_pcp(self.allocator.platform.cpu(), self.zone);
            self.is_served = self.waits && self.allocator.lock_zone(self.zone).areas.has_caught();
            self.moved_in = None;
        }
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

    pub(super) fn block_of(&self, pfn: Pfn) -> Pfn {
        pfn.align_down(self.pageblock_order())
    }
}

/// A run that a panic of the platform's ended waits for nothing: what it had in hand is lost, and no more.
impl<P: Platform> Drop for Run<'_, '_, P> {
    fn drop(&mut self) {
        if self.waits {
            // Without a word to the probe, whose panic this may be.
            self.zone.areas.lock().stop_waiting();
        }
    }
}

/// Whether there were targets for all of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Supply {
    Enough,
    Exhausted,
}
