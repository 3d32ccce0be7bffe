//! The kernel module on a host: each thread represents a CPU, a thread-local flag is its interrupt state, and a flag
//! per CPU is a call that is pending until interrupts are on.

mod boundary_values;
mod callbacks;
mod calls;
mod concurrent;
mod configurations;
mod effects;
pub(crate) mod false_callbacks;
mod faulty_platform;
mod handles;
mod heap;
mod hooks;
mod init;
pub(crate) mod machine;
mod pins;
mod reports;
mod variants;
