//! A cache of objects that outlives its allocator.
use freehold::base::Gfp;
use freehold::machine::objects::with_locked_slab;
use freehold::page::Config;
use freehold::platform::{NoProbe, host::Threads};
use freehold::slab::CacheConfig;

fn main() {
    let kept = with_locked_slab(Threads::<NoProbe>::default(), &Config::default(), 1 << 15, 0, |slab| {
        slab.create(&CacheConfig::new("kept", 64)).unwrap()
    });
    let _ = kept.unwrap().alloc(Gfp::KERNEL);
}
