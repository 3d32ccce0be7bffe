//! Heapmap: what a live process has in its heap, if its malloc is Freehold, read from outside.
//!
//! The process is asked nothing and stopped at nothing: whoever may read its memory, as a debugger may, copies the
//! allocator's tables, and never an object. So it works on a process that is stuck, stopped, or within `malloc`; and
//! what it says is of no one moment while the process runs. In order of files: [`target`] finds the process and the
//! [`Outline`](freehold_malloc::process::outline::Outline) that says where the tables are; `sheaves` reads which
//! objects CPUs have at hand; `slabs` walks the pages, block by block; `runs` walks the runs; [`map`] puts it together;
//! `report` says it; [`watch`] looks at many processes, again and again.

mod amount;
pub mod map;
mod report;
mod runs;
mod sheaves;
mod slabs;
pub mod target;
pub mod watch;

pub use amount::Amount;
pub use map::{HeapMap, MapLimits};
pub use slabs::{Caches, CachesError};
pub use target::{HeapError, Target};
pub use watch::{HeapSample, Watcher};
