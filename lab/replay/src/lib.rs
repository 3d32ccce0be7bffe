//! Replay of a recording through the engine, under a policy.
//!
//! The file is read once. [`survey`] reads all of it without the engine and derives facts that no event reports: the
//! state of frames without page flags at the start, and the pages that were allocated or freed silently. The events
//! stay in memory in packed form. Then, for each policy:
//!
//! 1. [`machine`] builds a machine with the recorded zones, and [`start`] brings it into the recorded start state.
//!    Under other [`settings`] than the recorded ones, the machine has the watermarks and list limits that the kernel
//!    would have computed from these settings.
//! 2. [`player`] plays every event in order. A free names its allocation and never a frame ([`identity`]), since an
//!    allocation gets a different frame under another policy.
//! 3. At the end, [`outcome`] collects the engine's counts and [`fidelity`] compares them with the recorded kernel.
//!
//! The recorded kernel's reclaim and compaction are consequences of its own policy. By default they are therefore left
//! out of the replay. The engine reclaims and compacts by its own decisions, in its slow path and in its background
//! tasks. Its platform ([`platform`]) knows which pages are cold, because the recording shows which pages were
//! reclaimed ([`memory`]). This work takes time, in which the recording continues ([`schedule`]). At each recorded
//! sample the engine is compared with the kernel ([`divergence`]).
//!
//! Under [`ReclaimMode::Recorded`], the frees and migrations of reclaim and compaction are played as recorded, like all
//! other events, and the policy does not affect them.
//!
//! # Design
//!
//! A recording is replayed on its own memory. The results depend on decisions that the recorded kernel made on its own
//! frames. On other memory these decisions have no meaning, and most frees would be of blocks that do not exist. A
//! recorded load on the memory of another machine, aged or real, is simulated in virtual time instead: `freehold sim
//! recording FILE --start SNAPSHOT`, or `--age 60`.
//!
//! By default reclaim and compaction are decided by the engine, because under another policy they would have happened
//! at other times. `--reclaim recorded` plays them as recorded. Events that cannot be replayed are counted in either
//! mode (docs/fidelity.md).

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
mod probe;
pub mod report;
mod schedule;
mod settings;
mod start;
mod survey;
mod touched;

pub use error::Error;
pub use settings::{KNOWN as SETTINGS, KnownSetting, Setting};

use std::num::NonZeroU16;
use std::sync::Arc;

use clap::ValueEnum;
use freehold::Policy;
use freehold::stats::Counts;
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

/// Order of the blocks whose availability is measured: a huge page on x86-64.
const HUGE: u8 = 9;

/// The page allocator on the platform of replays.
type Engine<'m> = freehold::PageAllocator<'m, Stage>;

/// Treatment of the recorded kernel's reclaim and compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReclaimMode {
    /// The engine reclaims and compacts for itself
    #[default]
    Model,
    /// Reclaim and compaction do what they did in the recording, whatever the policy
    Recorded,
}

/// Passage of time in a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Pacing {
    /// Requests that reclaim or compact take as long as their work takes
    #[default]
    Work,
    /// Everything happens when it did in the recording; requests take no time
    Recorded,
}

/// Machine and conditions of a replay. Everything not set here is as in the recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions<'c> {
    /// Number of CPUs over which the recorded tasks are spread; `None` keeps each event on its recorded CPU.
    pub cpus: Option<NonZeroU16>,
    /// Kernel settings that replace the recorded ones.
    pub settings: &'c [Setting],
    /// Passage of time.
    pub pacing: Pacing,
    /// Data that is kept about the course of the replay.
    pub watch: Watch,
}

/// Data that is kept about the course of a replay, besides its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watch {
    /// Nothing.
    #[default]
    Nothing,
    /// The engine's counters at evenly spaced moments. The cost is negligible.
    Sums,
    /// The counters, and every pageblock at each of these moments. At the last moment also the frames of the pageblocks
    /// that changed.
    Map,
    /// Every pageblock at one moment, and the frames of one pageblock or of all that changed.
    Moment {
        /// The moment, in nanoseconds since the recording started.
        time: u64,
        /// Number of the pageblock in the map; `None` keeps the frames of all pageblocks that changed.
        block: Option<usize>,
    },
}

/// Options of a replay.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    /// See [`Conditions::cpus`].
    cpus: Option<NonZeroU16>,
    /// Treatment of reclaim and compaction.
    reclaim: ReclaimMode,
    /// See [`Conditions::pacing`].
    pacing: Pacing,
    /// See [`Conditions::watch`].
    watch: Watch,
}

/// A recording prepared for any number of replays: its events, and the facts that its events do not report. The file is
/// not needed after preparation.
pub struct PreparedReplay {
    facts: Arc<Facts>,
    reclaim: ReclaimMode,
    survey: Survey,
    /// The decoded events.
    events: Columns,
    /// Number of rows after the events.
    end_rows: u64,
}

impl PreparedReplay {
    /// Reads the recording once, for replays in this mode.
    ///
    /// The cost is about that of reading the file. In memory stay 14 to 18 bytes an event ([`Columns`]) and some bytes
    /// for each block of the start state. While the file is read, one more byte is used for each frame of the recorded
    /// machine and four more for each frame that events name.
    ///
    /// # Errors
    /// If the recording cannot be read, or the engine cannot represent its machine.
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

    /// Replays the recording under `policy`, with `name` as the policy's name in the outcome, and under these
    /// conditions. `advance` receives the number of rows of the recording that were processed since its last call: the
    /// start state, the events, and the end state.
    ///
    /// # Errors
    /// If a setting cannot be changed on this recording or under this policy, or the machine cannot be built.
    pub fn replay(
        &self,
        name: &str,
        policy: Policy,
        conditions: Conditions<'_>,
        mut advance: impl FnMut(u64),
    ) -> Result<ReplayOutcome, Error> {
        self.replay_dyn(name, policy, conditions, &mut advance)
    }

    /// Implements [`PreparedReplay::replay`]. It is not generic, so that the engine is compiled in this crate and not
    /// again in each crate that replays.
    fn replay_dyn(
        &self,
        name: &str,
        policy: Policy,
        conditions: Conditions<'_>,
        advance: &mut dyn FnMut(u64),
    ) -> Result<ReplayOutcome, Error> {
        let Conditions { cpus, settings, pacing, watch } = conditions;
        settings::check(&self.facts, &policy, settings)?;
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
    /// Checks that the recording can be replayed under this policy with these settings, as every replay does.
    ///
    /// # Errors
    /// If a setting cannot be changed on this recording or under this policy.
    pub fn check_settings(&self, policy: &Policy, settings: &[Setting]) -> Result<(), Error> {
        settings::check(&self.facts, policy, settings)
    }

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

/// Access to the counters behind the platform.
trait ProbeCounts {
    fn probe_counts(&self) -> Counts;
}

impl ProbeCounts for Stage {
    fn probe_counts(&self) -> Counts {
        freehold::platform::Platform::probe(self).counts()
    }
}
