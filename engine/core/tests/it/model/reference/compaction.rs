//! Compaction: rule 10, frame by frame. Predicts every block that the platform is asked to move, and its target.

use std::collections::VecDeque;

use freehold::base::{MigrateType, Order, Pfn, ZoneKind};
use freehold::platform::{CompactEffort, Migrated};
use freehold::policy::compaction::{AfterDeferral, CmaRoom};
use freehold::policy::flags::AllocFlags;

use super::map::AllocatedBlock;
use super::path::Request;
use super::{Call, Reference};

use CompactEffort::{Async, SyncFull, SyncLight};

/// Result of compaction, in ascending order of success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ended {
    Skipped,
    Deferred,
    Failed,
    Made,
}

/// Result of a run in one zone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Skipped,
    Made,
    Met,
    Stopped,
}

/// Purpose of a run.
#[derive(Clone, Copy)]
pub(crate) struct Aim {
    /// Wanted order, or `None` if the zone as a whole is to become less fragmented.
    pub order: Option<u8>,
    pub migratetype: MigrateType,
    pub highest: ZoneKind,
    pub flags: AllocFlags,
    pub effort: CompactEffort,
    pub is_direct: bool,
}

impl Aim {
    fn of_kcompactd(order: Option<u8>, highest: ZoneKind) -> Aim {
        let (migratetype, flags) = (MigrateType::Unmovable, AllocFlags::empty());
        Aim { order, migratetype, highest, flags, effort: SyncLight, is_direct: false }
    }

    pub(crate) fn ignores_hints(&self) -> bool {
        self.effort == SyncFull || self.order.is_none()
    }

    /// Returns whether the run gives up a block of sources at the first page that cannot move.
    pub(crate) fn is_optimistic(&self) -> bool {
        self.is_direct && self.effort == Async
    }
}

/// A run in progress.
pub(crate) struct Run {
    pub zone: usize,
    pub aim: Aim,
    /// Wanted order, or else the order of a pageblock.
    pub limit: u8,
    pub source: u32,
    pub target: u32,
    /// Isolated free blocks by order, first in, first out.
    pub hand: [VecDeque<u32>; 11],
    pub finishing: Option<u32>,
    pub quick_failures: u32,
    pub quick_start: Option<u32>,
    pub went_back: bool,
    pub quick_order: Option<u8>,
    pub moved_in: Option<u32>,
}

impl Run {
    pub(crate) fn pages(&self) -> u32 {
        self.hand.iter().enumerate().map(|(order, blocks)| (blocks.len() as u32) << order).sum()
    }

    /// Returns the maximum number of blocks on free lists that a quick search looks at.
    pub(crate) fn quick_limit(&self) -> u32 {
        (32 >> self.quick_failures.min(31)) + 1
    }

    pub(crate) fn waits(&self) -> bool {
        self.aim.effort != Async
    }
}

impl Reference {
    /// Compacts on behalf of a request.
    pub(crate) fn compact(
        &mut self,
        request: Request,
        flags: AllocFlags,
        effort: CompactEffort,
    ) -> (Option<u32>, Ended) {
        let (caught, ended) = self.compact_zones(request, flags, effort);
        let leaves = self.rules.compaction.deferred == AfterDeferral::Leave;
        if ended == Ended::Skipped || leaves && ended == Ended::Deferred {
            return (None, ended);
        }
        let pfn = caught.or_else(|| self.walk(request, flags));
        self.tally.compact_stall += 1;
        if let Some(pfn) = pfn {
            self.tally.compact_success += 1;
            let zone = self.map.zone(pfn).expect("the block is in a zone");
            self.zones[zone].memory.stale = false;
            self.zones[zone].memory.serve(request.order);
        }
        (pfn, ended)
    }

    fn compact_zones(&mut self, request: Request, flags: AllocFlags, effort: CompactEffort) -> (Option<u32>, Ended) {
        let Request { order, migratetype, highest, .. } = request;
        let aim = Aim { order: Some(order), migratetype, highest, flags, effort, is_direct: true };
        let mut best = Ended::Skipped;
        for zone in self.zones_for(request) {
            if effort != SyncFull && self.zones[zone].memory.is_deferred(order) {
                best = best.max(Ended::Deferred);
                continue;
            }
            let (outcome, caught) = self.compact_zone(zone, aim);
            match outcome {
                Outcome::Skipped => {}
                Outcome::Made => {
                    self.zones[zone].memory.succeed(order);
                    return (caught, Ended::Made);
                }
                Outcome::Met => {
                    best = best.max(Ended::Failed);
                    if effort != Async {
                        self.zones[zone].memory.defer(order);
                    }
                }
                Outcome::Stopped => best = best.max(Ended::Failed),
            }
        }
        (None, best)
    }

