//! A pageblock's metadata and a zone's counters written past the allocator.
use freehold::base::{CpuId, MigrateType, Pfn};
use freehold::page::ZoneFlag;
use freehold::{PageAllocator, platform::Platform};

fn attack<P: Platform>(allocator: &PageAllocator<'_, P>) {
    let pageblock = allocator.map().pageblock(Pfn::new(0));
    pageblock.set_migratetype(MigrateType::Cma);
    pageblock.set_owner(Some(CpuId(0)));
    pageblock.set_zone(1);
    pageblock.add_isolation();
    allocator.zones()[0].set(ZoneFlag::NearHigh);
    allocator.zones()[0].set_boost(1);
}

fn main() {}
