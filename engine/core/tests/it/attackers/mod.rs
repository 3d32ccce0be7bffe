//! Attackers: programs of safe code, each of which tries to break the core. None may get at the inside, hand out a
//! frame twice, lose one, or leave a machine that `check` does not accept; what was refused must have changed nothing.
//!
//! ```text
//! compile     what must not compile: variance, forged words, guards that travel, caches that outlive
//! ends        every function that takes a frame, at every frame at which it could hurt, with every order
//! ranges      every function that takes a range, at every pair of ends
//! strangers   CPUs and nodes that are not there; another allocator's zones and areas; levels without measure
//! configs     configurations with every field at its ends, and wrong ones
//! reentrant   a probe and promises that call back; memory released while it goes offline
//! races       two threads free one block, in every pair of ways, under every policy: one does
//! rivals      splits, references, poison; memory that comes, goes, and is set aside
//! sections    metadata found through pointers that lead below it, for Miri
//! objects     slabs: every safe function of theirs; what only those who may free can try is in `slab`
//! promises    a kernel whose callbacks lie, free, request memory and panic, on several CPUs: no frame has two owners
//! panics      a platform that panics at every event, and in each promise at every call (`script` is what it plays)
//! ```
//!
//! `machine` and `town` are what is attacked, `attempts` makes many of them. Each harness has a test that shows that it
//! finds what it looks for.
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
