//! Pairing of frees with allocations, and the reasons for unpaired events.
//!
//! Some operations of the kernel have no `mm_page_alloc` event although their pages are freed with one: bulk
//! allocations, targets of compaction and contiguous ranges. An order-9 page may also be freed as 512 single pages. A
//! free is therefore looked up first by its frame, and then by the larger live blocks around the frame. A free without
//! a match gets the most specific reason that the history of the frame supports.

use std::collections::VecDeque;

use freehold_trace::Row;
use serde::Serialize;

use super::frames::{Frame, Frames, State};
use super::lifetimes::{LifetimeRow, Lifetimes, ORDERS, order_index, share};
use super::oddity::{Oddity, OddityRow};
use super::start::{Holder, StartState};

/// Largest order whose frames are all tracked. Of a larger block only the head is known; no Linux kernel allocates such
/// blocks from its free lists.
const ORDER_MAX: u8 = 13;

/// Result of the pairing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairingReport {
    /// Allocations that succeeded.
    pub allocations: u64,
    /// Frees.
    pub frees: u64,
    /// Frees that were paired with their allocation.
    pub paired: u64,
    /// Paired frees on another CPU than that of the allocation.
    pub freed_on_another_cpu: u64,
    /// `freed_on_another_cpu` divided by `paired`.
    pub freed_on_another_cpu_share: f64,
    /// Oddities: unpaired events and events paired in an unusual way.
    pub unmatched: Vec<OddityRow>,
}

/// Phase of the task of an event: whether the task is between the begin and the end of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The task is not compacting.
    Ordinary,
    /// The task is compacting.
    Compacting,
}

/// Collector that pairs frees with allocations.
#[derive(Debug)]
pub(crate) struct Pairing {
    frames: Frames,
    start: StartState,
    lifetimes: Lifetimes,
    /// Time and CPU of the allocation of contents that compaction moved to unknown pages, by order, the oldest move
    /// first; `None` for an allocation before the recording.
    migrated: Vec<VecDeque<Option<(u64, u16)>>>,
    allocations: u64,
    frees: u64,
    paired: u64,
    cross_cpu: u64,
    odd: [u64; Oddity::ALL.len()],
}

impl Pairing {
    /// Creates an empty collector.
    pub(crate) fn new() -> Pairing {
        Pairing {
            frames: Frames::default(),
            start: StartState::default(),
            lifetimes: Lifetimes::new(),
            migrated: vec![VecDeque::new(); ORDERS],
            allocations: 0,
            frees: 0,
            paired: 0,
            cross_cpu: 0,
            odd: [0; Oddity::ALL.len()],
        }
    }

    /// Adds a row of the start state.
    pub(crate) fn observe_start(&mut self, row: &Row) {
        self.start.observe(row);
    }

    /// Adds a successful allocation.
    #[inline]
    pub(crate) fn allocated(&mut self, row: &Row) {
        self.allocations += 1;
        let covered = self.cover_parts(row);
        self.odd[Oddity::AllocatedWhileLive as usize] += covered;
        let frame = self.frames.get_mut(row.pfn);
        if frame.is_live() {
            self.odd[Oddity::AllocatedWhileLive as usize] += 1;
        }
        *frame = Frame { time: row.time, cpu: row.cpu, order: row.order, state: State::Live };
    }

    /// Adds a block that left the zone's free lists for a per-CPU list or a request.
    #[inline]
    pub(crate) fn left_zone(&mut self, row: &Row) {
        let frame = self.frames.get_mut(row.pfn);
        if !frame.is_live() {
            frame.state = State::Taken;
        }
    }

    /// Adds a block that was drained from a per-CPU list to the zone.
    #[inline]
    pub(crate) fn drained(&mut self, row: &Row) {
        let frame = self.frames.get_mut(row.pfn);
        if !frame.is_live() {
            frame.state = State::InZone;
        }
    }

