//! Recordings of the page allocator of a running Linux kernel.
//!
//! A recording is one Parquet file. It begins with the *start state* (free blocks, allocated folios, pageblock types),
//! continues with the *events* in order of time, and ends with the *end state*. The [`Facts`] about the machine are in
//! the file's key-value metadata. `FORMAT.md` beside this crate describes the schema, and this crate defines it in
//! types.
//!
//! A [`Writer`] makes a recording, and a [`Reader`] streams it back. Both check every row by the same rules.
//!
//! The crate also contains the steps from a kernel to a recording, without any input or output:
//!
//! 1. [`ring`] walks over raw pages of the trace ring.
//! 2. [`mod@format`] and [`gfp`] parse the kernel's description of its events.
//! 3. [`decode`] converts raw events to rows.
//! 4. [`procfs`] and [`snapshot`] convert the kernel's texts and page flags to facts and state rows.
//! 5. [`state`] combines flags, zones and events into one start state.
//!
//! [`anonymize`] removes the names from a recording's facts before they are written.
//!
//! The crate does not depend on the engine, so that old recordings stay readable when the engine changes.

pub mod anonymize;
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
pub mod mechanism;
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
