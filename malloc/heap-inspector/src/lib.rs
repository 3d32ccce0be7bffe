//! Inspector of the heap of a live process that uses Freehold's malloc. It reads the heap from outside.
//!
//! The process takes no part in the inspection and is not stopped. An inspector that may read its memory, as a debugger
//! may, copies the allocator's tables, but no objects. So the inspection works for a process that hangs, is stopped, or
//! is within `malloc`. If the process runs, the numbers need not be consistent with each other.
//!
//! Order of files: [`target`] opens the process and finds the [`Outline`](freehold_malloc::process::outline::Outline)
//! with the addresses of the tables; `sheaves` reads the objects in CPUs' caches; `slabs` walks the pages block by
//! block; `runs` walks the runs; [`states`] sums memory by state; [`map`] combines the results; `report` and
//! [`openmetrics`] format them; [`watch`] samples many processes repeatedly.
//!
//! # Design
//!
//! The inspector creates the same caches in its own process, so the outline need not describe sizes and layouts. It
//! interprets words of slabs with the engine's own functions, and refuses a process whose caches have another
//! fingerprint. Objects in CPUs' caches are found through the caches of sheaves, without a look at barns or locks. The
//! kernel reports page by page whether memory is resident.
//!
//! A recorder samples from a separate thread with a deadline and never waits for it. It receives the samples through a
//! trait that the command implements, so `lab/record` does not depend on a malloc.

mod amount;
pub mod map;
pub mod openmetrics;
mod report;
mod runs;
mod sheaves;
mod slabs;
pub mod states;
pub mod target;
pub mod watch;

pub use amount::Amount;
pub use map::{HeapMap, MapLimits};
pub use slabs::{Caches, CachesError};
pub use target::{HeapError, Target};
pub use watch::{HeapSample, Watcher};
