//! Replay: a recording through the engine, under a policy.
//!
//! The file is read once. [`survey`] sees all of it without the engine and finds out what the events do not say: what
//! the frames without page flags were, and which pages changed hands silently; the events stay in memory, packed. Then,
//! for each policy, a machine with the recorded zones is built ([`machine`]), put where the recorded one was at the
//! start ([`start`]), and every event is played in order ([`player`]). A free names its allocation, never its frame
//! ([`identity`]), since frames differ under another policy. At the end the engine is counted and held against the
//! recorded kernel ([`outcome`], [`fidelity`]). Under other [`settings`] than the recorded ones the machine is what the
//! kernel would have made of them.
//!
//! What the recorded kernel's reclaim and compaction did, its policy made them do. So by default it is left out, and
//! the engine reclaims and compacts for itself, in its slow path and in its background tasks, through a platform
//! ([`platform`]) that knows which pages are cold, since the recording shows it ([`memory`]). That takes time, in which
//! the recording goes on ([`schedule`]), and at each recorded sample the engine is held against the kernel
//! ([`divergence`]). [`ReclaimMode::Recorded`] plays it as recorded instead: frees and migrations are events like all
//! others, and the policy changes nothing in them.

pub mod advice;
mod cached;
mod counts;
mod divergence;
mod error;
mod fidelity;
mod identity;
mod lists;
mod machine;
mod memory;
mod moments;
mod outcome;
mod platform;
mod player;
pub mod report;
mod schedule;
mod settings;
mod start;
mod survey;
mod touched;

pub use error::Error;
pub use settings::Setting;

use std::cell::Cell;
use std::num::NonZeroU16;
use std::sync::Arc;

use clap::ValueEnum;
use freehold::Policy;
use freehold::stats::{Counters, Counts};
use freehold_report::observer;
use freehold_trace::event::Section;
use freehold_trace::{Columns, Facts, Reader};
use identity::{Identity, WayBack};
use lists::Lists;
use memory::Memory;
use platform::{Costs, Stage};
use settings::Situation;
use survey::Survey;

use crate::report::outcome::ReplayOutcome;

/// Order of the blocks whose availability is judged: a huge page on x86-64.
const HUGE: u8 = 9;

/// Counts what the engine does, on one thread.
type Probe = Counters<Cell<u64>>;
/// The engine as replays run it.
type Engine<'m> = freehold::PageAllocator<'m, Stage>;

/// What becomes of what the recorded kernel did because memory was short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReclaimMode {
    /// The engine reclaims and compacts for itself
    #[default]
    Model,
    /// Reclaim and compaction do what they did in the recording, whatever the policy
    Recorded,
}

/// How time passes in a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Pacing {
    /// Requests that reclaim or compact take as long as their work takes
    #[default]
    Work,
    /// Everything happens when it did in the recording; requests take no time
    Recorded,
}

/// The machine on which to replay: the recorded one, but for what is said here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions<'c> {
    /// Spread the recorded tasks over this many CPUs; `None` keeps each event on its recorded CPU.
    pub cpus: Option<NonZeroU16>,
    /// Settings of the kernel that are not as they were recorded.
    pub settings: &'c [Setting],
    /// How time passes.
    pub pacing: Pacing,
    /// What is kept of the course.
    pub watch: Watch,
}

/// What is kept of the course of a replay, besides what it comes to at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watch {
    /// Nothing.
    #[default]
    Nothing,
    /// What the engine's counters say at evenly spaced moments. Costs nothing to speak of.
    Sums,
    /// The same, and every pageblock at each of these, with the frames of those that changed at the last.
    Map,
    /// Every pageblock at one moment, and the frames of one of them.
    Moment {
        /// The moment, in nanoseconds since the recording started.
        time: u64,
        /// The pageblock, by its number in the map; without one, frames of all that changed.
        block: Option<usize>,
    },
}

/// How to replay.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    /// See [`Conditions::cpus`].
    cpus: Option<NonZeroU16>,
    /// What becomes of reclaim and compaction.
    reclaim: ReclaimMode,
    /// See [`Conditions::pacing`].
    pacing: Pacing,
    /// See [`Conditions::watch`].
    watch: Watch,
}

