//! What the engine has of Linux in a process.
//!
//! ```text
//! rseq           CPU-local lists as restartable sequences
//! thread_local   the same in thread-local storage: how fast they could be at best
//! ```

pub mod rseq;
pub mod thread_local;
