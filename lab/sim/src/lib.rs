//! Simulation of many CPUs on the real engine, in virtual time. It measures the effect of an allocator policy on a
//! machine with up to hundreds of CPUs.
//!
//! ```text
//! plan        an experiment as a file: workload, machine, CPUs, policies, seeds        (TOML)
//! run         one run: a workload, a machine, a number of CPUs, one policy, one seed
//! machine     memory, nodes, CPUs
//! start       state of the memory when a run begins, as earlier workloads left it
//! workload    the work of each CPU, as straight-line code on a `cpu`
//! playback    a recording as steps that the CPUs of a run play
//! executor    the platform that runs this code: `virtual_time`, one thread and a cost table; `threads`, for comparison
//! memory      the owner of each page: page cache, tasks, kernel objects
//! background  kswapd, kcompactd and khugepaged, beside the CPUs
//! outcome     results of a run: tallies, counters, fragmentation
//! measure     measures of runs and hosts: names, units, directions
//! ```
//!
//! Every CPU is a coroutine with its own clock. It runs until it needs something that CPUs share, a lock or a stack.
//! Then the CPU with the smallest clock continues. Locks are therefore taken in order of virtual time, a trylock fails
//! if the lock is held at that time, and each wait is a number. [`costs`] documents the cost of each step, and what the
//! simulation leaves out. All decisions use integers, and random numbers come from a seed, so the same plan gives the
//! same bytes on every machine.
//!
//! # Design
//!
//! A workload is straight-line code over a simulated CPU (`cpu`), so the same workload runs on both executors: on
//! threads in real time, and in virtual time as coroutines. The engine's probe reports the steps and a table gives
//! their costs. `freehold calibrate --check` compares the outcome in virtual time with threads.

mod background;
mod block;
pub mod calibrate;
pub mod costs;
mod cpu;
mod error;
mod executor;
pub mod fleet;
pub mod machine;
mod mailbox;
pub mod measure;
mod memory;
pub mod meter;
pub mod outcome;
pub mod plan;
mod playback;
mod random;
pub mod report;
pub mod run;
pub mod start;
pub mod sweep;
mod task;
mod threads;
mod virtual_time;
mod window;
pub mod workload;
mod world;

pub use error::Error;

/// Maximum number of CPUs of a run.
pub const CPUS_MAX: u16 = 512;
/// Maximum number of nodes of a machine.
pub const NODES_MAX: u8 = 8;