    /// Adds a free.
    #[inline]
    pub(crate) fn freed(&mut self, row: &Row, phase: Phase) {
        self.frees += 1;
        let frame = self.frames.get(row.pfn);
        if frame.is_live() && frame.order == row.order {
            self.end_life(row, frame, phase);
        } else {
            self.freed_oddly(row, frame, phase);
        }
        let after = self.frames.get_mut(row.pfn);
        after.order = row.order;
        after.state = if fits_per_cpu_list(row.order) { State::Freed } else { State::InZone };
    }

    /// Returns the results, after all rows were added.
    pub(crate) fn report(mut self) -> (PairingReport, Vec<LifetimeRow>) {
        for frame in self.frames.live() {
            self.lifetimes.survived(frame.order);
        }
        for (order, queue) in self.migrated.iter().enumerate() {
            queue.iter().flatten().for_each(|_| self.lifetimes.survived(order as u8));
        }
        let unmatched = Oddity::ALL.map(|oddity| OddityRow {
            name: oddity.name(),
            why: oddity.why(),
            events: self.odd[oddity as usize],
            share: match oddity {
                Oddity::AllocatedWhileLive => share(self.odd[oddity as usize], self.allocations),
                _ => share(self.odd[oddity as usize], self.frees),
            },
        });
        let report = PairingReport {
            allocations: self.allocations,
            frees: self.frees,
            paired: self.paired,
            freed_on_another_cpu: self.cross_cpu,
            freed_on_another_cpu_share: share(self.cross_cpu, self.paired),
            unmatched: unmatched.into(),
        };
        (report, self.lifetimes.rows())
    }

    /// Ends the life of the block at `frame`. If a compacting task frees the block, its contents were migrated instead,
    /// and their allocation is queued for the migration target.
    #[inline]
    fn end_life(&mut self, row: &Row, frame: Frame, phase: Phase) {
        if frame.state == State::LivePart {
            self.odd[Oddity::SplitPart as usize] += 1;
        }
        if phase == Phase::Compacting {
            self.odd[Oddity::MigrationSource as usize] += 1;
            self.migrated[order_index(row.order)].push_back(Some((frame.time, frame.cpu)));
        } else {
            self.pair(row, frame.time, frame.cpu);
        }
    }

    #[inline]
    fn pair(&mut self, row: &Row, allocated_at: u64, allocated_on: u16) {
        self.paired += 1;
        self.cross_cpu += u64::from(allocated_on != row.cpu);
        self.lifetimes.died(row.order, row.time.saturating_sub(allocated_at));
    }

    /// Handles a free that does not match a live block of its order.
    #[cold]
    fn freed_oddly(&mut self, row: &Row, frame: Frame, phase: Phase) {
        if frame.is_live() && frame.order < row.order {
            self.odd[Oddity::LargerThanAllocated as usize] += 1;
            self.cover_parts(row);
            return self.end_life(row, frame, phase);
        }
        if let Some((head, whole)) = self.live_block_around(row) {
            let piece = Frame { state: State::LivePart, ..whole };
            self.split(head, piece, row);
            return self.end_life(row, piece, phase);
        }
        let oddity = match phase {
            Phase::Compacting => self.reason_while_compacting(row, frame),
            Phase::Ordinary => self.reason(row, frame),
        };
        self.odd[oddity as usize] += 1;
        self.cover_parts(row);
    }

    /// Returns the reason why a compacting task frees a block that is not known to be live.
    fn reason_while_compacting(&mut self, row: &Row, frame: Frame) -> Oddity {
        if frame.state == State::Untouched && self.start.holder(row.pfn) == Holder::Allocated {
            self.migrated[order_index(row.order)].push_back(None);
            Oddity::MigrationSource
        } else {
            Oddity::CompactionReturn
        }
    }

