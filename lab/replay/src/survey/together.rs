//! Single pages that are freed together: ranges, and areas of pages that were allocated in bulk.
//!
//! A recording shows the free of such pages one by one, however the kernel freed them. Kernels before 7.2 put each page
//! on a per-CPU list, and later kernels free the largest blocks that fit. A replay must therefore determine which frees
//! belong together. They are consecutive frees of one task on one CPU, of consecutive frames, under one of these
//! conditions:
//!
//! - All frames are parts of blocks, which are now freed in single pages.
//! - No frame was allocated as a single page or was page cache when the recording started, and there are more frames
//!   than the kernel frees folios in one batch. If some frames may be targets of migrations, which are also allocated
//!   without an event, there must be more frames than a pageblock holds.
//!
//! linux: mm/page_alloc.c:free_contig_range, free_pages_bulk (since 7.2); mm/swap.c:folios_put_refs
//!
//! # Design
//!
//! The replay gives such pages to the engine in one call, so that the policy decides how they are freed. Under a kernel
//! that frees them as blocks they are on no per-CPU list. A range that was allocated without an event is also known
//! from its frees. It is taken from the free lists when the kernel moved other pages out of its way.

use std::ops::Range;

use freehold::base::zeroed::Zeroed;
use freehold::base::{Gfp, Order, Pfn};
use freehold_trace::event::NO_PFN;
use freehold_trace::{Kind, Row};

/// Value of `args[2]` for migrations that empty a range. linux: include/linux/migrate_mode.h:MR_CONTIG_RANGE
pub(crate) const FOR_A_RANGE: i64 = 6;

/// Folios that the kernel frees in one batch. linux: include/linux/pagevec.h:PAGEVEC_SIZE
const FOLIOS_IN_A_BATCH: u32 = 31;

/// Pages that were freed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Together {
    /// Row of the first free.
    pub(crate) row: u64,
    /// First frame.
    pub(crate) pfn: u32,
    /// Number of consecutive pages.
    pub(crate) pages: u32,
    /// CPU that freed the pages.
    pub(crate) cpu: u16,
    /// Kind of their allocation, if it had no event.
    pub(crate) origin: Origin,
}

/// Place from which pages without an allocation event were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The free lists: the pages are a range.
    Range,
    /// Per-CPU lists, at least for some pages that had refilled such a list: the pages were allocated in bulk.
    Bulk,
}

impl Together {
    /// Returns the frames.
    pub(crate) fn frames(self) -> Range<usize> {
        self.pfn as usize..(self.pfn + self.pages) as usize
    }

    /// Returns the largest blocks that fit: the first frame and the order of each. linux:
    /// mm/page_alloc.c:free_prepared_contig_range
    pub(crate) fn blocks(self) -> impl Iterator<Item = (Pfn, Order)> {
        Pfn::new(self.pfn).blocks_up_to(Pfn::new(self.pfn + self.pages), Order::MAX)
    }
}

/// A run of frees that may continue.
#[derive(Clone, Copy, Debug)]
struct OpenRun {
    first: Together,
    task: u32,
    /// Whether every frame is part of a block that was allocated as one.
    is_of_blocks: bool,
    /// Whether some frame was allocated as a single page.
    has_singles: bool,
    /// Whether some frame may have been the target of a migration.
    has_targets: bool,
    /// Pages that are known to have gone to a per-CPU list already.
    listed: u64,
}

impl OpenRun {
    fn goes_on_with(&self, page: &OpenRun) -> bool {
        self.task == page.task && self.first.frames().end == page.first.pfn as usize
    }

    fn take(&mut self, page: OpenRun) {
        self.first.pages += 1;
        self.is_of_blocks &= page.is_of_blocks;
        self.has_singles |= page.has_singles;
        self.has_targets |= page.has_targets;
        if page.first.origin == Origin::Bulk {
            self.first.origin = Origin::Bulk;
        }
    }
}

