//! Atomics of what CPUs share without a lock: the core's own, or, in a build with `--cfg loom`, those of a checker
//! that runs a test in every order that the memory model allows. That build is a shrunken world: sections of 32
//! frames, blocks of order 4 at most.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};