    /// Returns the reason why a free has no allocation, from the history of the frame.
    fn reason(&mut self, row: &Row, frame: Frame) -> Oddity {
        match frame.state {
            State::Freed | State::Taken | State::Live | State::LivePart => {
                return Oddity::BulkAllocation;
            }
            State::InZone => {}
            State::Untouched => match self.start.holder(row.pfn) {
                Holder::Allocated => return Oddity::OlderThanRecording,
                Holder::Balloon => return Oddity::FromBalloon,
                Holder::Unknown => return Oddity::UnknownAtStart,
                Holder::Free => {}
            },
        }
        match self.migrated[order_index(row.order)].pop_front() {
            Some(contents) => {
                if let Some((time, cpu)) = contents {
                    self.pair(row, time, cpu);
                }
                Oddity::MigrationTarget
            }
            None => Oddity::TakenWithoutEvent,
        }
    }

    /// Returns the live block that contains the freed block, and its head.
    fn live_block_around(&self, row: &Row) -> Option<(u64, Frame)> {
        (row.order + 1..=ORDER_MAX).find_map(|order| {
            let head = row.pfn >> order << order;
            let frame = self.frames.get(head);
            (frame.is_live() && frame.order >= order && frame.order <= ORDER_MAX).then_some((head, frame))
        })
    }

    /// Splits the live block at `head` in halves until the freed part is separate. The other halves stay live as parts.
    fn split(&mut self, head: u64, whole: Frame, part: &Row) {
        let mut start = head;
        for order in (part.order..whole.order).rev() {
            let middle = start + (1 << order);
            let other = if part.pfn >= middle { start } else { middle };
            *self.frames.get_mut(other) = Frame { order, ..whole };
            if part.pfn >= middle {
                start = middle;
            }
        }
    }

    /// Marks the frames after the head of the row's block as inside it. Returns the number of these frames that were
    /// live. Does nothing for blocks above [`ORDER_MAX`].
    #[inline]
    fn cover_parts(&mut self, row: &Row) -> u64 {
        if row.order == 0 || row.order > ORDER_MAX {
            return 0;
        }
        let mut live = 0;
        let end = row.pfn.saturating_add(1 << row.order);
        self.frames.visit(row.pfn.saturating_add(1), end, |frame| {
            live += u64::from(frame.is_live());
            frame.state = State::InZone;
        });
        live
    }
}

/// Returns whether freed blocks of this order go to per-CPU lists. linux: mm/page_alloc.c:pcp_allowed_order
pub(crate) fn fits_per_cpu_list(order: u8) -> bool {
    order <= 3 || order == 9
}

#[cfg(test)]
mod tests {
    use freehold_trace::Kind;

    use super::*;

    /// Helper that feeds events to a pairing, one each nanosecond.
    struct Script {
        pairing: Pairing,
        now: u64,
    }

    impl Script {
        fn new() -> Script {
            Script { pairing: Pairing::new(), now: 0 }
        }

        fn row(&mut self, kind: Kind, pfn: u64, order: u8, cpu: u16) -> Row {
            self.now += 1;
            Row { time: self.now, pfn, order, cpu, ..Row::new(kind) }
        }

        fn alloc(mut self, pfn: u64, order: u8, cpu: u16) -> Script {
            let row = self.row(Kind::Alloc, pfn, order, cpu);
            self.pairing.allocated(&row);
            self
        }

        fn free(self, pfn: u64, order: u8, cpu: u16) -> Script {
            self.free_in(Phase::Ordinary, pfn, order, cpu)
        }

        fn free_in(mut self, phase: Phase, pfn: u64, order: u8, cpu: u16) -> Script {
            let row = self.row(Kind::Free, pfn, order, cpu);
            self.pairing.freed(&row, phase);
            self
        }

        fn drain(mut self, pfn: u64) -> Script {
            let row = self.row(Kind::PcpuDrain, pfn, 0, 0);
            self.pairing.drained(&row);
            self
        }

        fn held_at_start(mut self, kind: Kind, pfn: u64) -> Script {
            self.pairing.observe_start(&Row { pfn, args: [1, 0, 0], ..Row::new(kind) });
            self
        }

