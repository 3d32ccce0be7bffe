//! Comparison of the start state with the first events on its frames.
//!
//! Page flags leave two gaps: pages on a per-CPU list have no flags, and neither have pages of some kernel users. The
//! first event on such a frame distinguishes them. A page that is freed was allocated. A page that is allocated or
//! drained, without having left the free lists, was on a per-CPU list. A page without flags that leaves the free lists
//! was free, although the scan did not show it. The first events also check the rest of the state: a page whose first
//! event is a free must not have been free.

use super::frames::fits_percpu_lists;
use crate::event::{Kind, NO_PFN, Row};
use crate::snapshot::flag;

/// State of a frame at the start, or the fact that an event has named it since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Frame {
    /// The frame does not exist, was never managed by the allocator, or is withheld from it by a balloon.
    Absent,
    /// The frame has no flags.
    Unknown,
    Free,
    Allocated,
    /// An event has named the frame.
    Touched,
    /// An event has named the frame, and the last one put it on the free lists.
    Listed,
}

/// A block that was on a per-CPU list when the recording started, according to its first event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedBlock {
    /// First frame.
    pub pfn: u64,
    /// Order.
    pub order: u8,
    /// CPU that took it off the list. By Linux's rules it is the list's owner, unless it was a remote drain.
    pub cpu: u16,
    /// Migratetype of the event.
    pub migratetype: i8,
}

/// Page flags of a block at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flags {
    /// The block had no flags.
    None,
    /// The flags were not read.
    Unseen,
}

/// A block that was allocated when the recording started, according to its first event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocatedBlock {
    /// First frame.
    pub pfn: u64,
    /// Order of its later free.
    pub order: u8,
    /// Page flags of the block.
    pub flags: Flags,
}

/// Agreement of the start state with the first events on its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Number of blocks whose first event was checked.
    pub checked: u64,
    /// Blocks that were free at the start but whose first event is a free or a drain: they were allocated without an
    /// event.
    pub taken_silently: u64,
    /// Blocks that were allocated at the start but whose first event is an allocation or a drain: they were freed
    /// without an event.
    pub returned_silently: u64,
}

/// The start state of each frame, and the results of the first events.
#[derive(Debug)]
pub struct FirstEvents {
    frames: Vec<Frame>,
    pageblock_order: u8,
    /// Blocks found on per-CPU lists, in order of discovery.
    pub cached: Vec<CachedBlock>,
    /// Blocks without flags found allocated, in order of discovery.
    pub allocated: Vec<AllocatedBlock>,
    /// Blocks without flags found on the free lists, as first frame and order, in order of discovery.
    pub taken: Vec<(u64, u8)>,
    /// Agreement of the other blocks.
    pub agreement: Agreement,
}

impl FirstEvents {
    /// Creates the state from the flags of all frames at the start.
    pub fn new(words: &[u32], pageblock_order: u8) -> FirstEvents {
        let frames = words.iter().map(|&word| opening(word)).collect();
        FirstEvents {
            frames,
            pageblock_order,
            cached: Vec::new(),
            allocated: Vec::new(),
            taken: Vec::new(),
            agreement: Agreement::default(),
        }
    }

    /// Extends the state to `frames` frames. The added frames are unknown.
    pub fn reach(&mut self, frames: usize) {
        if self.frames.len() < frames {
            self.frames.resize(frames, Frame::Unknown);
        }
    }

    /// Returns whether an event has named a frame.
    pub fn is_touched(&self, pfn: u64) -> bool {
        matches!(self.frames.get(pfn as usize), Some(Frame::Touched | Frame::Listed))
    }

    /// Removes the blocks for which `is_memory` is false: those outside of memory.
    pub fn retain(&mut self, is_memory: impl Fn(u64, u8) -> bool) {
        self.cached.retain(|block| is_memory(block.pfn, block.order));
        self.allocated.retain(|block| is_memory(block.pfn, block.order));
        self.taken.retain(|&(pfn, order)| is_memory(pfn, order));
    }

    /// Handles an event after the start.
    pub fn observe(&mut self, row: &Row) {
        if row.pfn == NO_PFN {
            return;
        }
        let first = row.pfn as usize;
        let end = (first + (1 << row.order.min(20))).min(self.frames.len());
        let Some(block) = self.frames.get_mut(first..end).filter(|block| !block.is_empty()) else { return };
        match row.kind {
            Kind::Alloc | Kind::PcpuDrain | Kind::Free | Kind::ZoneLocked | Kind::ExtFrag => {}
            _ => return,
        }
        let was = alike(block);
        block.fill(match row.kind {
            Kind::PcpuDrain => Frame::Listed,
            Kind::Free if !fits_percpu_lists(row.order, self.pageblock_order) => Frame::Listed,
            _ => Frame::Touched,
        });
        if let Some(was) = was {
            self.conclude(was, row);
        }
    }

    /// Returns whether a frame is unknown and no event has named it.
    pub fn is_untouched(&self, pfn: u64) -> bool {
        self.frames.get(pfn as usize) == Some(&Frame::Unknown)
    }

    /// Returns whether a frame must be on the free lists, by the start state and the events since.
    pub fn is_on_free_lists(&self, pfn: u64) -> bool {
        matches!(self.frames.get(pfn as usize), Some(Frame::Free | Frame::Listed))
    }

    /// Marks an unknown frame as free at the start.
    pub fn find_free(&mut self, pfn: u64) {
        if let Some(frame) = self.frames.get_mut(pfn as usize).filter(|frame| **frame == Frame::Unknown) {
            *frame = Frame::Free;
        }
    }

