//! The ground floor: units, flags, frame metadata, lists and locks. It knows nothing of allocation.
//!
//! All `unsafe` of the engine lives here: carving the caller's metadata into arrays (`carve`),
//! finding a frame's metadata (`memmap`), and handing out what a lock protects (`lock`). Everything
//! above is safe code over atomics and guards.

pub mod atomic;
pub mod blocklist;
pub mod carve;
pub(crate) mod chain;
pub mod fault;
pub mod frame;
pub mod gfp;
pub mod list;
pub mod lock;
pub mod memmap;
pub mod migratetype;
pub mod pageblock;
pub(crate) mod published;
pub(crate) mod run;
pub(crate) mod stack;
#[cfg(test)]
mod testing;
pub mod units;
pub mod word;
#[cfg(feature = "host")]
pub mod zeroed;

pub use frame::Frame;
pub use gfp::Gfp;
pub use lock::{Rank, RawLock};
pub use migratetype::MigrateType;
pub use units::{CpuId, NodeId, Order, Pfn, ZoneKind};
pub use word::State;