/// Bitmap over frames.
#[derive(Debug)]
struct Bits {
    words: Zeroed<u64>,
    /// Whether any bit was ever set.
    was_set: bool,
}

impl Bits {
    fn new(end: usize) -> Bits {
        Bits { words: Zeroed::sparse(end.div_ceil(64)), was_set: false }
    }

    fn is_set(&self, frame: usize) -> bool {
        self.words.get(frame / 64).is_some_and(|word| word >> (frame % 64) & 1 == 1)
    }

    fn set(&mut self, frames: Range<usize>) {
        self.was_set = true;
        self.change_bits(frames, |word, bit| *word |= bit);
    }

    fn clear(&mut self, frames: Range<usize>) {
        if self.was_set {
            self.change_bits(frames, |word, bit| *word &= !bit);
        }
    }

    /// Changes the word of each of these frames at its bit. Frames beyond the end are skipped.
    fn change_bits(&mut self, frames: Range<usize>, mut change: impl FnMut(&mut u64, u64)) {
        let end = frames.end.min(64 * self.words.len());
        (frames.start.min(end)..end).for_each(|frame| change(&mut self.words[frame / 64], 1 << (frame % 64)));
    }

    fn count(&self, frames: Range<usize>) -> u64 {
        if self.was_set { frames.filter(|&frame| self.is_set(frame)).count() as u64 } else { 0 }
    }
}

/// Returns the frames of a block; `None` for an impossible order or a row without a frame.
fn frames(row: &Row) -> Option<Range<usize>> {
    let (order, start) = (Order::from_u8(row.order)?, usize::try_from(row.pfn).ok()?);
    (row.pfn != NO_PFN).then(|| start..start.saturating_add(order.pages() as usize))
}

/// Detection of pages that are freed together.
#[derive(Debug)]
pub(crate) struct Neighbours {
    /// Open run of each CPU.
    open: Vec<Option<OpenRun>>,
    /// Pages in a pageblock.
    pageblock: u32,
    /// Row of the last migration that was not for a range.
    migrated: u64,
    /// Frames of blocks that may be freed in parts.
    of_blocks: Bits,
    /// Frames that were allocated as single pages, and page cache of the start state.
    singles: Bits,
    /// Frames that were taken from the free lists to refill a per-CPU list.
    refilled: Bits,
    /// Number of known frames.
    end: usize,
    /// Frames that were freed together and have had no event since.
    waiting: Bits,
    /// Pages that were freed together and were later drained from a per-CPU list or allocated again from one.
    listed: u64,
}

impl Neighbours {
    /// Creates the detection for frames below `end`, without any information about them.
    pub(crate) fn new(cpus: u16, end: usize, pageblock_order: Order) -> Neighbours {
        Neighbours {
            open: vec![None; usize::from(cpus)],
            pageblock: pageblock_order.pages(),
            migrated: 0,
            of_blocks: Bits::new(end),
            singles: Bits::new(end),
            refilled: Bits::new(end),
            end,
            waiting: Bits::new(end),
            listed: 0,
        }
    }

    /// Marks frames that belonged to users, or were page cache, when the recording started.
    pub(crate) fn start_with_users(&mut self, frames: Range<usize>) {
        self.singles.set(frames);
    }

    /// Handles the next row. Returns the pages that were freed together, if the run ends with this row. `silent` is the
    /// row of the last event on the frame that the row frees, if that frame was allocated silently since.
    #[inline]
    pub(crate) fn observe(&mut self, number: u64, row: &Row, silent: Option<u64>) -> Option<Together> {
        match row.kind {
            Kind::Free => {
                let ended = if row.order == 0 { self.freed(number, row, silent) } else { self.end(row.cpu) };
                self.forget(row);
                ended
            }
            Kind::PcpuDrain => {
                self.drained(row);
                None
            }
            Kind::ZoneLocked => {
                if let Some(frames) = frames(row) {
                    self.waiting.clear(frames.clone());
                    self.refilled.set(frames);
                }
                self.end(row.cpu)
            }
            Kind::Alloc => {
                let ended = self.end(row.cpu);
                self.allocated(row);
                ended
            }
            Kind::MigratePages if row.args[2] != FOR_A_RANGE => {
                self.migrated = number;
                self.end(row.cpu)
            }
            kind if kind.is_observation() => None,
            _ => self.end(row.cpu),
        }
    }