/// What a recording's events do not say, found once for all replays of it. The file is not needed any more.
pub struct PreparedReplay {
    facts: Arc<Facts>,
    reclaim: ReclaimMode,
    survey: Survey,
    /// The events, decoded once.
    events: Columns,
    /// Rows after them.
    end_rows: u64,
}

impl PreparedReplay {
    /// Reads the recording once, for replays in this mode. Cost: about as long as reading it. What stays in memory is
    /// 14 to 18 bytes an event ([`Columns`]), and some for each block of the start state; while it reads, a byte a
    /// frame of the recorded machine, and four more for each that events name.
    ///
    /// # Errors
    /// If it cannot be read, or is of a machine that the engine cannot hold.
    pub fn new(reader: &Reader, reclaim: ReclaimMode) -> Result<PreparedReplay, Error> {
        machine::check(reader.facts())?;
        let (mut events, mut end_rows) = (Columns::default(), 0);
        let survey = Survey::read(reader, reclaim, |batch| {
            observer::go_on();
            let of_events = batch.section(Section::Events);
            end_rows += (batch.len() - of_events.end) as u64;
            match of_events.len() == batch.len() {
                true => events.push(batch),
                false => events.push(&batch.cut(of_events)),
            }
        })?;
        Ok(PreparedReplay { facts: reader.shared_facts(), reclaim, survey, events, end_rows })
    }

    /// Replays the recording under `policy`, which is called `name`, and under these conditions; `advance` hears how
    /// many events were played since it was last called.
    ///
    /// # Errors
    /// If its machine cannot be built.
    pub fn replay(
        &self,
        name: &str,
        policy: Policy,
        conditions: Conditions<'_>,
        mut advance: impl FnMut(u64),
    ) -> Result<ReplayOutcome, Error> {
        self.replay_dyn(name, policy, conditions, &mut advance)
    }

    /// Does [`PreparedReplay::replay`]'s work. It is not generic, so that the engine is compiled here and not once more
    /// in each crate that replays.
    fn replay_dyn(
        &self,
        name: &str,
        policy: Policy,
        conditions: Conditions<'_>,
        advance: &mut dyn FnMut(u64),
    ) -> Result<ReplayOutcome, Error> {
        let Conditions { cpus, settings, pacing, watch } = conditions;
        let situation = Situation::new(&self.facts, settings);
        let facts = &situation.facts;
        let options = Options { cpus, reclaim: self.reclaim, pacing, watch };
        let shape = machine::Shape::new(facts, policy, options);
        let outcome = shape.build(self.stage(&shape), |engine| {
            start::restore(engine, &situation, &self.survey);
            advance(self.survey.start_rows);
            let before = engine.platform().probe_counts();
            let mut player = player::Player::new(engine, &situation, &self.survey, options);
            player.play(&self.events, advance);
            advance(self.end_rows);
            let counts = engine.platform().probe_counts().since(&before);
            let (tally, course) = (player.tally(), player.course(&self.facts));
            let totals = outcome::Totals { counts, tally, course };
            let outcome = outcome::assemble(name, engine, facts, &self.survey, totals, options);
            outcome.with_assumptions(settings::assumptions(settings)).with_guesses(&self.facts.guesses)
        });
        outcome.map_err(|error| Error::Machine(format!("this recording cannot be replayed: {error}")))
    }
}

impl PreparedReplay {
    fn stage(&self, shape: &machine::Shape) -> Stage {
        let back = match self.reclaim {
            ReclaimMode::Model => WayBack::Kept,
            ReclaimMode::Recorded => WayBack::None,
        };
        let identity = Identity::new(self.survey.end, back);
        let memory = Memory::new(identity, &self.survey.reclaimed, shape.ranges());
        Stage::new(self.reclaim, Lists::from_facts(&self.facts), memory, Costs::from_pace(&self.survey.pace))
    }
}

/// Reads the counters behind the platform.
trait ProbeCounts {
    fn probe_counts(&self) -> Counts;
}

impl ProbeCounts for Stage {
    fn probe_counts(&self) -> Counts {
        freehold::platform::Platform::probe(self).counts()
    }
}
