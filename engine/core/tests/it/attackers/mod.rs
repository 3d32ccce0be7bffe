//! Attackers: programs of safe code that try to break the core. None of them may reach the allocator's internals, get a
//! frame that is already allocated, lose a frame, or leave a machine that `check` rejects. A refused call must have
//! changed nothing.
//!
//! ```text
//! compile            programs that must not compile: variance, forged words, guards sent to other threads, dangling caches
//! frame_arguments    every function that takes a frame, at every critical frame, with several orders
//! ranges             every function that takes a range, at every pair of limits
//! foreign_arguments  missing CPUs and nodes; zones and areas of another allocator; levels at the limits of numbers
//! configs            configurations with every field at its limits, and wrong ones
//! reentrant          a probe and promises that call the engine; memory released while it goes offline
//! races              two threads free one block, in every pair of ways, under every policy: exactly one succeeds
//! block_races        splits, references, poison; memory that goes online and offline, and areas
//! sections           metadata found through pointers that point below it, for Miri
//! objects            slabs: every safe function; attacks that need the unsafe free are in `slab`
//! false_callbacks    a kernel whose callbacks lie, free, allocate and panic, on several CPUs: no frame has two owners
//! panics             a platform that panics at every event, and at every call of each promise (`script` has the workload)
//! ```
//!
//! `machine` and `sample_machine` build the machines under attack, and `attempts` repeats attacks. Each harness has a
//! test which shows that it finds a planted fault.
//!
//! ```text
//! cargo test -p freehold --test it attackers::                        half a minute
//! TEST_FACTOR=2 cargo test -p freehold --test it attackers::panics   every single event: some minutes
//! cargo +nightly miri test -p freehold --test it attackers::...      by name, with fewer rounds
//! ```
#![forbid(unsafe_code)]

mod attempts;
mod block_races;
mod compile;
mod configs;
pub(crate) mod false_callbacks;
mod foreign_arguments;
mod frame_arguments;
mod machine;
mod objects;
mod panics;
mod races;
mod ranges;
mod reentrant;
mod sample_machine;
mod script;
mod sections;
