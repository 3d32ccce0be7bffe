//! Metadata that dies before the allocator: handed to a function over a shorter lifetime, which an allocator that were
//! covariant in that of its metadata would let through.
use core::mem::MaybeUninit;
use freehold::PageAllocator;
use freehold::page::Range;
use freehold::platform::Platform;

fn bring<'s, P: Platform>(allocator: &PageAllocator<'s, P>, range: &Range, bytes: &'s mut [MaybeUninit<u8>]) {
    let _ = allocator.online(range, bytes);
}

fn attack<P: Platform>(allocator: &PageAllocator<'static, P>, range: &Range) {
    let mut bytes = vec![MaybeUninit::uninit(); 1 << 20];
    bring(allocator, range, &mut bytes);
}

fn main() {}
