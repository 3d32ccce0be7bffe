//! Simulated CPUs: what a policy does to hundreds of CPUs, on the real engine, in virtual time.
//!
//! ```text
//! plan        what is to be found out: workload, machine, CPUs, policies, seeds        (TOML)
//! run         one run: a workload, a machine, so many CPUs, one policy, one seed
//! machine     memory, nodes, CPUs
//! start       how memory lies when a run begins: of a machine as workloads leave it
//! workload    what each CPU does, as straight-line code on a `cpu`
//! playback    a recording as steps that the CPUs of a run play
//! executor    what runs that code: `virtual_time`, one thread and a cost table; `threads`, for comparison
//! memory      who has which page: page cache, tasks, kernel objects
//! background  kswapd, kcompactd and khugepaged, beside the CPUs
//! outcome     results of a run: tallies, counters, fragmentation
//! measure     measures of runs and hosts: names, units, directions
//! ```
//!
//! Every CPU is a coroutine with a clock of its own. It runs until it wants something that CPUs share, a lock or a
//! stack; then the CPU with the smallest clock goes on. So locks are taken in order of time, trylocks fail when the
//! lock is held at that time, and waiting comes out as a number. What steps cost stands in [`costs`], together with
//! what the simulation leaves out. Everything that decides anything is an integer, and what is drawn by chance comes
//! from a seed: the same plan gives the same bytes on every machine.

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

/// CPUs that a run may have.
pub const CPUS_MAX: u16 = 512;
/// Nodes that a machine may have.
pub const NODES_MAX: u8 = 8;
