//! Merging of consecutive blocks, which arrive one at a time, into the largest blocks that fit.
//!
//! Pages are often freed in the order in which they were allocated. A neighbour is then found by comparing two numbers,
//! which costs less than removing a buddy from a list, and the remaining work is done once for many pages.
//!
//! # Design
//!
//! Under the policies that own pageblocks, blocks are gathered into runs before a drain merges, before the owner takes
//! its stack, and before a stack is freed to the zone. Only the ends of a run are compared with buddies on the lists.

use core::ops::Range;

use super::frame::Frame;
use super::memmap::MemMap;
use super::word::Word;
use super::{Order, Pfn};

/// Consecutive frames of blocks that are on no list. Each frame becomes interior when it joins.
#[derive(Debug, Default)]
pub(crate) struct Run(Option<Range<Pfn>>);

impl Run {
    /// Adds a block, given with its first frame's metadata. If the block is not adjacent to the collected run, that run
    /// is returned and a new one begins with the block; otherwise returns `None`.
    #[inline]
    pub(crate) fn extend(&mut self, pfn: Pfn, order: Order, frame: &Frame) -> Option<Range<Pfn>> {
        frame.set(Word::INTERIOR);
        let end = pfn.offset(order.pages());
        debug_assert!(
            self.0.as_ref().is_none_or(|run| end <= run.start || run.end <= pfn),
            "run: frame {pfn} is already part of the run"
        );
        match &mut self.0 {
            Some(run) if run.end == pfn => run.end = end,
            Some(run) if run.start == end => run.start = pfn,
            _ => return self.0.replace(pfn..end),
        }
        None
    }

    /// Returns the collected run, or `None` if no block was added.
    pub(crate) fn finish(self) -> Option<Range<Pfn>> {
        self.0
    }
}

/// Collects blocks into runs, and visits each run as naturally aligned blocks of up to `cap`.
#[inline]
pub(crate) fn gather(
    map: &MemMap<'_>,
    blocks: impl Iterator<Item = (Pfn, Order)>,
    cap: Order,
    mut visit: impl FnMut(Pfn, Order),
) {
    let mut run = Run::default();
    for (pfn, order) in blocks {
        if let Some(gathered) = run.extend(pfn, order, map.frame(pfn)) {
            visit_run(gathered, cap, &mut visit);
        }
    }
    if let Some(last) = run.finish() {
        visit_run(last, cap, &mut visit);
    }
}

/// Visits a run as naturally aligned blocks of up to `cap`.
#[inline]
fn visit_run(run: Range<Pfn>, cap: Order, visit: &mut impl FnMut(Pfn, Order)) {
    run.start.blocks_up_to(run.end, cap).for_each(|(pfn, order)| visit(pfn, order));
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;
    use crate::base::testing::with_map;

    #[test]
    fn gather_merges_adjacent_blocks_in_either_order() {
        let order = Order::new;
        let blocks = [(4, 0), (5, 0), (6, 1), (3, 0), (64, 2), (60, 2), (56, 2), (1, 0)];
        let blocks = blocks.map(|(pfn, of)| (Pfn::new(pfn), order(of)));
        with_map(|map| {
            let mut found = Vec::new();
            gather(map, blocks.into_iter(), order(9), |pfn, order| found.push((pfn.raw(), order.get())));
            assert_eq!(found, [(3, 0), (4, 2), (56, 3), (64, 2), (1, 0)]);
            assert!(blocks.iter().all(|&(pfn, _)| map.frame(pfn).word().is_interior()));
        });
    }
}
