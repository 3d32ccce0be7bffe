//! What the engine has of Linux in a process.
//!
//! ```text
//! cpus           how many there may be
//! mmap           address ranges
//! platform       locks, and the CPU that a thread runs on, for the engine
//! rseq           CPU-local lists as restartable sequences
//! thread_local   the same in thread-local storage: how fast they could be at best
//! ```

pub mod cpus;
pub mod lock;
pub mod mmap;
pub mod platform;
pub mod rseq;
pub mod thread;
pub mod thread_local;
