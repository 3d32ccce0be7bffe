//! Free lists by order and migratetype with their block counts, protected by the zone lock.

use crate::base::list::List;
use crate::base::lock::{Rank, Ranked};
use crate::base::memmap::MemMap;
use crate::base::word::Word;
use crate::base::{MigrateType, Order, Pfn};

/// End of a free list that a block joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::page) enum End {
    /// The end from which the next block is taken.
    Head,
    /// The end from which the last block is taken.
    Tail,
}

/// The free lists of one order, one for each type.
#[derive(Debug)]
pub struct FreeArea {
    lists: [List; MigrateType::COUNT],
    blocks: [u32; MigrateType::COUNT],
}

impl FreeArea {
    const EMPTY: FreeArea =
        FreeArea { lists: [const { List::EMPTY }; MigrateType::COUNT], blocks: [0; MigrateType::COUNT] };

    /// Returns the list of free blocks of one type.
    pub fn list(&self, migratetype: MigrateType) -> &List {
        &self.lists[migratetype.index()]
    }

    /// Returns the number of free blocks of one type.
    pub fn len(&self, migratetype: MigrateType) -> u32 {
        self.blocks[migratetype.index()]
    }

    /// Returns the number of free blocks of all types. linux: free_area.nr_free
    pub fn nr_free(&self) -> u32 {
        self.blocks.iter().sum()
    }

    /// Returns the number of free blocks of the types that any request may use.
    fn ordinary_blocks(&self) -> u32 {
        self.blocks[..MigrateType::PCP_COUNT].iter().sum()
    }

    /// Checks, in debug builds, that a type's count is zero exactly if its list is empty.
    #[inline]
    fn expect_counted(&self, order: Order, migratetype: MigrateType) {
        let blocks = self.len(migratetype);
        debug_assert!(
            (blocks == 0) == self.list(migratetype).is_empty(),
            "free areas: {blocks} blocks of order {} and type {migratetype:?} are counted, but their list begins with \
             {:?}",
            order.get(),
            self.list(migratetype).first()
        );
    }

    /// Returns whether there is a block of this type.
    pub fn has(&self, migratetype: MigrateType) -> bool {
        !self.list(migratetype).is_empty()
    }
}

/// A block that a compaction run waits for, which is given to the run when it is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::page) struct CaptureRequest {
    pub(in crate::page) order: Order,
    pub(in crate::page) migratetype: MigrateType,
}

/// State of the capture. Only one run per zone can wait at a time. linux: mm/page_alloc.c:task_capc
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaptureState {
    Idle,
    Waiting(CaptureRequest),
    Captured(Pfn),
}

/// The free lists of a zone, by order and type.
#[derive(Debug)]
pub struct FreeAreas {
    areas: [FreeArea; Order::COUNT],
    capture: CaptureState,
}

impl Ranked for FreeAreas {
    const RANK: Rank = Rank::Zone;
}

impl FreeAreas {
    pub(in crate::page) const EMPTY: FreeAreas =
        FreeAreas { areas: [const { FreeArea::EMPTY }; Order::COUNT], capture: CaptureState::Idle };

    /// Returns the free lists of one order, one for each type.
    pub fn area(&self, order: Order) -> &FreeArea {
        &self.areas[order.index()]
    }

    /// Returns the number of whole free pageblocks that any request may use.
    pub(in crate::page) fn whole(&self, pageblock_order: Order) -> u32 {
        let orders = pageblock_order.to(Order::MAX);
        orders.map(|order| self.area(order).ordinary_blocks() << (order.get() - pageblock_order.get())).sum()
    }

    /// Rotates a list so that it starts with one of its blocks. The blocks before it are taken last.
    pub(in crate::page) fn rotate_to(&mut self, map: &MemMap<'_>, pfn: Pfn) {
        let word = map.frame(pfn).word();
        debug_assert!(word.is_zone_free(), "free areas: a list cannot start with frame {pfn}, which is {word:?}");
        self.areas[word.order().index()].lists[word.migratetype().index()].rotate_to(map, pfn);
    }

    /// Rotates a list so that it starts after one of its blocks. That block and the blocks before it are taken last.
    pub(in crate::page) fn rotate_past(&mut self, map: &MemMap<'_>, pfn: Pfn) {
        let word = map.frame(pfn).word();
        let list = &mut self.areas[word.order().index()].lists[word.migratetype().index()];
        if let Some(next) = list.after(map, pfn) {
            list.rotate_to(map, next);
        }
    }