    /// Handles a drained block. A drain does not end a run, since a full list gives pages back while others are still
    /// being freed.
    fn drained(&mut self, row: &Row) {
        let Some(frames) = frames(row) else { return };
        self.left_list(frames.clone());
        self.refilled.clear(frames.clone());
        if let Some(open) = self.open.get_mut(usize::from(row.cpu)).and_then(Option::as_mut) {
            open.listed += frames.filter(|frame| open.first.frames().contains(frame)).count() as u64;
        }
    }

    fn allocated(&mut self, row: &Row) {
        let Some(frames) = frames(row) else { return };
        self.left_list(frames.clone());
        let is_compound = Gfp::from_bits_retain(row.gfp).contains(Gfp::COMP);
        let (parts, singles) = (&mut self.of_blocks, &mut self.singles);
        match row.order {
            0 => (parts.clear(frames.clone()), singles.set(frames)),
            // A compound block is freed as it was allocated.
            _ if is_compound => (parts.clear(frames.clone()), singles.clear(frames)),
            _ => (parts.set(frames.clone()), singles.clear(frames)),
        };
    }

    /// Handles frames that leave a per-CPU list. If they were freed together, they had gone to that list.
    fn left_list(&mut self, frames: Range<usize>) {
        self.listed += self.waiting.count(frames.clone());
        self.waiting.clear(frames);
    }

    /// Handles a free by reclaim or compaction, which is no part of a range. Returns the pages that were freed
    /// together, if a run ends here.
    pub(crate) fn freed_for_memory(&mut self, row: &Row) -> Option<Together> {
        self.forget(row);
        self.end(row.cpu)
    }

    /// Clears the information about a block's frames, since it does not apply to their next allocation, which may be
    /// silent.
    fn forget(&mut self, row: &Row) {
        if let Some(frames) = frames(row) {
            let known = [&mut self.of_blocks, &mut self.singles, &mut self.refilled, &mut self.waiting];
            known.into_iter().for_each(|bits| bits.clear(frames.clone()));
        }
    }

    fn freed(&mut self, number: u64, row: &Row, silent: Option<u64>) -> Option<Together> {
        let frame = usize::try_from(row.pfn).ok().filter(|&frame| frame < self.end);
        let Some(frame) = frame else { return self.end(row.cpu) };
        let origin = if self.refilled.is_set(frame) { Origin::Bulk } else { Origin::Range };
        let page = OpenRun {
            first: Together { row: number, pfn: frame as u32, pages: 1, cpu: row.cpu, origin },
            task: row.task,
            is_of_blocks: self.of_blocks.is_set(frame),
            has_singles: self.singles.is_set(frame),
            has_targets: silent.is_some_and(|last| last < self.migrated),
            listed: 0,
        };
        if let Some(open) = self.open.get_mut(usize::from(row.cpu)).and_then(Option::as_mut)
            && open.goes_on_with(&page)
        {
            open.take(page);
            return None;
        }
        let ended = self.end(row.cpu);
        if let Some(open) = self.open.get_mut(usize::from(row.cpu)) {
            *open = Some(page);
        }
        ended
    }

    /// Ends the open run of this CPU. Returns its pages if they were freed together.
    pub(crate) fn end(&mut self, cpu: u16) -> Option<Together> {
        let open = self.open.get_mut(usize::from(cpu))?.take()?;
        let enough = if open.has_targets { self.pageblock } else { FOLIOS_IN_A_BATCH };
        let is_long = open.first.pages > enough && !open.has_singles;
        let is_block = open.first.pages > 1 && open.is_of_blocks;
        (is_long || is_block).then(|| {
            self.listed += open.listed;
            self.waiting.set(open.first.frames());
            open.first
        })
    }

