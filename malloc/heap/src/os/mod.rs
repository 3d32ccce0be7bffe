//! Services of Linux that the engine needs inside a process.
//!
//! ```text
//! budget         limit of the memory that is taken from the system
//! cpus           upper bound of CPU numbers
//! mmap           address ranges
//! growth         ranges that are mapped as they grow
//! holes          parts of a range that are left to other mappings
//! gap            addresses for ranges that are mapped as they grow
//! lock           a spin lock that yields, and a mutex
//! thread         a few words of thread-local state
//! platform       the engine's platform: locks, and the CPU that a thread runs on
//! rseq           CPU-local lists as restartable sequences
//! thread_local   CPU-local lists in thread-local storage, as a lower bound of the cost in benchmarks
//! ```

pub mod budget;
pub mod cpus;
mod gap;
mod growth;
pub mod holes;
pub mod lock;
pub mod mmap;
pub mod platform;
pub mod rseq;
pub mod thread;
pub mod thread_local;
