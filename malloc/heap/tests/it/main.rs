//! Tests of heaps, and of assembly sections against portable sections.
//!
//! Tests that install signal handlers or a global allocator are separate programs: `budget`, `injection`, `stress`,
//! `global` and `no_memory`.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/fault_injection.rs"]
mod fault_injection;
mod heap;
#[path = "../common/lost_pop_fault.rs"]
mod lost_pop_fault;
mod sections;