    /// Ends all open runs at the end of the recording.
    pub(crate) fn end_all(&mut self) -> Vec<Together> {
        let cpus = self.open.len() as u16;
        (0..cpus).filter_map(|cpu| self.end(cpu)).collect()
    }

    /// Returns the number of pages that were freed together and were later drained from a per-CPU list or allocated
    /// again from one.
    pub(crate) fn listed(&self) -> u64 {
        self.listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: Kind, cpu: u16, pfn: u64, order: u8, gfp: Gfp) -> Row {
        Row { cpu, task: 1, pfn, order, gfp: gfp.bits(), ..Row::new(kind) }
    }

    fn free(cpu: u16, pfn: u64) -> Row {
        row(Kind::Free, cpu, pfn, 0, Gfp::empty())
    }

    fn find_ranges(rows: impl IntoIterator<Item = Row>) -> Vec<(u64, u32, u32)> {
        find_ranges_if(rows, None)
    }

    fn find_ranges_if(rows: impl IntoIterator<Item = Row>, silent: Option<u64>) -> Vec<(u64, u32, u32)> {
        let mut neighbours = Neighbours::new(2, 4096, Order::new(9));
        neighbours.start_with_users(1024..2048);
        let mut all: Vec<Together> =
            (0..).zip(rows).filter_map(|(number, row)| neighbours.observe(number, &row, silent)).collect();
        all.extend(neighbours.end_all());
        all.iter().map(|one| (one.row, one.pfn, one.pages)).collect()
    }

    #[test]
    fn long_run_of_unowned_frees_is_a_range() {
        assert_eq!(find_ranges((0..64).map(|at| free(0, 10 + at))), [(0, 10, 64)]);
        assert_eq!(find_ranges((0..31).map(|at| free(0, 10 + at))), [], "no longer than a batch of folios");
        assert_eq!(find_ranges((0..64).map(|at| free(0, 1020 + at))), [], "page cache");
        assert_eq!(find_ranges((0..64).map(|at| free(0, 500 - at))), [], "from the last to the first");
        assert_eq!(
            find_ranges((0..64).map(|at| free(0, u64::from(u32::MAX) - 8 + at))),
            [],
            "frames that nobody knows"
        );
    }

    #[test]
    fn ranges_are_tracked_per_cpu_across_drains() {
        let rows =
            (0..40).flat_map(|at| [free(0, 10 + at), free(1, 500 + at), row(Kind::PcpuDrain, 0, 9, 0, Gfp::empty())]);
        assert_eq!(find_ranges(rows), [(0, 10, 40), (1, 500, 40)]);
    }

    #[test]
    fn split_block_of_any_size_is_a_range() {
        let frees = [free(0, 8), free(0, 9), free(0, 10), free(0, 11)];
        let whole = row(Kind::Alloc, 0, 8, 2, Gfp::KERNEL);
        assert_eq!(find_ranges([whole].into_iter().chain(frees)), [(1, 8, 4)]);
        let compound = row(Kind::Alloc, 0, 8, 2, Gfp::KERNEL | Gfp::COMP);
        assert_eq!(find_ranges([compound].into_iter().chain(frees)), []);
        let other = row(Kind::Alloc, 0, 9, 0, Gfp::KERNEL);
        assert_eq!(find_ranges([whole, other].into_iter().chain(frees)), [], "one page was allocated by itself since");
    }

    #[test]
    fn allocation_in_between_ends_a_range() {
        let between = row(Kind::Alloc, 0, 3000, 0, Gfp::KERNEL);
        let rows = (0..40).map(|at| free(0, 10 + at)).chain([between]).chain((40..60).map(|at| free(0, 10 + at)));
        assert_eq!(find_ranges(rows), [(0, 10, 40)]);
    }

