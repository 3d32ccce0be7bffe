//! Invalid frees and double frees must be refused with an error.

use core::ptr::NonNull;

use freehold::base::{Gfp, Order};

use crate::hardware::KERNEL;

/// Runs on the first CPU.
pub fn play() {
    let object = KERNEL.kmalloc(200, Gfp::KERNEL).expect("there is memory");
    let mut pages = KERNEL.alloc_pages(Gfp::KERNEL | Gfp::ZERO, Order::new(1)).expect("there is memory");
    // SAFETY: the object is freed once and not used afterwards. The other frees are invalid and must be refused.
    unsafe {
        let inside = object.add(8);
        assert!(KERNEL.kfree(inside).is_err(), "it points into an object");
        KERNEL.kfree(object).expect("it is an object");
        assert!(KERNEL.kfree(object).is_err(), "it is free already");
        assert!(KERNEL.kfree(pages.as_ptr()).is_err(), "it is no object's page");
        assert!(KERNEL.kfree(NonNull::from(&mut 5_u8)).is_err(), "it is the stack");
    }
    pages.as_uninit()[8191].write(1);
    // SAFETY: the only free through this reference is a double free, which is refused.
    let allocator = unsafe { KERNEL.pages() }.expect("it is set up");
    let (pfn, order) = (pages.pfn(), pages.order());
    drop(pages);
    assert!(allocator.free_pages(pfn, order).is_err(), "it is free already");
    let all = KERNEL.kmalloc(usize::MAX, Gfp::KERNEL);
    assert!(all.is_err() && KERNEL.kmalloc(0, Gfp::KERNEL).is_ok());
}
