//! What the engine has of Linux in a process.
//!
//! ```text
//! mmap           address ranges
//! platform       locks and CPU numbers for the engine
//! rseq           CPU-local lists as restartable sequences
//! thread_local   the same in thread-local storage: how fast they could be at best
//! ```

pub mod mmap;
pub mod platform;
pub mod rseq;
pub mod thread_local;
