//! Invalid frees and double frees must be refused with an error.

use core::ptr::NonNull;

use freehold::base::{Gfp, Order};

use crate::hardware::KERNEL;

/// Runs on the first CPU.
pub fn play() {
    let object = KERNEL.kmalloc(200, Gfp::KERNEL).expect("the machine has enough memory");
    let mut pages = KERNEL.alloc_pages(Gfp::KERNEL | Gfp::ZERO, Order::new(1)).expect("the machine has enough memory");
    // SAFETY: the object is freed once and not used afterwards. The other frees are invalid and must be refused.
    unsafe {
        let inside = object.add(8);
        assert!(KERNEL.kfree(inside).is_err(), "an address inside an object was freed");
        KERNEL.kfree(object).expect("the object is allocated");
        assert!(KERNEL.kfree(object).is_err(), "an object was freed twice");
        assert!(KERNEL.kfree(pages.as_ptr()).is_err(), "a page without objects was freed as an object");
        assert!(KERNEL.kfree(NonNull::from(&mut 5_u8)).is_err(), "an address on the stack was freed");
    }
    pages.as_uninit()[8191].write(1);
    // SAFETY: the only free through this reference is a double free, which is refused.
    let allocator = unsafe { KERNEL.pages() }.expect("the kernel is set up");
    let (pfn, order) = (pages.pfn(), pages.order());
    drop(pages);
    assert!(allocator.free_pages(pfn, order).is_err(), "a block was freed twice");
    let all = KERNEL.kmalloc(usize::MAX, Gfp::KERNEL);
    assert!(all.is_err() && KERNEL.kmalloc(0, Gfp::KERNEL).is_ok());
}
