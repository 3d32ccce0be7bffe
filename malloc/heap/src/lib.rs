//! Freehold's engine as a process has it: memory from the system, CPUs that are threads' for a moment only.
//!
//! ```
//! use freehold_malloc::heap::{Heap, HeapConfig};
//!
//! let heap = Heap::with_locks(&HeapConfig { bytes: 1 << 30, ..HeapConfig::default() })?;
//! let object = heap.malloc(100)?;
//! // SAFETY: it was just allocated, and nobody else knows it.
//! unsafe { heap.free(object)? };
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Freehold`] is the allocator of a whole Rust program. [`heap`] puts the engine together; [`os`] binds it to Linux:
//! where memory comes from, which CPU runs a thread, and how a few instructions are made one step on it.

#![no_std]

pub mod global;
pub mod heap;
pub mod os;
pub mod process;
pub mod runs;

pub use global::Freehold;
