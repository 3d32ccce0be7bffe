//! The map of an allocator, kept for longer than its metadata.
use core::mem::MaybeUninit;
use freehold::PageAllocator;
use freehold::base::memmap::MemMap;
use freehold::page::Config;
use freehold::platform::{NoProbe, host::Solo};

fn main() {
    let kept: MemMap<'static>;
    {
        let mut bytes = vec![MaybeUninit::uninit(); 1 << 20];
        let allocator = PageAllocator::new(Solo::<NoProbe>::default(), &Config::default(), &mut bytes).unwrap();
        kept = *allocator.map();
    }
    println!("{kept:?}");
}
