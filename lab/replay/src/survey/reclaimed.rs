//! Pages that the recorded kernel reclaimed: which, in which order, and how many it looked at to find them.
//!
//! When memory is reclaimed, and how much, is the policy's doing and is decided anew by the engine; which pages were
//! cold is the workload's, and the recording tells it, by the order in which they went. A page is known by its frame
//! and by the time between the rows that bore it and that freed it, since a frame has many lives.

use freehold_trace::Row;
use rustc_hash::FxHashMap;

use super::super::lists::Lists;

/// One block that was reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReclaimedBlock {
    pub(crate) pfn: u32,
    pub(crate) order: u8,
    /// Pages looked at in vain before it was found; those of a whole batch are charged to its first block.
    pub(crate) in_vain: u32,
    /// Row of the frame's last event before this life ended.
    pub(crate) born: u64,
    /// Row of its free.
    pub(crate) row: u64,
}

/// All of them, in order of time; a block's place in it is its number.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReclaimOrder {
    blocks: Vec<ReclaimedBlock>,
    /// Their numbers by frame, then time.
    by_frame: Vec<u32>,
    /// For each task, its batch since it last reported how many pages it had looked at: the first block, and all pages.
    open: FxHashMap<u32, (usize, u32)>,
    /// Pages looked at in vain since a block was last found.
    in_vain: u32,
}

impl ReclaimOrder {
    /// Takes note of a free by reclaim, of a block whose last event was at row `born`.
    pub(crate) fn push(&mut self, row: &Row, at: u64, born: u64) {
        let (_, pages) = self.open.entry(row.task).or_insert((self.blocks.len(), 0));
        *pages += 1_u32.checked_shl(u32::from(row.order)).unwrap_or(0);
        let pfn = u32::try_from(row.pfn).unwrap_or(u32::MAX);
        self.blocks.push(ReclaimedBlock { pfn, order: row.order, in_vain: 0, born, row: at });
    }

    /// A task says how many pages it looked at. Where pages are kept by generation, most of them were not looked at for
    /// what they are, and the kernel does not count them as scanned.
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

    /// Everything was seen: makes [`living_at`](Self::living_at) possible.
    pub(crate) fn finish(&mut self) {
        self.open = FxHashMap::default();
        self.by_frame = (0..self.blocks.len() as u32).collect();
        self.by_frame.sort_unstable_by_key(|&number| {
            let block = &self.blocks[number as usize];
            (block.pfn, block.row)
        });
    }

    /// All blocks, by number.
    pub(crate) fn blocks(&self) -> &[ReclaimedBlock] {
        &self.blocks
    }

    /// The number of the block that begins its life at a frame with this row, if reclaim will end it. A binary search.
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
    fn a_life_is_known_by_its_frame_and_its_time() {
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
    fn pages_looked_at_in_vain_are_charged_to_the_next_block() {
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
