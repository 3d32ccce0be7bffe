//! Measuring a run: what CPUs did (`tally`), what became of memory (`fragmentation`), and all of it together
//! (`outcome`).

pub mod fragmentation;
pub mod outcome;
pub mod tally;
