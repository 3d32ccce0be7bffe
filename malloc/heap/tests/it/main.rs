//! Tests of heaps, and of assembly sections against portable sections.
//!
//! Tests that install signal handlers or a global allocator are separate programs: `budget`, `injection`, `stress`,
//! `global` and `no_memory`.

#[path = "../common/altered.rs"]
mod altered;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/forgetful.rs"]
mod forgetful;
mod heap;
mod words;
