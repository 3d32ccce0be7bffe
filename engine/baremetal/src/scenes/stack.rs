//! Stack depth of the allocator's calls. The stack below the caller is filled with a pattern; after a call, the lowest
//! overwritten byte gives the depth.

use core::hint::black_box;

use freehold::base::{Gfp, Order};

use crate::arch;
use crate::console::say;
use crate::hardware::KERNEL;

/// Bytes that are filled. `OWN` bytes next to the caller are left out, because the caller uses them itself.
const PAINTED: usize = 24 << 10;
const OWN: usize = 512;
const PAINT: u8 = 0x5a;

/// Runs on the first CPU, with interrupts off during each measurement.
pub fn play() {
    let warm = KERNEL.kmalloc(64, Gfp::KERNEL).expect("the machine has enough memory");
    // SAFETY: `kmalloc` returned the object above. Freeing it leaves an object cached.
    unsafe { KERNEL.kfree(warm) }.expect("the object is allocated");
    let at_hand = depth(|| {
        let object = KERNEL.kmalloc(64, Gfp::KERNEL).expect("an object is cached");
        // SAFETY: `kmalloc` returned the object above, and it is freed once.
        unsafe { KERNEL.kfree(black_box(object)) }.expect("the object is allocated");
    });
    let block = depth(|| drop(black_box(KERNEL.alloc_pages(Gfp::KERNEL, Order::new(3)))));
    let refill = depth(|| {
        let object = KERNEL.kmalloc(3_000, Gfp::KERNEL).expect("the machine has enough memory");
        // SAFETY: `kmalloc` returned the object above, and it is freed once.
        unsafe { KERNEL.kfree(black_box(object)) }.expect("the object is allocated");
    });
    let range = depth(|| drop(black_box(KERNEL.alloc_contig_pages(Gfp::KERNEL, 3_000))));
    let failed = depth(|| assert!(black_box(KERNEL.alloc_contig_pages(Gfp::KERNEL, 1 << 20)).is_err()));
    let shrink = depth(|| KERNEL.shrink());
    say!(
        "  bytes of stack: cached object {at_hand}, pages {block}, new slab {refill}, range {range}, failure {failed}, \
         shrink {shrink}"
    );
    assert!(
        [at_hand, block, refill, range, failed, shrink].iter().all(|bytes| *bytes < 8 << 10),
        "a call uses too much stack"
    );
}

/// Returns the address of a byte of the stack.
fn byte_below(top: usize, offset: usize) -> *mut u8 {
    core::ptr::with_exposed_provenance_mut(top - offset)
}

/// Returns the bytes of stack that a call takes, rounded up by `OWN`.
#[inline(never)]
fn depth(call: impl FnOnce()) -> usize {
    let flags = arch::irq_save();
    let here = 0_u8;
    let top = (&raw const here).addr() - OWN;
    // SAFETY: the filled bytes are inside this CPU's stack, and no code uses the part below the current frame.
    (1..PAINTED).for_each(|offset| unsafe { byte_below(top, offset).write_volatile(PAINT) });
    call();
    // SAFETY: as above, and reading has no side effects.
    let deepest = (1..PAINTED).rev().find(|&offset| unsafe { byte_below(top, offset).read_volatile() } != PAINT);
    arch::irq_restore(flags);
    deepest.unwrap_or(0) + OWN
}
