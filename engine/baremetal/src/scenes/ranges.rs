//! Ranges of neighbouring pages, and a CMA area.

use freehold::base::{Gfp, Order};
use freehold::kernel::Cma;

use crate::hardware::Hardware;
use crate::hardware::KERNEL;
use crate::memory;
use crate::together;

/// Runs on all CPUs, except for the CMA area.
pub fn play() {
    let reserved = memory::cma();
    let frames = memory::frame_at(reserved.start)..memory::frame_at(reserved.end);
    // SAFETY: the frames were reserved at boot for this purpose and have no other use.
    let area: Cma<Hardware> = unsafe { KERNEL.reserve_cma(frames, Order::ZERO) }.expect("the frames are reserved");
    let first = area.alloc(1000, 512, Gfp::KERNEL).expect("the area is empty");
    let second = area.alloc(1, 1, Gfp::KERNEL).expect("the area has free pages");
    assert!(first.pfn().raw().is_multiple_of(512) && second.pfn() != first.pfn());
    together::on_all_cpus(|cpu| {
        for round in 0..20 {
            let pages = 100 + cpu * 37 + round;
            let range = KERNEL.alloc_contig_pages(Gfp::KERNEL, pages).expect("most memory is free");
            // SAFETY: the range has this many pages of 4096 bytes, and this CPU owns it.
            unsafe { range.as_ptr().write_bytes(round as u8, pages as usize * 4096) };
        }
    });
    assert_eq!(area.allocated(), 1001);
    drop((first, second));
    assert_eq!(area.allocated(), 0);
}
