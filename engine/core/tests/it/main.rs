//! Integration tests of the engine, in one program: one link instead of fifteen.
//!
//! Each module is one kind of test. Its name selects its tests: `cargo test -p freehold --test it model::`.
//!
//! ```text
//! boot           configurations, memory that comes online in parts, frames that are adopted
//! rules          each rule of the pinned kernel, as a scene small enough to follow by hand
//! compaction     rules of compaction, and random machines in which no page may be lost
//! contig         ranges of frames: rules, mistakes, a model, races
//! model          random steps, checked by a simple model and predicted by a reference implementation
//! procfs         texts of `/proc`
//! slab           objects: a model, callers' mistakes, failed requests, threads
//! slab_debug     damage to objects, and the reports about it
//! kernel         the kernel module: memory maps, calls between CPUs, a heap
//! threads        races on real locks
//! preempt        threads that are preempted before, under and after every lock
//! faults         platforms that fail, lie and call back
//! attackers      safe code that tries to break the engine
//! damage         damaged state of the page allocator, and the part that detects it
//! planted_race   a data race on purpose, for a build with ThreadSanitizer
//! ```
//!
//! `common` has the shared parts. All tests share one process, so the effects of a test are limited to its own threads.
//! The process's panic hook belongs to `common::panic_hook`.

mod attackers;
mod boot;
mod common;
mod compaction;
mod contig;
#[cfg(debug_assertions)]
mod damage;
mod faults;
mod kernel;
mod model;
mod planted_race;
mod preempt;
mod procfs;
mod rules;
mod slab;
mod slab_debug;
mod threads;
