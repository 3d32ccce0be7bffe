//! Atomics for data that CPUs share without a lock. Normal builds use those of `core`. Builds with `--cfg loom` use
//! those of a model checker, which runs a test under every order that the memory model allows; they have sections of 32
//! frames and blocks of order 4 at most.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};
