//! Memory maps as firmware and boot loaders supply them, reduced to usable frames without any memory to sort them in.
//!
//! The maps of e820, multiboot, UEFI and device trees are all lists of regions with a start, an end and a kind. Regions
//! may be unsorted, adjacent, overlapping and contradictory. Each piece of the result is therefore found by another
//! walk over all regions. A frame is usable if a usable region contains all of it and no reserved region contains any
//! of it. A map has a few dozen regions, so the walks are cheap.
//!
//! linux: arch/x86/kernel/e820.c:e820__update_table, mm/memblock.c
//!
//! # Design
//!
//! A memory map is walked and not stored. Before the allocator exists there is no memory in which a map could be
//! sorted.
//!
//! All metadata is carved from the end of the largest free piece. Memory that is added later contains its own metadata.
//! Frame 0 is never used, so a kernel that uses physical addresses has no object at address 0.

use core::iter::once;
use core::ops::Range;

use crate::base::Pfn;

/// A region of a memory map: the addresses from `start` up to `end`, in bytes, and whether the memory there is usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Address of the first byte.
    pub start: u64,
    /// Address after the last byte; `u64::MAX` for a region that extends to the end of the address space.
    pub end: u64,
    /// Kind of the region.
    pub kind: RegionKind,
}

/// Kind of a region in a memory map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionKind {
    /// Memory that the kernel may use freely from the moment it passes the map.
    Usable,
    /// Everything else: firmware, tables, devices, broken memory. Takes precedence where the map also has a usable
    /// region.
    Reserved,
}

impl Region {
    /// Returns a usable region of `bytes` bytes, truncated at the last address.
    pub const fn usable(start: u64, bytes: u64) -> Region {
        Region { start, end: start.saturating_add(bytes), kind: RegionKind::Usable }
    }

    /// Returns a reserved region of `bytes` bytes, truncated at the last address.
    pub const fn reserved(start: u64, bytes: u64) -> Region {
        Region { start, end: start.saturating_add(bytes), kind: RegionKind::Reserved }
    }
}

/// A memory map together with the page size, for conversion to whole frames.
#[derive(Clone, Debug)]
pub(super) struct MemoryMap<I> {
    regions: I,
    page_size: u64,
}

/// Ranges that are excluded besides the map's reserved regions, in bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Exclusions<'a> {
    /// Ranges that the kernel declared to be in use.
    pub(super) reserved: &'a [Range<u64>],
    /// Range of the metadata; empty before it is placed.
    pub(super) metadata: Range<u64>,
}

impl<I: Iterator<Item = Region> + Clone> MemoryMap<I> {
    pub(super) fn new(regions: I, page_size: u32) -> MemoryMap<I> {
        MemoryMap { regions, page_size: page_size.into() }
    }

    /// Returns the first region that ends before it starts, or `None` if there is none.
    pub(super) fn backwards(&self) -> Option<Region> {
        self.regions.clone().find(|region| region.start > region.end)
    }

