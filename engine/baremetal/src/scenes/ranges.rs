//! Neighbouring pages of any number, and an area that is kept for such.

use freehold::base::{Gfp, Order};
use freehold::kernel::Cma;

use crate::hardware::Hardware;
use crate::hardware::KERNEL;
use crate::memory;
use crate::together;

/// On all CPUs, but for the area.
pub fn play() {
    let reserved = memory::cma();
    let frames = memory::frame_at(reserved.start)..memory::frame_at(reserved.end);
    // SAFETY: it was reserved for that.
    let area: Cma<Hardware> = unsafe { KERNEL.reserve_cma(frames, Order::ZERO) }.expect("it is free");
    let first = area.alloc(1000, 512, Gfp::KERNEL).expect("the area is empty");
    let second = area.alloc(1, 1, Gfp::KERNEL).expect("there is a gap");
    assert!(first.pfn().raw().is_multiple_of(512) && second.pfn() != first.pfn());
    together::on_all_cpus(|cpu| {
        for round in 0..20 {
            let pages = 100 + cpu * 37 + round;
            let range = KERNEL.alloc_contig_pages(Gfp::KERNEL, pages).expect("most memory is free");
            // SAFETY: the pages are the range's, which is ours.
            unsafe { range.as_ptr().write_bytes(round as u8, pages as usize * 4096) };
        }
    });
    assert_eq!(area.allocated(), 1001);
    drop((first, second));
    assert_eq!(area.allocated(), 0);
}
