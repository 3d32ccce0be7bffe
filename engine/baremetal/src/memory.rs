//! Rust's heap on the allocator, and one call at boot.

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

/// What is kept back at boot, as if somebody plugged it in later: the last bytes of memory.
pub const PLUGGED_LATER: u64 = 64 << 20;
/// Bytes that are reserved at boot for a CMA area, below what is plugged in later.
const CMA: u64 = 16 << 20;

/// The MiB at which memory ends.
static END: AtomicU32 = AtomicU32::new(0);

/// What is plugged in later.
pub fn plugged_later() -> Range<u64> {
    let end = u64::from(END.load(Relaxed)) << 20;
    end - PLUGGED_LATER..end
}

/// What is reserved for a CMA area.
pub fn cma() -> Range<u64> {
    let end = plugged_later().start;
    end - CMA..end
}

/// Hands all memory of the map over, but for the kernel itself, and what is to come later.
pub fn set_up(map: impl Iterator<Item = Region> + Clone) {
    let usable = map.clone().filter(|region| region.kind == RegionKind::Usable);
    let end = usable.map(|region| region.end).max().expect("there is memory") >> 21 << 21;
    END.store((end >> 20) as u32, Relaxed);
    let later = Region::reserved(end - PLUGGED_LATER, PLUGGED_LATER * 2);
    let reserved = &[arch::image(), arch::trampoline(), cma()];
    let boot = Boot { direct_map: arch::DIRECT_MAP, reserved, end_max: end, ..Boot::default() };
    // SAFETY: the loader's map is true, and memory is mapped there; what is in use of it is reserved. No other CPU
    // runs.
    unsafe { KERNEL.init(map.chain(core::iter::once(later)), &boot) }.expect("the map has room for it");
    say!("{} MiB of memory up to {end:#x}, the kernel at {:#x?}", free_pages() >> 8, arch::image());
}

/// Returns the frame that contains a physical address.
pub fn frame_at(address: u64) -> Pfn {
    Pfn::new((address >> 12) as u32)
}

/// Pages that are free.
pub fn free_pages() -> u64 {
    KERNEL.stats().free
}