        fn report(self) -> (PairingReport, Vec<LifetimeRow>) {
            self.pairing.report()
        }
    }

    fn odd(report: &PairingReport) -> Vec<(&'static str, u64)> {
        report.unmatched.iter().filter(|row| row.events > 0).map(|row| (row.name, row.events)).collect()
    }

    #[test]
    fn free_is_paired_with_its_allocation_and_cpu() {
        let (report, lives) = Script::new().alloc(5, 0, 0).alloc(6, 0, 1).free(5, 0, 0).free(6, 0, 0).report();
        assert_eq!((report.paired, report.freed_on_another_cpu), (2, 1));
        assert_eq!((lives[0].freed, lives[0].median_ns), (2, 2));
        assert_eq!(odd(&report), []);
    }

    #[test]
    fn start_state_pages_are_freed_once_as_older() {
        let (report, _) = Script::new()
            .held_at_start(Kind::StartAllocated, 7)
            .held_at_start(Kind::StartUnknown, 9)
            .free(7, 0, 0)
            .free(7, 0, 0)
            .free(9, 0, 0)
            .report();
        assert_eq!(
            odd(&report),
            [("free_older_than_recording", 1), ("free_unknown_at_start", 1), ("free_of_bulk_allocation", 1)]
        );
    }

    #[test]
    fn huge_page_freed_in_single_pages_is_paired() {
        let mut script = Script::new().alloc(512, 9, 0);
        for pfn in 512..1024 {
            script = script.free(pfn, 0, 1);
        }
        let (report, lives) = script.report();
        assert_eq!((report.paired, report.freed_on_another_cpu), (512, 512));
        assert_eq!(odd(&report), [("free_of_split_part", 512)]);
        assert!(lives.iter().all(|row| row.live_at_end == 0));
    }

    #[test]
    fn partial_free_of_tails_keeps_the_head_alive() {
        let (report, lives) = Script::new().alloc(8, 2, 0).free(10, 1, 0).free(9, 0, 0).report();
        assert_eq!(odd(&report), [("free_of_split_part", 2)]);
        assert_eq!((lives[0].freed, lives[0].live_at_end), (1, 1));
    }

    #[test]
    fn compaction_moves_a_life() {
        let (report, lives) = Script::new()
            .alloc(5, 0, 0)
            .free_in(Phase::Compacting, 5, 0, 1)
            .free_in(Phase::Compacting, 80, 0, 1)
            .free(90, 0, 0)
            .report();
        assert_eq!(
            odd(&report),
            [("free_of_migration_source", 1), ("free_of_migration_target", 1), ("free_of_unused_target", 1)]
        );
        assert_eq!((lives[0].freed, lives[0].live_at_end, report.paired), (1, 0, 1));
    }

    #[test]
    fn silently_reallocated_page_is_not_counted_as_bulk() {
        let (report, _) = Script::new().alloc(5, 0, 0).free(5, 0, 0).drain(5).free(5, 0, 0).report();
        assert_eq!(odd(&report), [("free_after_silent_taking", 1)]);
    }

    #[test]
    fn allocation_over_live_pages_is_counted() {
        let (report, _) = Script::new().alloc(9, 0, 0).alloc(8, 1, 0).alloc(8, 1, 0).report();
        assert_eq!(odd(&report), [("allocation_while_live", 2)]);
    }

    #[test]
    fn larger_free_ends_all_parts() {
        let (report, lives) = Script::new().alloc(8, 0, 0).alloc(9, 0, 0).free(8, 1, 0).report();
        assert_eq!(odd(&report), [("free_larger_than_allocated", 1)]);
        assert!(lives.iter().all(|row| row.live_at_end == 0));
    }

    #[test]
    fn extreme_orders_never_panic() {
        let (report, _) = Script::new().alloc(0, 63, 0).free(1, 0, 0).free(0, 63, 0).report();
        assert_eq!(report.paired, 1);
    }
}
