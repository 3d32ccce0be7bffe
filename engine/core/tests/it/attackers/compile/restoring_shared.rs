//! A state restored while somebody else holds the allocator.
use freehold::{PageAllocator, platform::Platform};

fn attack<P: Platform>(allocator: &mut PageAllocator<'_, P>) {
    let map = &*allocator;
    let mut restoring = allocator.restore();
    restoring.set_pcp_high(freehold::base::CpuId(0), freehold::base::NodeId(0), freehold::base::ZoneKind::Normal, None);
    let _ = map.cpus();
}

fn through_shared<P: Platform>(allocator: &PageAllocator<'_, P>) {
    allocator.restore();
}

fn main() {}
