//! The fast paths: what is asked for most, when it is at hand. Each is one function, to be counted and interrupted.

use alloc::boxed::Box;
use core::hint::black_box;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use freehold::base::{Gfp, Order};

use crate::hardware::KERNEL;

/// A path: its name, and one time through it.
pub struct Path {
    pub name: &'static str,
    pub walk: fn(),
}

/// The first CPU is on a path, and not around it.
static IS_WALKING: AtomicBool = AtomicBool::new(false);

impl Path {
    /// Once through it, so that a handler knows.
    pub fn walk_seen(&self) {
        IS_WALKING.store(true, Relaxed);
        (self.walk)();
        IS_WALKING.store(false, Relaxed);
    }
}

/// Whether the first CPU is on a path.
pub fn is_walking() -> bool {
    IS_WALKING.load(Relaxed)
}

/// All of them.
pub const PATHS: [Path; 3] = [
    Path { name: "an object of 64 bytes", walk: object },
    Path { name: "a box of 64 bytes", walk: boxed },
    Path { name: "a page", walk: page },
];

/// Has all that the paths ask for at hand, of this CPU's own.
pub fn warm_up() {
    KERNEL.shrink();
    (0..WALKS).for_each(|_| PATHS.iter().for_each(|path| (path.walk)()));
}

/// Walks after which a path is at home.
const WALKS: u32 = 8;

/// By size, and back.
#[inline(never)]
fn object() {
    let object = KERNEL.kmalloc(black_box(64), Gfp::ATOMIC).expect("one is at hand");
    // SAFETY: it was just allocated.
    let freed = unsafe { KERNEL.kfree(black_box(object)) };
    assert!(freed.is_ok(), "it is an object");
}

/// Through Rust's own types.
#[inline(never)]
fn boxed() {
    drop(black_box(Box::new([0_u64; 8])));
}

/// A single one.
#[inline(never)]
fn page() {
    drop(black_box(KERNEL.alloc_pages(Gfp::ATOMIC, Order::ZERO)));
}
