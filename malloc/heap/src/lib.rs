//! Freehold's engine as the memory allocator of a Linux process.
//!
//! ```
//! use freehold_malloc::heap::{Heap, HeapConfig};
//!
//! let heap = Heap::with_locks(&HeapConfig { bytes: 1 << 30, ..HeapConfig::default() })?;
//! let object = heap.malloc(100)?;
//! // SAFETY: `object` was allocated by this heap above, is freed once, and has no other user.
//! unsafe { heap.free(object)? };
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`os`] binds the engine to Linux: address ranges, the number of the current CPU, and restartable sequences. [`runs`]
//! manages runs of pages, [`heap`] combines them with the engine, and [`process`] makes one heap the malloc of a
//! process. [`Freehold`] is the global allocator of a Rust program and forwards to [`process`].

#![no_std]

pub mod global;
pub mod heap;
pub mod os;
pub mod process;
pub mod runs;

pub use global::Freehold;
