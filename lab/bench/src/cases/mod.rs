//! The benchmarks, one file each: what is done, to what, and how the result is to be read.

pub mod compaction;
pub mod contig;
pub mod flags;
pub mod harness;
#[cfg(feature = "disasm")]
mod machine_code;
pub mod pages;
pub mod slab;