    fn free_run(from: u64, pages: u64) -> impl Iterator<Item = Row> {
        (from..from + pages).map(|pfn| free(0, pfn))
    }

    #[test]
    fn next_event_locates_a_freed_page() {
        let mut neighbours = Neighbours::new(1, 4096, Order::new(9));
        let none = Gfp::empty();
        let after = [
            row(Kind::PcpuDrain, 0, 64, 1, none),
            row(Kind::ZoneLocked, 0, 72, 3, none),
            row(Kind::Alloc, 0, 72, 0, none),
            row(Kind::Alloc, 0, 80, 0, none),
            row(Kind::PcpuDrain, 0, 2000, 0, none),
        ];
        let full = row(Kind::PcpuDrain, 0, 68, 0, none);
        let rows = free_run(64, 20)
            .chain([full])
            .chain(free_run(84, 20))
            .chain([row(Kind::Alloc, 0, 3000, 0, none)])
            .chain(after);
        let found = rows.filter_map(|row| neighbours.observe(0, &row, None)).count();
        assert_eq!((found, neighbours.listed()), (1, 4), "three drained, one handed out");
    }

    #[test]
    fn frames_freed_earlier_count_as_unowned() {
        let users = (0..64).map(|at| row(Kind::Alloc, 0, 10 + at, 0, Gfp::KERNEL));
        let other = row(Kind::Alloc, 0, 3000, 0, Gfp::KERNEL);
        assert_eq!(find_ranges(users.clone().chain(free_run(10, 64))), [], "each was allocated by itself");
        assert_eq!(
            find_ranges(users.chain(free_run(10, 64)).chain([other]).chain(free_run(10, 64))),
            [(129, 10, 64)],
            "a range since"
        );
    }

    fn migrate_pages(reason: i64) -> Row {
        Row { args: [64, 0, reason], ..row(Kind::MigratePages, 0, 0, 0, Gfp::empty()) }
    }

    fn migrate_and_free(reason: i64, pages: u64) -> impl Iterator<Item = Row> {
        [free(1, 9), migrate_pages(reason)].into_iter().chain(free_run(2048, pages))
    }

    #[test]
    fn migration_targets_are_a_range_only_if_very_many() {
        assert_eq!(
            find_ranges_if([migrate_pages(0)].into_iter().chain(free_run(2048, 64)), Some(0)),
            [(1, 2048, 64)],
            "silent since then"
        );
        assert_eq!(find_ranges_if(migrate_and_free(0, 64), Some(0)), []);
        assert_eq!(find_ranges_if(migrate_and_free(0, 513), Some(0)), [(2, 2048, 513)]);
        assert_eq!(find_ranges_if(migrate_and_free(FOR_A_RANGE, 64), Some(0)), [(2, 2048, 64)]);
    }

    #[test]
    fn refilled_pages_are_a_bulk_allocation() {
        let refill = row(Kind::ZoneLocked, 0, 32, 3, Gfp::KERNEL);
        let mut neighbours = Neighbours::new(1, 4096, Order::new(9));
        let rows = [refill].into_iter().chain((0..40).map(|at| free(0, 16 + at)));
        assert!((0..).zip(rows).all(|(number, row)| neighbours.observe(number, &row, None).is_none()));
        assert_eq!(neighbours.end_all()[0].origin, Origin::Bulk);
    }

    fn blocks_of(pfn: u32, pages: u32) -> Vec<(u32, u8)> {
        Together { row: 0, pfn, pages, cpu: 0, origin: Origin::Range }
            .blocks()
            .map(|(pfn, order)| (pfn.raw(), order.get()))
            .collect()
    }

    #[test]
    fn blocks_are_the_largest_that_fit() {
        assert_eq!(blocks_of(6, 8), [(6, 1), (8, 2), (12, 1)]);
        assert_eq!(blocks_of(0, 2048), [(0, 10), (1024, 10)]);
        assert_eq!(blocks_of(7, 1), [(7, 0)]);
    }
}
