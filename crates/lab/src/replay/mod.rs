//! Replay: a recording through the engine, under a policy.
//!
//! Two passes over the file. [`survey`] reads it once without the engine and finds out what the events do not say: what
//! the frames without page flags were, and which pages changed hands silently. Then a machine
//! with the recorded zones is built ([`machine`]), put where the recorded one was at the start ([`start`]), and every
//! event is played in order ([`player`]). A free names its allocation, never its frame ([`identity`]), since frames
//! differ under another policy. At the end the engine is counted and held against the recorded kernel ([`outcome`],
//! [`fidelity`]).
//!
//! What the recorded kernel's reclaim and compaction did is played as recorded: their frees and migrations are events like
//! all others. What they would have done under another policy is not asked.

mod cached;
mod fidelity;
mod identity;
mod machine;
mod outcome;
mod player;
mod start;
mod survey;

use std::cell::Cell;
use std::num::NonZeroU16;

use freehold::Policy;
use freehold::platform::host::Solo;
use freehold::stats::Counters;
use freehold_trace::Reader;

use crate::error::Error;
use crate::report::model::ReplayOutcome;

use survey::Survey;

/// Counts what the engine does, on one thread.
type Probe = Counters<Cell<u64>>;
/// The engine as replays run it.
type Engine<'m> = freehold::PageAllocator<'m, Solo<Probe>>;

/// How to replay.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Spread the recorded tasks over this many CPUs; `None` keeps each event on its recorded CPU.
    pub cpus: Option<NonZeroU16>,
}

/// What a recording's events do not say, found once for all replays of it.
pub struct Prepared<'r> {
    reader: &'r Reader,
    survey: Survey,
}

impl<'r> Prepared<'r> {
    /// Reads the recording once. Cost: about as long as reading it; 10 bytes a frame of the recorded machine.
    ///
    /// # Errors
    /// If it cannot be read, or is of a machine that the engine cannot hold.
    pub fn new(reader: &'r Reader) -> Result<Prepared<'r>, Error> {
        machine::check(reader.facts())?;
        Ok(Prepared { reader, survey: Survey::of(reader)? })
    }

    /// Replays the recording under `policy`, which is called `name`; `advance` hears how many events were played since it
    /// was last called.
    ///
    /// # Errors
    /// If the recording cannot be read.
    pub fn replay(
        &self,
        name: &str,
        policy: Policy,
        options: Options,
        advance: impl FnMut(u64),
    ) -> Result<ReplayOutcome, Error> {
        let facts = self.reader.facts();
        let shape = machine::Shape::of(facts, policy, options);
        let outcome = shape.build(|engine| {
            start::restore(engine, facts, &self.survey);
            let before = engine.platform().probe_counts();
            let mut player = player::Player::new(engine, facts, &self.survey, options);
            player.play(self.reader, advance)?;
            let counts = engine.platform().probe_counts().since(&before);
            Ok(outcome::of(name, engine, facts, &self.survey, counts, player.tally(), options))
        });
        outcome.map_err(|error| Error::Input(format!("this recording cannot be replayed: {error}")))?
    }
}

/// Reads the counters behind the platform.
trait ProbeCounts {
    fn probe_counts(&self) -> freehold::stats::Counts;
}

impl ProbeCounts for Solo<Probe> {
    fn probe_counts(&self) -> freehold::stats::Counts {
        freehold::platform::Platform::probe(self).counts()
    }
}
