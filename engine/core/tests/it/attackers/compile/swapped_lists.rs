//! Two CPUs' lists exchanged while one looks at them.
use freehold::base::CpuId;
use freehold::{PageAllocator, platform::Platform};

fn attack<P: Platform>(allocator: &PageAllocator<'_, P>) {
    let zone = &allocator.zones()[0];
    allocator.pcp(CpuId(0), zone).inspect(|one| allocator.pcp(CpuId(1), zone).inspect(|two| exchange(one, two)));
}

fn exchange<T>(_: &mut T, _: &mut T) {}

fn main() {}
