//! Subjects: the sides of a comparison that can be timed.
//!
//! A [`Subject`] is an engine under a policy, the lower bound of its time, or the program of another allocator. It is *opened*
//! for a run: it builds its machine, passes a sampler to a callback, and tears the machine down when the callback
//! returns. Opening takes a callback so that two subjects can be open at once, one inside the other, and neither
//! outlives its machine.

use serde::Serialize;

use crate::error::Error;

pub(crate) use freehold_timing::clock::Sample;

/// Function that takes one sample of an open subject.
pub(crate) type Sampler<'s> = dyn FnMut() -> Result<Sample, Error> + 's;

/// Callback that uses the sampler while the subject is open.
pub(crate) type Then<'t> = dyn FnMut(&mut Sampler<'_>) -> Result<(), Error> + 't;

/// One side of a comparison.
pub trait Subject {
    /// Returns the name for tables: a policy, a lower bound, or a peer.
    fn name(&self) -> &str;

    /// Builds what the subject needs, lets `then` take samples of `operations` operations, and tears it down.
    ///
    /// # Errors
    /// When the subject cannot be built, or `then` fails.
    fn open(&self, operations: u64, then: &mut Then<'_>) -> Result<(), Error>;
}

/// Work that both sides of a comparison do.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Name, which never changes.
    pub name: &'static str,
    /// Short description of the work.
    pub about: &'static str,
    /// Name of an operation, with its article.
    pub operation: &'static str,
    /// Operations per sample. They take about half a millisecond, so that the cost of reading the clock is negligible.
    pub operations: u64,
    /// Pairs of samples in each half of a run.
    pub pairs: u32,
}

/// Amount of measuring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effort {
    /// Enough runs for a verdict.
    Full,
    /// Just enough to show that the benchmark works.
    Quick,
}

impl Effort {
    /// Returns the operations per sample.
    pub fn operations(self, case: &Case) -> u64 {
        match self {
            Effort::Full => case.operations,
            Effort::Quick => (case.operations / 100).max(1),
        }
    }

    /// Returns the pairs of samples in each half of a run.
    pub fn pairs(self, case: &Case) -> u32 {
        match self {
            Effort::Full => case.pairs,
            Effort::Quick => 1,
        }
    }
}
