//! The benchmarks, one file or folder each: the timed work, its subjects, and instructions for reading the result.

pub(crate) mod compaction;
pub(crate) mod contig;
pub(crate) mod flags;
pub(crate) mod harness;
#[cfg(feature = "disasm")]
mod machine_code;
pub(crate) mod pages;
pub(crate) mod slab;
