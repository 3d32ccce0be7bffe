//! Free lists by order and migratetype, and how many blocks are on each: what a zone's lock protects.

use crate::base::list::List;
use crate::base::lock::{Rank, Ranked};
use crate::base::memmap::MemMap;
use crate::base::word::Word;
use crate::base::{MigrateType, Order, Pfn};

/// An end of a free list, where a block joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::page) enum End {
    /// The end that is taken from next.
    Head,
    /// The end that is taken from last.
    Tail,
}

/// The free lists of one order, a list for each type.
#[derive(Debug)]
pub struct FreeArea {
    lists: [List; MigrateType::COUNT],
    blocks: [u32; MigrateType::COUNT],
}

impl FreeArea {
    const EMPTY: FreeArea =
        FreeArea { lists: [const { List::EMPTY }; MigrateType::COUNT], blocks: [0; MigrateType::COUNT] };

    /// The list of free blocks of one type.
    pub fn list(&self, migratetype: MigrateType) -> &List {
        &self.lists[migratetype.index()]
    }

    /// Number of free blocks of one type.
    pub fn len(&self, migratetype: MigrateType) -> u32 {
        self.blocks[migratetype.index()]
    }

    /// Number of free blocks of all types. linux: free_area.nr_free
    pub fn nr_free(&self) -> u32 {
        self.blocks.iter().sum()
    }

    /// Number of free blocks of the types that any request may have.
    fn ordinary_blocks(&self) -> u32 {
        self.blocks[..MigrateType::PCP_COUNT].iter().sum()
    }

    /// Whether a type's count and its list agree on whether there is a block.
    #[inline]
    fn expect_counted(&self, order: Order, migratetype: MigrateType) {
        let blocks = self.len(migratetype);
        debug_assert!(
            (blocks == 0) == self.list(migratetype).is_empty(),
            "free areas: {blocks} blocks of order {} and type {migratetype:?} are counted, and their list begins with {:?}",
            order.get(),
            self.list(migratetype).first()
        );
    }

    /// Whether there is a block of this type.
    pub fn has(&self, migratetype: MigrateType) -> bool {
        !self.list(migratetype).is_empty()
    }
}

/// A block that somebody waits for, to be handed over on its way to the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::page) struct CaptureRequest {
    pub(in crate::page) order: Order,
    pub(in crate::page) migratetype: MigrateType,
}

/// Whether somebody waits for a block; one at a time. linux: mm/page_alloc.c:task_capc
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

    /// The free lists of one order, one for each type.
    pub fn area(&self, order: Order) -> &FreeArea {
        &self.areas[order.index()]
    }

    /// Whole pageblocks that are free and that any request may have.
    pub(in crate::page) fn whole(&self, pageblock_order: Order) -> u32 {
        let orders = pageblock_order.to(Order::MAX);
        orders.map(|order| self.area(order).ordinary_blocks() << (order.get() - pageblock_order.get())).sum()
    }

    /// Lets a list begin with a block that is on it; what came before it is taken last.
    pub(in crate::page) fn rotate_to(&mut self, map: &MemMap<'_>, pfn: Pfn) {
        let word = map.frame(pfn).word();
        debug_assert!(word.is_zone_free(), "free areas: frame {pfn} is {word:?}, and its list is to begin with it");
        self.areas[word.order().index()].lists[word.migratetype().index()].rotate_to(map, pfn);
    }

    /// Lets a list begin behind a block that is on it; what came up to it is taken last.
    pub(in crate::page) fn rotate_past(&mut self, map: &MemMap<'_>, pfn: Pfn) {
        let word = map.frame(pfn).word();
        let list = &mut self.areas[word.order().index()].lists[word.migratetype().index()];
        if let Some(next) = list.after(map, pfn) {
            list.rotate_to(map, next);
        }
    }

    /// Waits for a block; `false` if somebody else does already.
    pub(in crate::page) fn begin_capture(&mut self, request: CaptureRequest) -> bool {
        let is_first = self.capture == CaptureState::Idle;
        if is_first {
            self.capture = CaptureState::Waiting(request);
        }
        is_first
    }

    /// Returns the block that a run of compaction waits for, if any.
    #[inline]
    pub(in crate::page) fn capture_request(&self) -> Option<CaptureRequest> {
        match self.capture {
            CaptureState::Waiting(request) => Some(request),
            CaptureState::Idle | CaptureState::Captured(_) => None,
        }
    }

    /// Hands a block to the run of compaction that waits.
    pub(in crate::page) fn capture(&mut self, pfn: Pfn) {
        debug_assert!(self.capture_request().is_some(), "free areas: frame {pfn} is for nobody, {:?}", self.capture);
        self.capture = CaptureState::Captured(pfn);
    }

    /// Waits no longer; the block that came meanwhile, if one did.
    pub(in crate::page) fn end_capture(&mut self) -> Option<Pfn> {
        debug_assert!(
            self.capture != CaptureState::Idle,
            "free areas: the run that waited for a block waits no longer, twice"
        );
        match core::mem::replace(&mut self.capture, CaptureState::Idle) {
            CaptureState::Captured(pfn) => Some(pfn),
            CaptureState::Idle | CaptureState::Waiting(_) => None,
        }
    }

    /// Puts a block on its list, and writes its state.
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

    /// Takes a block off its list; its state still names the list. Says whether the list is empty now.
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
            "free areas: frame {pfn} of order {} and type {migratetype:?} leaves a list that is empty",
            order.get()
        );
        area.lists[migratetype.index()].remove(map, pfn);
        area.blocks[migratetype.index()] -= 1;
        area.expect_counted(order, migratetype);
        area.lists[migratetype.index()].is_empty()
    }

    /// Writes whether somebody waits, and has a block.
    #[cfg(feature = "damage")]
    pub(in crate::page) fn plant_capture(&mut self, served: Option<Pfn>) {
        self.capture = served.map_or(CaptureState::Idle, CaptureState::Captured);
    }

    /// A list, and what is counted of it, to be written.
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
    fn one_waits_at_a_time_until_it_is_served_or_gives_up() {
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
