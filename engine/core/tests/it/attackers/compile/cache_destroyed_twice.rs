//! A cache destroyed twice, and used after that.
use freehold::base::Gfp;
use freehold::platform::Platform;
use freehold::slab::{CacheConfig, CpuLocal, SlabAllocator};

fn attack<P: Platform, C: CpuLocal>(slab: &SlabAllocator<'_, '_, P, C>) {
    let cache = slab.create(&CacheConfig::new("gone", 64)).unwrap();
    let _ = cache.destroy();
    let _ = cache.alloc(Gfp::KERNEL);
    let _ = cache.destroy();
}

fn main() {}
