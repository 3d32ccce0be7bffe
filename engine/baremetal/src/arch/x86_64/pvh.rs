//! The information that a PVH loader supplies: a structure at a physical address, with a memory map of 24 bytes per
//! region.

use freehold::kernel::{Region, RegionKind};

/// Offsets of the map's address and of the number of its regions.
const MAP_OFFSET: usize = 40;
const COUNT_OFFSET: usize = 48;
/// Bytes of a region: address and size with 8 bytes each, then kind and padding.
const REGION_BYTES: usize = 24;
/// Kind of a region of usable memory.
const RAM: u32 = 1;

/// Returns the regions of the loader's memory map.
pub fn regions(info: usize) -> impl Iterator<Item = Region> + Clone {
    let (map, count) = (read::<u64>(info + MAP_OFFSET) as usize, read::<u32>(info + COUNT_OFFSET));
    (0..count as usize)
        .map(move |at| {
            let region = map + at * REGION_BYTES;
            let (start, bytes, kind) = (read(region), read(region + 8), read::<u32>(region + 16));
            if kind == RAM { Region::usable(start, bytes) } else { Region::reserved(start, bytes) }
        })
        // The first page holds data of the loader and the firmware.
        .chain([Region { start: 0, end: 0x1000, kind: RegionKind::Reserved }])
}

fn read<T: Copy>(address: usize) -> T {
    // SAFETY: the loader has written this structure, and it is read before its memory is handed to the allocator.
    unsafe { core::ptr::with_exposed_provenance::<T>(address).read_unaligned() }
}
