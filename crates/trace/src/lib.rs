//! Recordings: what a running Linux kernel told about its page allocator.
//!
//! A recording is one Parquet file. It opens with the *start state* (free blocks, allocated folios,
//! pageblock types), goes on with the *events* in order of time, and closes with the *end state*.
//! The [`Facts`] about the machine travel in the file's key-value metadata. `FORMAT.md` beside this
//! crate is the schema in words; this crate is the same schema in types.
//!
//! The crate knows nothing of the engine, so that old recordings outlive its refactors.

pub mod event;
pub mod facts;

pub use event::{Kind, Row};
pub use facts::Facts;
