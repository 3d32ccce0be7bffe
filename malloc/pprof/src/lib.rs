//! Heap profiles: the text that `libfreehold` writes becomes what pprof reads, with the names of functions in it.
//!
//! ```text
//! text     the samples and mappings of a profile, as gperftools writes them
//! names    functions and lines of addresses, from the programs' own tables
//! proto    pprof's format
//! encode   from one to the other: samples stand for what they were drawn from
//! named    profiles of stacks that have names and no addresses
//! strings  the table of strings, and the compression, of both
//! ```

mod encode;
mod named;
mod names;
mod proto;
mod strings;
mod text;

pub use encode::to_pprof;
pub use named::NamedStacks;
pub use text::{Mapping, Profile, Sample, TextError};