    /// Starts waiting for a block. Returns `false` if another run waits already, or has not taken its captured block
    /// yet.
    pub(in crate::page) fn begin_capture(&mut self, request: CaptureRequest) -> bool {
        let is_first = self.capture == CaptureState::Idle;
        if is_first {
            self.capture = CaptureState::Waiting(request);
        }
        is_first
    }

    /// Returns the block that a compaction run waits for, if any.
    #[inline]
    pub(in crate::page) fn capture_request(&self) -> Option<CaptureRequest> {
        match self.capture {
            CaptureState::Waiting(request) => Some(request),
            CaptureState::Idle | CaptureState::Captured(_) => None,
        }
    }

    /// Gives a block to the compaction run that waits.
    pub(in crate::page) fn capture(&mut self, pfn: Pfn) {
        debug_assert!(self.capture_request().is_some(), "free areas: no run waits for frame {pfn}: {:?}", self.capture);
        self.capture = CaptureState::Captured(pfn);
    }

    /// Stops waiting. Returns the block that was captured meanwhile, if any.
    pub(in crate::page) fn end_capture(&mut self) -> Option<Pfn> {
        debug_assert!(self.capture != CaptureState::Idle, "free areas: no run waits for a block");
        match core::mem::replace(&mut self.capture, CaptureState::Idle) {
            CaptureState::Captured(pfn) => Some(pfn),
            CaptureState::Idle | CaptureState::Waiting(_) => None,
        }
    }

    /// Puts a block on its list and sets its word.
    #[inline]
    pub(in crate::page) fn insert(
        &mut self,
        map: &MemMap<'_>,
        pfn: Pfn,
        order: Order,
        migratetype: MigrateType,
        end: End,
    ) {
        let area = &mut self.areas[order.index()];
        area.expect_counted(order, migratetype);
        let (list, word) = (&mut area.lists[migratetype.index()], Word::zone_free(order, migratetype));
        match end {
            End::Head => list.push_head(map, pfn, word),
            End::Tail => list.push_tail(map, pfn, word),
        }
        area.blocks[migratetype.index()] += 1;
    }

    /// Takes a block off its list. The block's word still names the list. Returns whether the list is empty now.
    #[inline]
    pub(in crate::page) fn remove(
        &mut self,
        map: &MemMap<'_>,
        pfn: Pfn,
        order: Order,
        migratetype: MigrateType,
    ) -> bool {
        let area = &mut self.areas[order.index()];
        area.expect_counted(order, migratetype);
        debug_assert!(
            area.has(migratetype),
            "free areas: frame {pfn} of order {} and type {migratetype:?} is removed from an empty list",
            order.get()
        );
        area.lists[migratetype.index()].remove(map, pfn);
        area.blocks[migratetype.index()] -= 1;
        area.expect_counted(order, migratetype);
        area.lists[migratetype.index()].is_empty()
    }

    /// Stores the state of the capture.
    #[cfg(feature = "damage")]
    pub(in crate::page) fn plant_capture(&mut self, served: Option<Pfn>) {
        self.capture = served.map_or(CaptureState::Idle, CaptureState::Captured);
    }

    /// Returns a list and its block count, for damage.
    #[cfg(feature = "damage")]
    pub(in crate::page) fn plant(&mut self, order: Order, migratetype: MigrateType) -> (&mut List, &mut u32) {
        let area = &mut self.areas[order.index()];
        (&mut area.lists[migratetype.index()], &mut area.blocks[migratetype.index()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_capture_waits_for_the_first() {
        let mut areas = FreeAreas::EMPTY;
        let [one, two] =
            [3, 9].map(|order| CaptureRequest { order: Order::new(order), migratetype: MigrateType::Movable });
        assert_eq!(areas.capture_request(), None);
        assert!(areas.begin_capture(one) && !areas.begin_capture(two));
        assert_eq!(areas.capture_request(), Some(one));
        areas.capture(Pfn::new(8));
        assert!(areas.capture_request().is_none() && !areas.begin_capture(two));
        assert_eq!(areas.end_capture(), Some(Pfn::new(8)));
        assert!(areas.begin_capture(two));
        assert_eq!((areas.end_capture(), areas.capture_request()), (None, None));
    }
}
