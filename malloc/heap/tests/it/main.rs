//! Tests of heaps, and of sections in machine code against sections in plain code.
//!
//! Tests that install signal handlers or a global allocator have programs of their own: `budget`, `injection`,
//! `stress`, `global` and `no_memory`.

#[path = "../common/altered.rs"]
mod altered;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/forgetful.rs"]
mod forgetful;
mod heap;
mod words;
