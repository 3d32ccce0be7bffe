//! Virtual time: any number of CPUs on one thread, each with a clock of its own, in one fixed order.
//!
//! ```text
//! clock       the clocks of all CPUs, and which locks they hold and await
//! turns       who is next: their keys, in order of time
//! scheduler   the loop: the CPU with the smallest clock runs until it parks
//! lock        the lock of this platform: taken in order of time
//! account     what the engine's steps cost, and where cache lines are
//! platform    all of this as an executor
//! ```
//!
//! A CPU runs without a switch for as long as its clock is the smallest; each [`take_turn`](clock::Clock::take_turn)
//! costs a comparison then, and two switches of a few nanoseconds each otherwise. No step allocates memory.
//!
//! A lock has no way to the executor that it belongs to, since the engine makes its locks itself. So the clock is the
//! thread's own: one run at a time on each thread, any number of threads.

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
