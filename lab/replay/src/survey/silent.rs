//! Silent allocations: the recording shows their number, but not their times.
//!
//! A frame that is freed while it is free must have been allocated since its last event. Two operations of the kernel
//! allocate without an event. Both leave an event of another kind, which gives the number of pages: a bulk allocation
//! for a virtual area takes pages off per-CPU lists, and a migration takes its targets off the free lists. Each such
//! moment is therefore assigned as many of the waiting frames as it took, from the place from which it takes pages.
//! Frames that are freed first are assigned first. A frame that is assigned to no moment is allocated just before its
//! free.
//!
//! Pages that are freed together, and were all allocated silently, were allocated as a range. Movable pages were moved
//! out of the range first. The range is therefore allocated at the first such migration after the last event on any of
//! its frames. An isolated pageblock has its pages on the free lists, wherever they were before.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::together::{Origin, Together};

/// Place from which a silent allocation takes a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A zone's free list; the frame is the target of a migration.
    FreeList,
    /// A per-CPU list; the frame is part of a bulk allocation.
    PercpuList,
    /// A zone's free list, in an isolated pageblock; the frame is part of a range.
    Range,
}

/// An allocation that must have happened between two rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Need {
    /// Row of the frame's last event.
    pub(crate) after: u64,
    /// Row that shows the allocation: a free, or the end.
    pub(crate) before: u64,
    pub(crate) pfn: u32,
    pub(crate) order: u8,
    /// CPU of the row that shows the allocation.
    pub(crate) cpu: u16,
    pub(crate) place: Place,
}

/// A moment at which the kernel took pages without an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) row: u64,
    pub(crate) cpu: u16,
    /// Largest number of pages that it took.
    pub(crate) pages: u64,
    pub(crate) place: Place,
}

/// A silent allocation, and the row before which it is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Silent {
    /// Number of the row before which the allocation is played.
    pub(crate) before: u64,
    pub(crate) pfn: u32,
    pub(crate) order: u8,
    pub(crate) cpu: u16,
    pub(crate) place: Place,
}

/// Pages that must have been allocated as a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RangeNeed {
    /// Row of the last event on any of its frames.
    after: u64,
    /// Row of the first of its frees.
    freed: u64,
    pages: Vec<Need>,
}

/// Removes the needs of pages that were freed together from `needs` and returns them as a range, if every page has a
/// need and the pages were a range. `needs` is in order of `before`. Otherwise, the needs stay, but with the row of the
/// first free as their deadline, since all pages are freed at that row.
pub(crate) fn take_range(needs: &mut Vec<Need>, freed: Together) -> Option<RangeNeed> {
    let first = needs.partition_point(|need| need.before < freed.row);
    let (mut pages, others): (Vec<Need>, Vec<Need>) = needs
        .drain(first..)
        .partition(|need| need.order == 0 && need.cpu == freed.cpu && freed.frames().contains(&(need.pfn as usize)));
    pages.iter_mut().for_each(|need| need.before = freed.row);
    let is_range = freed.origin == Origin::Range && pages.len() == freed.pages as usize;
    if !is_range {
        needs.append(&mut pages);
    }
    needs.extend(others);
    let after = pages.iter().map(|need| need.after).max()?;
    Some(RangeNeed { after, freed: freed.row, pages })
}

/// Assigns each range to one of the rows at which pages were moved for a range.
pub(crate) fn place_ranges(needs: &[RangeNeed], moments: &[u64]) -> impl Iterator<Item = Silent> {
    needs.iter().flat_map(|range| {
        let moved = moments.get(moments.partition_point(|&row| row <= range.after)).copied();
        let before = moved.map_or(range.freed, |moved| moved.min(range.freed));
        range.pages.iter().map(move |need| silent(&Need { place: Place::Range, ..*need }, before, need.cpu))
    })
}

/// Assigns each need to a moment. The result is in order of time.
pub(crate) fn place(mut needs: Vec<Need>, moments: &[Moment]) -> Vec<Silent> {
    needs.sort_unstable();
    let mut placed: Vec<Silent> = [Place::FreeList, Place::PercpuList]
        .into_iter()
        .flat_map(|place| {
            let needs = needs.iter().filter(move |need| need.place == place);
            place_all(needs, moments.iter().filter(move |moment| moment.place == place))
        })
        .collect();
    placed.sort_by_key(|silent| silent.before);
    placed
}

