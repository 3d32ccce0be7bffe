//! One piece of memory as the metadata of two allocators.
use core::mem::MaybeUninit;
use freehold::PageAllocator;
use freehold::page::Config;
use freehold::platform::{NoProbe, host::Solo};

fn main() {
    let mut bytes = vec![MaybeUninit::uninit(); 1 << 20];
    let one = PageAllocator::new(Solo::<NoProbe>::default(), &Config::default(), &mut bytes).unwrap();
    let two = PageAllocator::new(Solo::<NoProbe>::default(), &Config::default(), &mut bytes).unwrap();
    println!("{} {}", one.cpus(), two.cpus());
}
