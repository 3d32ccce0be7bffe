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
//! The way from a kernel to a recording is here too, without any input or output of its own: [`ring`] walks raw
//! pages of the trace ring, [`mod@format`] and [`gfp`] read the kernel's description of its events, [`decode`] makes
//! rows of them, [`procfs`] and [`snapshot`] turn the kernel's texts and page flags into facts and state rows, and
//! [`state`] makes one start state of flags, zones and events.
//!
//! The crate knows nothing of the engine, so that old recordings outlive its refactors.

mod batch;
mod bounds;
mod check;
mod checksum;
mod columns;
pub mod decode;
mod error;
pub mod event;
pub mod facts;
mod footer;
pub mod format;
pub mod gfp;
pub mod gfp_names;
mod group;
mod group_buffer;
pub mod kernel;
mod lives;
mod pages;
mod part_file;
mod possible;
pub mod procfs;
mod reader;
mod recipes;
pub mod recording;
pub mod ring;
mod schema;
pub mod snapshot;
pub mod stacks;
pub mod state;
mod thrift;
mod writer;

pub use batch::Batch;
pub use bounds::memory;
pub use check::{ORDER_MAX, PFN_LIMIT};
pub use columns::Columns;
pub use error::{Error, Fault, Origin};
pub use event::{Kind, Row};
pub use facts::Facts;
pub use gfp::GFP_BITS;
pub use part_file::{PartFile, folder_of};
pub use reader::Reader;
pub use writer::Writer;