    /// Draws the conclusion from the first event on a block whose frames all had the state `was`.
    fn conclude(&mut self, was: Frame, row: &Row) {
        let &Row { pfn, order, cpu, migratetype, .. } = row;
        if !matches!(was, Frame::Touched | Frame::Listed) {
            self.agreement.checked += 1;
        }
        match (was, row.kind) {
            (Frame::Unknown, Kind::Free) => {
                self.allocated.push(AllocatedBlock { pfn, order, flags: Flags::None });
            }
            (Frame::Unknown, Kind::Alloc | Kind::PcpuDrain) if fits_percpu_lists(order, self.pageblock_order) => {
                self.cached.push(CachedBlock { pfn, order, cpu, migratetype });
            }
            (Frame::Unknown, Kind::ZoneLocked | Kind::ExtFrag) => self.taken.push((pfn, order)),
            (Frame::Free, Kind::Free | Kind::PcpuDrain) => self.agreement.taken_silently += 1,
            (Frame::Allocated, Kind::Alloc | Kind::PcpuDrain | Kind::ZoneLocked) => {
                self.agreement.returned_silently += 1;
            }
            _ => {}
        }
    }
}

fn opening(word: u32) -> Frame {
    if word & (flag::NOPAGE | flag::RESERVED | flag::OFFLINE) != 0 {
        Frame::Absent
    } else if word & flag::BUDDY != 0 {
        Frame::Free
    } else if word == 0 {
        Frame::Unknown
    } else {
        Frame::Allocated
    }
}

/// Returns the state of all frames of a block; `None` if they differ.
fn alike(block: &[Frame]) -> Option<Frame> {
    let first = block[0];
    block.iter().all(|&frame| frame == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: Kind, pfn: u64, order: u8) -> Row {
        Row { pfn, order, cpu: 3, migratetype: 1, ..Row::new(kind) }
    }

    #[test]
    fn first_events_resolve_pages_without_flags() {
        let mut first_events = FirstEvents::new(&[0; 32], 9);
        first_events.observe(&event(Kind::Alloc, 0, 0));
        first_events.observe(&event(Kind::Free, 0, 0));
        first_events.observe(&event(Kind::Free, 2, 1));
        first_events.observe(&event(Kind::PcpuDrain, 4, 0));
        first_events.observe(&event(Kind::ZoneLocked, 5, 0));
        first_events.observe(&event(Kind::Alloc, 5, 0));
        // Captured by compaction: blocks of this order have no per-CPU list.
        first_events.observe(&event(Kind::Alloc, 16, 4));
        let cached = [0, 4].map(|pfn| CachedBlock { pfn, order: 0, cpu: 3, migratetype: 1 });
        assert_eq!(first_events.cached, cached);
        assert_eq!(first_events.allocated, [AllocatedBlock { pfn: 2, order: 1, flags: Flags::None }]);
        assert_eq!(first_events.agreement, Agreement { checked: 5, ..Agreement::default() });
    }

    #[test]
    fn first_events_are_checked_against_the_flags() {
        let mut first_events = FirstEvents::new(&[flag::BUDDY, flag::SLAB, flag::BUDDY, flag::SLAB, flag::RESERVED], 9);
        first_events.observe(&event(Kind::ZoneLocked, 0, 0));
        first_events.observe(&event(Kind::Free, 1, 0));
        assert_eq!(first_events.agreement, Agreement { checked: 2, ..Agreement::default() });
        first_events.observe(&event(Kind::Free, 2, 0));
        first_events.observe(&event(Kind::Alloc, 3, 0));
        let agreement = Agreement { checked: 4, taken_silently: 1, returned_silently: 1 };
        assert_eq!(first_events.agreement, agreement);
        assert!(first_events.taken.is_empty());
        assert_eq!((first_events.cached.len(), first_events.allocated.len()), (0, 0));
    }

    #[test]
    fn balloon_pages_are_not_part_of_the_state() {
        let mut first_events = FirstEvents::new(&[flag::OFFLINE; 4], 9);
        first_events.observe(&event(Kind::Free, 0, 0));
        first_events.observe(&event(Kind::Alloc, 1, 0));
        assert_eq!(first_events.agreement, Agreement { checked: 2, ..Agreement::default() });
        assert!(
            first_events.allocated.is_empty() && !first_events.is_untouched(2) && !first_events.is_on_free_lists(2)
        );
    }

    #[test]
    fn last_event_decides_whether_a_frame_is_listed() {
        let mut first_events = FirstEvents::new(&[flag::BUDDY, flag::SLAB, 0, 0], 9);
        first_events.observe(&event(Kind::Free, 1, 0));
        first_events.observe(&event(Kind::ZoneLocked, 2, 0));
        assert_eq!([0, 1, 2, 3].map(|pfn| first_events.is_on_free_lists(pfn)), [true, false, false, false]);
        assert_eq!((first_events.taken.as_slice(), first_events.is_untouched(3)), (&[(2, 0)][..], true));
        first_events.observe(&event(Kind::PcpuDrain, 1, 0));
        first_events.find_free(3);
        assert_eq!([0, 1, 2, 3].map(|pfn| first_events.is_on_free_lists(pfn)), [true, true, false, true]);
    }

    #[test]
    fn invalid_first_events_are_ignored() {
        let mut first_events = FirstEvents::new(&[0; 4], 9);
        first_events.observe(&event(Kind::Alloc, NO_PFN, 0));
        first_events.observe(&event(Kind::Alloc, 1 << 50, 9));
        first_events.observe(&event(Kind::KswapdWake, 0, 0));
        assert_eq!(first_events.agreement, Agreement::default());
    }
}
