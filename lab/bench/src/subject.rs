//! What can be timed.
//!
//! A [`Subject`] is one side of a comparison: an engine under a policy, the floor below it, another allocator's
//! program. It is *opened* for a run: it builds its machine, hands over a sampler, and takes the machine apart
//! when the run is done. Opening is a call with a callback, so that two subjects can be open at once, one
//! inside the other, and none outlives its machine.

use serde::Serialize;

use crate::error::Error;

pub(crate) use freehold_timing::clock::Sample;

/// Takes one sample of an open subject.
pub(crate) type Sampler<'s> = dyn FnMut() -> Result<Sample, Error> + 's;

/// What is done with the sampler while the subject is open.
pub(crate) type Then<'t> = dyn FnMut(&mut Sampler<'_>) -> Result<(), Error> + 't;

/// One side of a comparison.
pub trait Subject {
    /// Its name in tables: a policy, `floor`, a peer.
    fn name(&self) -> &str;

    /// Builds what the subject needs, lets `then` take samples of so many operations, and takes it apart.
    ///
    /// # Errors
    /// When it cannot be built, or `then` fails.
    fn open(&self, operations: u64, then: &mut Then<'_>) -> Result<(), Error>;
}

/// What is done to both sides of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name, which never changes.
    pub name: &'static str,
    /// What is done, in a few words.
    pub about: &'static str,
    /// What an operation is, with its article.
    pub operation: &'static str,
    /// Operations of one sample: about half a millisecond, so that reading the clock does not count.
    pub operations: u64,
    /// Pairs of samples in each half of a run.
    pub pairs: u32,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effort {
    /// Enough for a verdict.
    Full,
    /// Just enough to see that it runs.
    Quick,
}

impl Effort {
    /// Operations of one sample.
    pub fn operations(self, case: &Case) -> u64 {
        match self {
            Effort::Full => case.operations,
            Effort::Quick => (case.operations / 100).max(1),
        }
    }

    /// Pairs of samples in each half of a run.
    pub fn pairs(self, case: &Case) -> u32 {
        match self {
            Effort::Full => case.pairs,
            Effort::Quick => 1,
        }
    }
}