/// Assigns needs to moments, earliest deadline first. `needs` is in order of `after`, `moments` in order of time.
fn place_all<'a>(needs: impl Iterator<Item = &'a Need>, moments: impl Iterator<Item = &'a Moment>) -> Vec<Silent> {
    let mut needs = needs.peekable();
    let mut waiting = BinaryHeap::new();
    let mut placed = Vec::new();
    for moment in moments {
        while let Some(need) = needs.next_if(|need| need.after < moment.row) {
            waiting.push(Reverse((need.before, *need)));
        }
        let mut left = moment.pages;
        while left > 0 {
            let Some(Reverse((before, need))) = waiting.pop() else { break };
            if before <= moment.row {
                placed.push(silent(&need, before, need.cpu));
                continue;
            }
            placed.push(silent(&need, moment.row, moment.cpu));
            left = left.saturating_sub(1 << need.order);
        }
    }
    let late = waiting.into_iter().map(|Reverse((_, need))| need).chain(needs.copied());
    placed.extend(late.map(|need| silent(&need, need.before, need.cpu)));
    placed
}

fn silent(need: &Need, before: u64, cpu: u16) -> Silent {
    Silent { before, pfn: need.pfn, order: need.order, cpu, place: need.place }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(after: u64, before: u64, pfn: u32, place: Place) -> Need {
        Need { after, before, pfn, order: 0, cpu: 7, place }
    }

    #[test]
    fn silent_allocations_are_matched_in_order_of_their_frees() {
        let lists = Place::PercpuList;
        let needs = vec![need(1, 90, 10, lists), need(2, 20, 11, lists), need(3, 5, 12, lists), need(0, 90, 13, lists)];
        let moments = [
            Moment { row: 10, cpu: 1, pages: 1, place: lists },
            Moment { row: 30, cpu: 2, pages: 1, place: lists },
            Moment { row: 40, cpu: 3, pages: 9, place: Place::FreeList },
        ];
        let placed: Vec<_> = place(needs, &moments).iter().map(|s| (s.before, s.pfn, s.cpu)).collect();
        // 12 was freed before any moment; 11 cannot wait for the second; one of 10 and 13 gets no moment.
        assert_eq!(placed, [(5, 12, 7), (10, 11, 1), (30, 13, 2), (90, 10, 7)]);
    }

    fn listed_page(pfn: u32) -> Need {
        need(u64::from(pfn), 100 + u64::from(pfn), pfn, Place::PercpuList)
    }

    fn place_each(range: &[RangeNeed], moments: &[u64]) -> Vec<u64> {
        place_ranges(range, moments).map(|listed_page| listed_page.before).collect::<Vec<_>>()
    }

    #[test]
    fn range_is_taken_whole_or_not_at_all() {
        let freed = Together { row: 110, pfn: 10, pages: 3, cpu: 7, origin: Origin::Range };
        let needs =
            [need(1, 50, 11, Place::FreeList), listed_page(10), listed_page(11), listed_page(12), listed_page(30)];
        let mut left = needs.to_vec();
        let range = [take_range(&mut left, freed).unwrap()];
        assert_eq!(left.iter().map(|need| need.pfn).collect::<Vec<_>>(), [11, 30], "not what was freed long before");
        assert_eq!(place_each(&range, &[5, 40, 60]), [40, 40, 40]);
        assert_eq!(place_each(&range, &[5, 12]), [110, 110, 110], "nothing was moved since the last event");
        assert_eq!(place_each(&range, &[500]), [110, 110, 110], "not after its first free");
        assert!(place_ranges(&range, &[]).all(|listed_page| listed_page.place == Place::Range));
        for other in [Together { pages: 4, ..freed }, Together { origin: Origin::Bulk, ..freed }] {
            let mut left = needs.to_vec();
            assert_eq!(take_range(&mut left, other), None);
            assert_eq!(left.iter().map(|need| need.before).collect::<Vec<_>>(), [50, 110, 110, 110, 130]);
        }
    }

    #[test]
    fn silent_allocation_skips_frames_still_in_use() {
        let moments = [Moment { row: 10, cpu: 1, pages: 5, place: Place::FreeList }];
        let placed = place(vec![need(12, 20, 10, Place::FreeList)], &moments);
        assert_eq!((placed[0].before, placed[0].cpu), (20, 7));
    }
}
