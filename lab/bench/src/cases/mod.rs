//! The benchmarks, one file each: what is done, to what, and how the result is to be read.

pub(crate) mod compaction;
pub(crate) mod contig;
pub(crate) mod flags;
pub(crate) mod harness;
#[cfg(feature = "disasm")]
mod machine_code;
pub(crate) mod pages;
pub(crate) mod slab;
