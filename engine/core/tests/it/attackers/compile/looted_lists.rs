//! What one looks at under a lock, kept for afterwards.
use freehold::base::CpuId;
use freehold::{PageAllocator, platform::Platform};

fn attack<P: Platform>(allocator: &PageAllocator<'_, P>) {
    let zone = &allocator.zones()[0];
    let mut lists = None;
    allocator.pcp(CpuId(0), zone).inspect(|seen| lists = Some(seen));
    let mut areas = None;
    zone.inspect(|seen| areas = Some(seen));
}

fn main() {}
