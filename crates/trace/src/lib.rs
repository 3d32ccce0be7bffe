//! Recordings: what a running Linux kernel told about its page allocator.
//!
//! A recording is one Parquet file. It opens with the *start state* (free blocks, allocated folios,
//! pageblock types), goes on with the *events* in order of time, and closes with the *end state*.
//! The [`Facts`] about the machine travel in the file's key-value metadata. `FORMAT.md` beside this
//! crate is the schema in words; this crate is the same schema in types.
//!
//! A [`Writer`] makes a recording, a [`Reader`] streams one back, and both hold every row against the same
//! rules.
//!
//! The crate knows nothing of the engine, so that old recordings outlive its refactors.

mod batch;
mod check;
mod checksum;
mod error;
pub mod event;
pub mod facts;
mod footer;
mod group;
mod reader;
mod schema;
mod thrift;
mod writer;

pub use batch::Batch;
pub use check::{ORDER_MAX, PFN_LIMIT};
pub use error::{Error, Fault};
pub use event::{Kind, Row};
pub use facts::Facts;
pub use reader::Reader;
pub use writer::Writer;
