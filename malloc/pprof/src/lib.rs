//! Heap profiles: conversion of the text that `libfreehold` writes to pprof's format, with function names.
//!
//! ```text
//! text     the samples and mappings of a profile in the text format of gperftools
//! names    functions and lines of addresses, from the programs' debug information
//! proto    messages of pprof's format
//! encode   conversion of a text profile, whose samples are scaled to estimates
//! named    profiles of stacks that have names and no addresses
//! strings  string table and compression, for both kinds of profiles
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
