//! The lowest layer: units, flags, frame metadata, lists and locks. It contains no allocation logic.
//!
//! All `unsafe` of the page allocator is in this module. It carves the caller's metadata into arrays (`carve`), finds a
//! frame's metadata (`memmap`), gives access to the value that a lock protects (`lock`), replaces values that other
//! threads read (`published`), and supplies zeroed memory of the host (`zeroed`). The page allocator above is safe code
//! on atomics and guards.

#[doc(hidden)]
pub mod atomic;
#[doc(hidden)]
pub mod blocklist;
pub mod carve;
pub(crate) mod chain;
#[doc(hidden)]
pub mod fault;
#[doc(hidden)]
pub mod frame;
pub mod gfp;
#[doc(hidden)]
pub mod list;
pub mod lock;
#[doc(hidden)]
pub mod memmap;
pub mod migratetype;
#[doc(hidden)]
pub mod pageblock;
pub(crate) mod published;
pub(crate) mod run;
pub(crate) mod stack;
#[cfg(test)]
mod testing;
pub mod units;
#[doc(hidden)]
pub mod word;
#[cfg(feature = "host")]
pub mod zeroed;

#[doc(hidden)]
pub use frame::Frame;
pub use gfp::Gfp;
pub use lock::{Rank, RawLock};
pub use migratetype::MigrateType;
pub use units::{CpuId, NodeId, Order, Pfn, ZoneKind};
pub use word::State;
