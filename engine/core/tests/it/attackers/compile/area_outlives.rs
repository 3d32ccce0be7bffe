//! A CMA area that outlives the memory of its bitmap.
use core::mem::MaybeUninit;
use core::ops::Range;
use freehold::base::lock::SpinLock;
use freehold::base::{Order, Pfn};
use freehold::page::CmaArea;
use freehold::{PageAllocator, platform::Platform};

fn attack<'m, P: Platform<Lock = SpinLock>>(
    allocator: &PageAllocator<'m, P>,
    range: Range<Pfn>,
) -> CmaArea<'m, SpinLock> {
    let mut bitmap = [MaybeUninit::uninit(); 64];
    allocator.reserve_cma(range, Order::ZERO, &mut bitmap).unwrap()
}

fn main() {}
