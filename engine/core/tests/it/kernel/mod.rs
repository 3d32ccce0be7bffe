//! The kernel module on a host: threads stand for CPUs, a flag of the thread for its interrupts, and a flag of the CPU
//! for a call that waits for them to be on.

mod callbacks;
mod calls;
mod handles;
mod heap;
mod hooks;
mod intake;
pub(crate) mod liars;
pub(crate) mod machine;
mod pins;
mod reports;
mod storm;
mod variants;
