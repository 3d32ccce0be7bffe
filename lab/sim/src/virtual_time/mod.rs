//! Virtual time: any number of CPUs on one thread, each with its own clock, in a deterministic order.
//!
//! ```text
//! clock       the clocks of all CPUs, and the locks that they hold and wait for
//! turns       order of the suspended CPUs: their keys, in order of time
//! scheduler   the loop: the CPU with the smallest clock runs until it is suspended
//! lock        the lock of this platform: taken in order of time
//! account     costs of the engine's steps, and the location of cache lines
//! platform    all of this as an executor
//! ```
//!
//! A CPU runs without a switch for as long as its clock is the smallest. Each [`take_turn`](clock::Clock::take_turn)
//! then costs a comparison, and otherwise two switches of a few nanoseconds each. No step allocates memory.
//!
//! The engine makes its locks itself, so a lock has no reference to its executor. The clock is therefore thread-local:
//! each thread can execute one run at a time, and any number of threads can be used.
//!
//! # Design
//!
//! Hundreds of CPUs on one thread alternate after every operation, and no cache near the processor holds the data of
//! all of them. Therefore the keys of all CPUs are one heap with eight bytes per key (`turns`), and the stacks begin at
//! different offsets of their pages, so that they use different sets of a cache (`freehold_fiber`). While one CPU runs,
//! the processor prefetches data that the next CPU noted before it was suspended: its stack, the lock that it requests,
//! the page that it frees ([`Executor::expect`](crate::executor::Executor::expect)). None of this influences a
//! decision.

mod account;
mod clock;
mod lock;
mod platform;
mod scheduler;
mod turns;

pub(crate) use platform::VirtualTime;
pub(crate) use scheduler::{Observer, StopReason, run};

#[cfg(test)]
mod tests;
