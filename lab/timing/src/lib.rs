//! Measurement of time: clocks with their overhead subtracted, pinning of threads to CPUs, and spinning barriers.
//!
//! [`clock`] calibrates a clock on one CPU, [`affinity`] pins the calling thread, and [`spin_barrier`] starts threads
//! at the same moment.

pub mod affinity;
pub mod clock;
pub mod spin_barrier;
