//! The measured part of a run.

/// Measured part of a run, in picoseconds since the run began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Begin of the window. Earlier operations are warm-up and are not counted: lists fill, and limits adapt.
    pub begin: u64,
    /// End of the window. Later operations are not counted: CPUs wind down.
    pub end: u64,
}

/// Picoseconds in a millisecond.
const PS_PER_MS: u64 = 1_000_000_000;

impl Window {
    /// Returns a window of `duration_ms` milliseconds after `warmup_ms` milliseconds of warm-up.
    pub fn after_ms(warmup_ms: u64, duration_ms: u64) -> Window {
        Window { begin: warmup_ms * PS_PER_MS, end: (warmup_ms + duration_ms) * PS_PER_MS }
    }

    /// Returns whether an operation at this time is counted.
    pub fn contains(&self, now: u64) -> bool {
        (self.begin..self.end).contains(&now)
    }

    /// Returns the length of the window in picoseconds.
    pub fn picoseconds(&self) -> u64 {
        self.end - self.begin
    }
}
