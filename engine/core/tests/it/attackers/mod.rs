//! Attackers: programs of safe code that try to break the core. None of them may reach the allocator's internals, get a
//! frame that is already allocated, lose a frame, or leave a machine that `check` rejects. A refused call must have
//! changed nothing.
//!
//! ```text
//! compile     programs that must not compile: variance, forged words, guards sent to other threads, dangling caches
//! ends        every function that takes a frame, at every critical frame, with several orders
//! ranges      every function that takes a range, at every pair of limits
//! strangers   missing CPUs and nodes; zones and areas of another allocator; levels at the limits of numbers
//! configs     configurations with every field at its limits, and wrong ones
//! reentrant   a probe and promises that call the engine; memory released while it goes offline
//! races       two threads free one block, in every pair of ways, under every policy: exactly one succeeds
//! rivals      splits, references, poison; memory that goes online and offline, and areas
//! sections    metadata found through pointers that point below it, for Miri
//! objects     slabs: every safe function; attacks that need the unsafe free are in `slab`
//! promises    a kernel whose callbacks lie, free, allocate and panic, on several CPUs: no frame has two owners
//! panics      a platform that panics at every event, and at every call of each promise (`script` has the workload)
//! ```
//!
//! `machine` and `town` build the machines under attack, and `attempts` repeats attacks. Each harness has a test which
//! shows that it finds a planted fault.
//!
//! ```text
//! cargo test -p freehold --test it attackers::                        half a minute
//! ATTACKERS=all cargo test -p freehold --test it attackers::panics   every single event: some minutes
//! cargo +nightly miri test -p freehold --test it attackers::...      by name, with fewer rounds
//! ```
#![forbid(unsafe_code)]

mod attempts;
mod compile;
mod configs;
mod ends;
mod machine;
mod objects;
mod panics;
pub(crate) mod promises;
mod races;
mod ranges;
mod reentrant;
mod rivals;
mod script;
mod sections;
mod strangers;
mod town;