    /// Runs kcompactd's compaction for a request that woke it.
    pub(crate) fn compact_node_for(&mut self, node: u8, order: u8, highest: ZoneKind) {
        for zone in self.zones_of(node, highest) {
            if self.zones[zone].memory.is_deferred(order) {
                continue;
            }
            let aim = Aim::of_kcompactd(Some(order), self.zones[zone].kind);
            match self.compact_zone(zone, aim).0 {
                Outcome::Made => self.zones[zone].memory.succeed(order),
                Outcome::Met => {
                    (0..self.lists.len()).for_each(|cpu| self.drain_pages_zone(cpu, zone));
                    self.zones[zone].memory.defer(order);
                }
                Outcome::Skipped | Outcome::Stopped => {}
            }
        }
    }

    /// Runs kcompactd's proactive compaction.
    pub(crate) fn compact_node_unasked(&mut self, node: u8) {
        for zone in self.zones_of(node, ZoneKind::Movable) {
            self.compact_zone(zone, Aim::of_kcompactd(None, ZoneKind::Movable));
        }
    }

    fn compact_zone(&mut self, zone: usize, aim: Aim) -> (Outcome, Option<u32>) {
        if let Some(order) = aim.order {
            let must_have_own_room = self.rules.compaction.cma == CmaRoom::Apart
                && aim.is_optimistic()
                && order > 3
                && !aim.flags.contains(AllocFlags::CMA);
            let aside = if must_have_own_room { AllocFlags::empty() } else { AllocFlags::CMA };
            let zone = &mut self.zones[zone];
            match zone.needs_no_compaction(&mut self.map, order, aim.highest, aim.flags, aside) {
                Some(true) => return (Outcome::Made, None),
                Some(false) => return (Outcome::Skipped, None),
                None => {}
            }
        }
        let (start, last) = (self.zones[zone].span.start, self.block_of(self.zones[zone].span.end - 1));
        let memory = &self.zones[zone].memory;
        let waits = aim.effort != Async;
        let (mut source, mut target) = (start, last);
        if !aim.ignores_hints() {
            source =
                memory.sources[usize::from(waits)].filter(|pfn| self.zones[zone].span.contains(pfn)).unwrap_or(start);
            target = memory.targets.filter(|pfn| self.zones[zone].span.contains(pfn)).unwrap_or(last);
        }
        let mut run = Run {
            zone,
            aim,
            limit: aim.order.unwrap_or(self.map.block),
            source,
            target,
            hand: Default::default(),
            finishing: None,
            quick_failures: 0,
            quick_start: None,
            went_back: false,
            quick_order: None,
            moved_in: None,
        };
        let outcome = self.run(&mut run);
        let caught = self.zones[zone].caught.take();
        self.return_hand(&mut run);
        (if caught.is_some() { Outcome::Made } else { outcome }, caught)
    }

    fn run(&mut self, run: &mut Run) -> Outcome {
        let memory = &self.zones[run.zone].memory;
        let mut nothing_found = run.aim.effort == Async && memory.sources[0] == memory.sources[1];
        loop {
            if let Some(outcome) = self.is_over(run) {
                return outcome;
            }
            if run.moved_in == Some(self.block_of(run.source)) {
                run.finishing = run.moved_in;
            }
            let batch = self.next_batch(run);
            nothing_found &= batch.is_empty();
            if nothing_found {
                let memory = &mut self.zones[run.zone].memory;
                memory.sources[1] = memory.sources[0];
            }
            if !batch.is_empty() && !self.move_batch(run, batch) && !self.have_met(run) {
                return Outcome::Stopped;
            }
            self.drain_once_past(run);
            if self.zones[run.zone].caught.is_some() {
                return Outcome::Made;
            }
        }
    }

    fn have_met(&self, run: &Run) -> bool {
        run.target >> self.map.block <= run.source >> self.map.block
    }

