//! Measuring a run: what CPUs did (`tally`), what became of memory (`fragmentation`), what was counted under the
//! kernel's names (`vmstat`), and all of it together (`outcome`).

pub mod fragmentation;
pub mod outcome;
pub mod tally;
pub mod vmstat;
