//! What a loader by PVH leaves: a structure at a physical address, with a memory map of 24 bytes a region.
//!
//! linux: include/xen/interface/hvm/start_info.h

use freehold::kernel::{Region, RegionKind};

/// Where the map's address stands, and the number of its regions.
const MAP_OFFSET: usize = 40;
const COUNT_OFFSET: usize = 48;
/// Bytes of a region: address and size, 8 each; kind and padding.
const REGION_BYTES: usize = 24;
/// The kind of memory that is free to be used.
const RAM: u32 = 1;

/// The loader's map.
pub fn regions(info: usize) -> impl Iterator<Item = Region> + Clone {
    let (map, count) = (read::<u64>(info + MAP_OFFSET) as usize, read::<u32>(info + COUNT_OFFSET));
    (0..count as usize)
        .map(move |at| {
            let region = map + at * REGION_BYTES;
            let (start, bytes, kind) = (read(region), read(region + 8), read::<u32>(region + 16));
            if kind == RAM { Region::usable(start, bytes) } else { Region::reserved(start, bytes) }
        })
        // The first page has the loader's and the firmware's.
        .chain([Region { start: 0, end: 0x1000, kind: RegionKind::Reserved }])
}

fn read<T: Copy>(address: usize) -> T {
    // SAFETY: the loader has left it there, and it is read before memory is given to anybody.
    unsafe { core::ptr::with_exposed_provenance::<T>(address).read_unaligned() }
}