    fn is_over(&mut self, run: &Run) -> Option<Outcome> {
        if self.have_met(run) {
            let memory = &mut self.zones[run.zone].memory;
            memory.begin_anew();
            memory.stale |= run.aim.is_direct;
            return Some(Outcome::Met);
        }
        let zone = &self.zones[run.zone];
        let made = match run.aim.order {
            Some(order) => {
                let at_border = run.source.is_multiple_of(1 << self.map.block);
                at_border && zone.offers(&self.map, order, run.aim.migratetype, self.grouping_off)
            }
            None if zone.reclaim_active => return Some(Outcome::Met),
            None => zone.unusable(self.map.block) <= 80,
        };
        made.then_some(Outcome::Made)
    }

    pub(crate) fn block_of(&self, pfn: u32) -> u32 {
        pfn >> self.map.block << self.map.block
    }

    /// Moves a batch. Returns `false` if there were too few targets.
    fn move_batch(&mut self, run: &mut Run, batch: Vec<(u32, AllocatedBlock)>) -> bool {
        let block = self.block_of(run.source - 1);
        let (mut left, mut enough, count) =
            (batch.iter().map(|(_, held)| 1 << held.order).sum::<u32>(), true, batch.len());
        let mut moved = Vec::new();
        for (pfn, held) in batch {
            let Some(to) = self.take_target(run, held.order, left) else {
                enough = false;
                break;
            };
            left -= 1 << held.order;
            if self.move_one(pfn, to, held, run.aim.effort) {
                moved.push((pfn, held.order));
            } else {
                run.hand[usize::from(held.order)].push_back(to);
            }
        }
        run.moved_in = Some(block);
        let is_begun = !run.source.is_multiple_of(1 << self.map.block);
        if moved.len() < count && is_begun && !run.aim.ignores_hints() && run.finishing != Some(block) {
            run.finishing = Some(block);
            if run.aim.order == Some(self.map.block) {
                run.moved_in = None;
            }
        }
        self.await_block(run);
        moved.into_iter().for_each(|(pfn, order)| self.free(pfn, order));
        self.zones[run.zone].awaited = None;
        enough
    }

    /// Records the block for which the run waits. A block that is freed from now on may be captured for it.
    fn await_block(&mut self, run: &Run) {
        let zone = &mut self.zones[run.zone];
        let wanted = run.aim.order.filter(|_| run.aim.is_direct && zone.caught.is_none());
        zone.awaited = wanted.map(|order| (order, run.aim.migratetype));
    }

    fn move_one(&mut self, from: u32, to: u32, held: AllocatedBlock, effort: CompactEffort) -> bool {
        let asked = (Pfn::new(from), Pfn::new(to), Order::new(held.order), effort);
        let Some(Call::Migrate(found, answer)) = self.next_call("migrate") else { return false };
        if found != asked {
            self.part(format!("migration {found:?}, expected {asked:?}"));
        }
        if answer == Migrated::Refused {
            self.tally.migrations_refused += 1;
            return false;
        }
        self.tally.migrations += 1;
        self.map.unhold(from);
        self.map.hold(to, held);
        true
    }

    fn drain_once_past(&mut self, run: &mut Run) {
        let Some(order) = run.aim.order else { return };
        let Some(block) = run.moved_in.filter(|&block| block < run.source >> order << order) else { return };
        self.await_block(run);
        self.drain_pages_zone(self.cpu, run.zone);
        self.zones[run.zone].awaited = None;
        // Pages that were moved out of an owned pageblock were freed to their owner's lists or stack.
        if let Some(owner) = self.map.owner(block) {
            self.await_block(run);
            self.drain_pages_zone(owner, run.zone);
            self.zones[run.zone].awaited = None;
        }
        run.moved_in = None;
    }

    fn return_hand(&mut self, run: &mut Run) {
        let mut highest = None;
        for order in 0..=10_u8 {
            while let Some(pfn) = run.hand[usize::from(order)].pop_front() {
                let migratetype = self.map.type_of(pfn);
                self.zones[run.zone].free_one(&mut self.map, pfn, order, migratetype, false);
                highest = highest.max(Some(pfn));
            }
        }
        let memory = &mut self.zones[run.zone].memory;
        if let (Some(now), Some(pfn)) = (memory.targets, highest) {
            memory.targets = Some(now.max(pfn >> self.map.block << self.map.block));
        }
    }
}