    /// Returns the usable frames as maximal pieces that no excluded range touches, in ascending order. Frame 0 is
    /// excluded, since its address may be null. Costs a few walks over the map for each piece, and one more for each
    /// region and each excluded range that a piece touches.
    pub(super) fn pieces<'t>(&self, taken: Exclusions<'t>) -> impl Iterator<Item = Range<Pfn>> + use<'_, 't, I> {
        let mut at = 1;
        core::iter::from_fn(move || {
            let piece = self.next_piece(at, &taken)?;
            at = piece.end;
            Some(Pfn::new(piece.start as u32)..Pfn::new(piece.end as u32))
        })
    }

    /// Returns the first piece that begins at frame `at` or above, or `None` if there is none.
    #[inline(never)]
    fn next_piece(&self, at: u64, excluded: &Exclusions<'_>) -> Option<Range<u64>> {
        let others = excluded.reserved.iter().chain(once(&excluded.metadata)).cloned();
        let reserved = self
            .of_kind(RegionKind::Reserved)
            .chain(others)
            .filter(|bytes| !bytes.is_empty())
            .map(|bytes| self.around(&bytes));
        let mut start = self.next_usable(at)?;
        loop {
            let (mut free, mut end) = (start, self.usable_until(start));
            for frames in reserved.clone() {
                if frames.contains(&start) {
                    free = free.max(frames.end);
                } else if frames.start > start {
                    end = end.min(frames.start);
                }
            }
            if free == start {
                return Some(start..end);
            }
            start = self.next_usable(free)?;
        }
    }

    /// Returns the first frame at `at` or above that a usable region contains, or `None` if there is none.
    fn next_usable(&self, at: u64) -> Option<u64> {
        self.usable().filter(|frames| frames.end > at).map(|frames| frames.start.max(at)).min()
    }

    /// Returns the end of the usable frames from `start` on, across regions that touch or overlap.
    fn usable_until(&self, start: u64) -> u64 {
        let mut end = start;
        while let Some(further) = self.usable().filter(|frames| frames.contains(&end)).map(|frames| frames.end).max() {
            end = further;
        }
        end
    }

    /// Returns the whole frames of the usable regions, up to the largest frame number.
    fn usable(&self) -> impl Iterator<Item = Range<u64>> + Clone {
        let (size, last) = (self.page_size, u64::from(Pfn::END_MAX.raw()));
        let frames =
            self.of_kind(RegionKind::Usable).map(move |bytes| bytes.start.div_ceil(size)..(bytes.end / size).min(last));
        frames.filter(|frames| !frames.is_empty())
    }

    fn of_kind(&self, kind: RegionKind) -> impl Iterator<Item = Range<u64>> + Clone {
        self.regions.clone().filter(move |region| region.kind == kind).map(|region| region.start..region.end)
    }

    /// Returns all frames that contain at least one of these bytes.
    fn around(&self, bytes: &Range<u64>) -> Range<u64> {
        bytes.start / self.page_size..bytes.end.div_ceil(self.page_size)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::slice::from_ref;
    use std::vec::Vec;

    use super::*;

    const PAGE: u64 = 4096;

    fn pieces(regions: &[Region], taken: &[Range<u64>]) -> Vec<(u32, u32)> {
        let map = MemoryMap::new(regions.iter().copied(), PAGE as u32);
        map.pieces(Exclusions { reserved: taken, ..Exclusions::default() })
            .map(|piece| (piece.start.raw(), piece.end.raw()))
            .collect()
    }

    /// Returns a usable region; start and length are in frames.
    fn usable(start: u64, frames: u64) -> Region {
        Region::usable(start * PAGE, frames * PAGE)
    }

    fn reserved(start: u64, frames: u64) -> Region {
        Region::reserved(start * PAGE, frames * PAGE)
    }

    #[test]
    fn memory_map_may_be_empty_or_one_page() {
        assert_eq!(pieces(&[], &[]), []);
        assert_eq!(pieces(&[reserved(0, 100)], &[]), []);
        assert_eq!(pieces(&[usable(7, 0)], &[]), []);
        assert_eq!(pieces(&[usable(7, 1)], &[]), [(7, 8)]);
        assert_eq!(pieces(&[usable(0, 1)], &[]), [], "frame 0 is part of a region");
        assert_eq!(pieces(&[usable(0, 3)], &[]), [(1, 3)]);
    }

    #[test]
    fn region_order_and_overlap_have_no_effect() {
        let parts = [usable(30, 5), usable(10, 5), usable(15, 5), usable(12, 10), reserved(18, 1)];
        assert_eq!(pieces(&parts, &[]), [(10, 18), (19, 22), (30, 35)]);
        assert_eq!(pieces(&[usable(1, 9), usable(1, 9)], &[]), [(1, 10)]);
        assert_eq!(pieces(&[usable(1, 9), reserved(1, 9)], &[]), [], "a reserved region is usable");
        assert_eq!(pieces(&[reserved(0, 5), usable(1, 9), reserved(8, 9)], &[]), [(5, 8)]);
    }

    #[test]
    fn partial_frames_are_excluded() {
        let odd = Region { start: PAGE + 1, end: 5 * PAGE - 1, kind: RegionKind::Usable };
        assert_eq!(pieces(&[odd], &[]), [(2, 4)]);
        assert_eq!(pieces(&[usable(1, 9)], from_ref(&(5 * PAGE + 1..5 * PAGE + 2))), [(1, 5), (6, 10)]);
        assert_eq!(
            pieces(&[usable(1, 9)], from_ref(&(PAGE * 3..PAGE * 3))),
            [(1, 10)],
            "no part of the region is in use"
        );
        let inside = Region { start: PAGE + 1, end: 2 * PAGE - 1, kind: RegionKind::Usable };
        assert_eq!(pieces(&[inside], &[]), []);
    }

    #[test]
    fn memory_map_may_end_at_the_last_address() {
        let end = Pfn::END_MAX.raw();
        let all = Region { start: 0, end: u64::MAX, kind: RegionKind::Usable };
        assert_eq!(pieces(&[all], &[]), [(1, end)], "memory without a frame number is used");
        assert_eq!(Region::usable(!0 - 9, 10).end, u64::MAX);
        assert_eq!(Region::usable(!0 - 9, 4096).end, u64::MAX);
        let high = Region::usable(1 << 60, 1 << 30);
        assert_eq!(pieces(&[high, usable(5, 5)], &[]), [(5, 10)]);
        assert_eq!(pieces(&[usable(1, 5), Region::reserved(2 * PAGE, u64::MAX)], &[]), [(1, 2)]);
    }

    #[test]
    fn region_that_ends_before_its_start_is_reported() {
        let wrong = Region { start: 2, end: 1, kind: RegionKind::Reserved };
        for (regions, named) in [([usable(1, 2), wrong], Some(wrong)), ([usable(1, 2), usable(9, 0)], None)] {
            assert_eq!(MemoryMap::new(regions.into_iter(), PAGE as u32).backwards(), named);
        }
    }

    /// Compares the pieces of random maps of a few frames with a frame-by-frame search.
    #[test]
    fn pieces_match_a_frame_by_frame_search() {
        const FRAMES: u64 = 40;
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2000 {
            let drawn = (0..6).map(|_| draw_region(&mut random, FRAMES));
            let regions: Vec<Region> = drawn.filter(|region| region.start <= region.end).collect();
            let taken = 3 * PAGE..4 * PAGE + 1;
            let naive: Vec<u64> =
                (1..2 * FRAMES).filter(|frame| !(3..5).contains(frame) && is_usable(&regions, *frame)).collect();
            let found = pieces(&regions, from_ref(&taken));
            let frames: Vec<u64> = found.iter().flat_map(|&(start, end)| u64::from(start)..u64::from(end)).collect();
            assert_eq!(frames, naive, "{regions:?}");
            assert!(found.windows(2).all(|pair| pair[0].1 < pair[1].0), "adjacent pieces are not joined: {found:?}");
        }
    }

    fn draw_region(random: &mut fastrand::Rng, frames: u64) -> Region {
        let (start, bytes) = (random.u64(0..frames * PAGE), random.u64(0..12 * PAGE));
        let kind = if random.u8(0..3) == 0 { RegionKind::Reserved } else { RegionKind::Usable };
        let snap = if random.bool() { PAGE } else { 1 };
        Region { start: start / snap * snap, end: (start + bytes) / snap * snap, kind }
    }

    /// Returns whether a usable region contains all of a frame and no reserved region contains any of it.
    fn is_usable(regions: &[Region], frame: u64) -> bool {
        let (first, last) = (frame * PAGE, (frame + 1) * PAGE - 1);
        let mut is_covered = false;
        for region in regions {
            match region.kind {
                RegionKind::Usable => is_covered |= region.start <= first && last < region.end,
                RegionKind::Reserved if region.start < region.end && region.start <= last && first < region.end => {
                    return false;
                }
                _ => {}
            }
        }
        is_covered
    }
}
