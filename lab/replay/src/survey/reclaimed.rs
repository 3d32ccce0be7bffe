//! Pages that the recorded kernel reclaimed: their order, and the number of pages scanned to find them.
//!
//! The engine decides when memory is reclaimed and how much, since both depend on the policy. Which pages are cold
//! depends on the workload, and the recorded order of reclaim shows it. A frame is used for several allocations in a
//! recording, so a reclaimed page is identified by its frame and by the rows of its allocation and its free.

use freehold_trace::Row;
use rustc_hash::FxHashMap;

use super::super::lists::Lists;

/// One block that was reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReclaimedBlock {
    pub(crate) pfn: u32,
    pub(crate) order: u8,
    /// Pages scanned in vain before the block was found. The pages of a whole batch count for its first block.
    pub(crate) in_vain: u32,
    /// Row of the frame's last event before the free.
    pub(crate) born: u64,
    /// Row of the free.
    pub(crate) row: u64,
}

/// All reclaimed blocks in order of time. A block's index is its number.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReclaimOrder {
    blocks: Vec<ReclaimedBlock>,
    /// Numbers of the blocks by frame, then by time.
    by_frame: Vec<u32>,
    /// For each task, the batch since its last report of scanned pages: the number of its first block, and its pages.
    open: FxHashMap<u32, (usize, u32)>,
    /// Pages scanned in vain since the last block was found.
    in_vain: u32,
}

impl ReclaimOrder {
    /// Adds a free by reclaim at row `at`, of a block whose last event was at row `born`.
    pub(crate) fn push(&mut self, row: &Row, at: u64, born: u64) {
        let (_, pages) = self.open.entry(row.task).or_insert((self.blocks.len(), 0));
        *pages += 1_u32.checked_shl(u32::from(row.order)).unwrap_or(0);
        let pfn = u32::try_from(row.pfn).unwrap_or(u32::MAX);
        self.blocks.push(ReclaimedBlock { pfn, order: row.order, in_vain: 0, born, row: at });
    }

    /// Handles a task's report of scanned pages. With generations, most pages are not scanned individually, and the
    /// kernel does not count them as scanned, so the report counts as zero.
    pub(crate) fn note_scan(&mut self, row: &Row, lists: Lists) {
        let batch = self.open.remove(&row.task);
        let looked_at = match lists {
            Lists::Inactive => u32::try_from(row.args[0]).unwrap_or(0),
            Lists::Generations => 0,
        };
        self.in_vain = self.in_vain.saturating_add(looked_at.saturating_sub(batch.map_or(0, |(_, pages)| pages)));
        if let Some((first, _)) = batch {
            self.blocks[first].in_vain = std::mem::take(&mut self.in_vain);
        }
    }

    /// Sorts the blocks after the last row. Must be called before [`living_at`](Self::living_at).
    pub(crate) fn finish(&mut self) {
        self.open = FxHashMap::default();
        self.by_frame = (0..self.blocks.len() as u32).collect();
        self.by_frame.sort_unstable_by_key(|&number| {
            let block = &self.blocks[number as usize];
            (block.pfn, block.row)
        });
    }

    /// Returns all blocks, by number.
    pub(crate) fn blocks(&self) -> &[ReclaimedBlock] {
        &self.blocks
    }

    /// Returns the number of the block that is allocated at a frame at this row, if reclaim will free it. Cost: a
    /// binary search.
    pub(crate) fn living_at(&self, pfn: u32, row: u64) -> Option<u32> {
        let next = self.by_frame.partition_point(|&number| {
            let block = &self.blocks[number as usize];
            (block.pfn, block.row) <= (pfn, row)
        });
        let number = *self.by_frame.get(next)?;
        let block = &self.blocks[number as usize];
        (block.pfn == pfn && block.born <= row).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use freehold_trace::Kind;

    use super::*;

    fn free(pfn: u64, task: u32) -> Row {
        Row { pfn, task, ..Row::new(Kind::Free) }
    }

    fn looked_at(pages: i64, task: u32) -> Row {
        Row { task, args: [pages, 0, 0], ..Row::new(Kind::LruShrinkInactive) }
    }

    #[test]
    fn lives_are_found_by_frame_and_row() {
        let mut order = ReclaimOrder::default();
        order.push(&free(7, 1), 20, 10);
        order.push(&free(7, 1), 40, 30);
        order.push(&free(3, 1), 50, 0);
        order.finish();
        assert_eq!([10, 30].map(|row| order.living_at(7, row)), [Some(0), Some(1)]);
        assert_eq!(order.living_at(7, 25), None, "the life that begins here ends otherwise");
        assert_eq!(order.living_at(7, 45), None);
        assert_eq!((order.living_at(3, 2), order.living_at(4, 2)), (Some(2), None));
    }

    #[test]
    fn fruitless_scans_are_charged_to_the_next_block() {
        let mut order = ReclaimOrder::default();
        order.note_scan(&looked_at(32, 1), Lists::Inactive);
        order.push(&free(1, 1), 1, 0);
        order.push(&free(2, 2), 2, 0);
        order.push(&free(3, 1), 3, 0);
        order.note_scan(&looked_at(10, 1), Lists::Inactive);
        order.note_scan(&looked_at(5, 2), Lists::Inactive);
        let in_vain: Vec<_> = order.blocks().iter().map(|block| block.in_vain).collect();
        assert_eq!(in_vain, [32 + 10 - 2, 5 - 1, 0]);
    }
}
