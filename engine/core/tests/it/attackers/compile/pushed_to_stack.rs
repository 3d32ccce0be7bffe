//! A block pushed onto a CPU's stack past its free.
use freehold::base::{CpuId, Order, Pfn};
use freehold::{PageAllocator, platform::Platform};

fn attack<P: Platform>(allocator: &PageAllocator<'_, P>) {
    let pcp = allocator.pcp(CpuId(0), &allocator.zones()[0]);
    pcp.stack().push(allocator.map(), Pfn::new(0), Order::ZERO);
}

fn main() {}
