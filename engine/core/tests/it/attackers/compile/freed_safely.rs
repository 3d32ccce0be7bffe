//! Objects freed, and a slab made over any memory, without a promise that they may be.
use core::ptr::NonNull;
use freehold::platform::Platform;
use freehold::slab::{CpuLocal, SlabAllocator};

fn attack<P: Platform, C: CpuLocal>(slab: &SlabAllocator<'_, '_, P, C>, object: NonNull<u8>) {
    let _ = slab.kfree(object);
    let _ = slab.pages();
}

fn main() {}
