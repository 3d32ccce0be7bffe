//! The part of a run that is measured.

/// When a run is measured, in picoseconds since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// What is done before is not counted: lists fill, and limits find their place.
    pub begin: u64,
    /// What is done from here on is not counted: CPUs wind down.
    pub end: u64,
}

/// Picoseconds in a millisecond.
const PS_PER_MS: u64 = 1_000_000_000;

impl Window {
    /// So many milliseconds, after so many others.
    pub fn after_ms(warmup_ms: u64, duration_ms: u64) -> Window {
        Window { begin: warmup_ms * PS_PER_MS, end: (warmup_ms + duration_ms) * PS_PER_MS }
    }

    /// Whether what happens now counts.
    pub fn contains(&self, now: u64) -> bool {
        (self.begin..self.end).contains(&now)
    }

    /// How long it is.
    pub fn picoseconds(&self) -> u64 {
        self.end - self.begin
    }
}
