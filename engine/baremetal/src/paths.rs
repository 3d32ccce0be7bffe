//! The fast paths: the most frequent requests, served from per-CPU caches. Each is one function, whose instructions can
//! be counted and interrupted.

use alloc::boxed::Box;
use core::hint::black_box;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use freehold::base::{Gfp, Order};

use crate::hardware::KERNEL;

/// A fast path: its name, and a function that executes it once.
pub struct Path {
    pub name: &'static str,
    pub walk: fn(),
}

/// Whether the first CPU is executing a path.
static IS_WALKING: AtomicBool = AtomicBool::new(false);

impl Path {
    /// Executes the path once, visibly for interrupt handlers.
    pub fn walk_seen(&self) {
        IS_WALKING.store(true, Relaxed);
        (self.walk)();
        IS_WALKING.store(false, Relaxed);
    }
}

/// Returns whether the first CPU is executing a path.
pub fn is_walking() -> bool {
    IS_WALKING.load(Relaxed)
}

/// All fast paths.
pub const PATHS: [Path; 3] = [
    Path { name: "an object of 64 bytes", walk: object },
    Path { name: "a box of 64 bytes", walk: boxed },
    Path { name: "a page", walk: page },
];

/// Fills this CPU's caches with everything that the paths request.
pub fn warm_up() {
    KERNEL.shrink();
    (0..WALKS).for_each(|_| PATHS.iter().for_each(|path| (path.walk)()));
}

/// Executions after which a path finds everything cached.
const WALKS: u32 = 8;

/// Allocates an object by size and frees it.
#[inline(never)]
fn object() {
    let object = KERNEL.kmalloc(black_box(64), Gfp::ATOMIC).expect("an object is cached");
    // SAFETY: `kmalloc` returned the object above, and it is freed once.
    let freed = unsafe { KERNEL.kfree(black_box(object)) };
    assert!(freed.is_ok(), "the free of an allocated object failed");
}

/// Allocates and drops a box.
#[inline(never)]
fn boxed() {
    drop(black_box(Box::new([0_u64; 8])));
}

/// Allocates and drops a single page.
#[inline(never)]
fn page() {
    drop(black_box(KERNEL.alloc_pages(Gfp::ATOMIC, Order::ZERO)));
}
