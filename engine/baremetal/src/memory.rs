//! Rust's heap on the allocator, and the set-up call at boot.

use core::ops::Range;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use freehold::base::Pfn;
use freehold::kernel::{Boot, Heap, Region, RegionKind};

use crate::arch;
use crate::console::say;
use crate::hardware::{Hardware, KERNEL};

#[global_allocator]
static HEAP: Heap<Hardware> = Heap::new();

/// Bytes at the end of memory that are not used at boot, and are added later as hot-plugged memory.
pub const PLUGGED_LATER: u64 = 64 << 20;
/// Bytes reserved at boot for a CMA area, below the hot-plugged memory.
const CMA: u64 = 16 << 20;

/// End of memory in MiB.
static END: AtomicU32 = AtomicU32::new(0);

/// Returns the range of the hot-plugged memory.
pub fn plugged_later() -> Range<u64> {
    let end = u64::from(END.load(Relaxed)) << 20;
    end - PLUGGED_LATER..end
}

/// Returns the range reserved for a CMA area.
pub fn cma() -> Range<u64> {
    let end = plugged_later().start;
    end - CMA..end
}

/// Sets up the allocator with all memory of the map, except for the kernel itself, the CMA area, and the memory that is
/// added later.
pub fn set_up(map: impl Iterator<Item = Region> + Clone) {
    let usable = map.clone().filter(|region| region.kind == RegionKind::Usable);
    let end = usable.map(|region| region.end).max().expect("the map has usable memory") >> 21 << 21;
    END.store((end >> 20) as u32, Relaxed);
    let later = Region::reserved(end - PLUGGED_LATER, PLUGGED_LATER * 2);
    let reserved = &[arch::image(), arch::trampoline(), cma()];
    let boot = Boot { direct_map: arch::DIRECT_MAP, reserved, end_max: end, ..Boot::default() };
    // SAFETY: the loader's map is correct, and memory is mapped at `DIRECT_MAP`. The memory in use is reserved. No
    // other CPU runs yet.
    unsafe { KERNEL.init(map.chain(core::iter::once(later)), &boot) }.expect("the map has room for the metadata");
    say!("{} MiB of memory free, up to address {end:#x}; the kernel is at {:#x?}", free_pages() >> 8, arch::image());
}

/// Returns the frame that contains a physical address.
pub fn frame_at(address: u64) -> Pfn {
    Pfn::new((address >> 12) as u32)
}

/// Returns the number of free pages.
pub fn free_pages() -> u64 {
    KERNEL.stats().free
}
