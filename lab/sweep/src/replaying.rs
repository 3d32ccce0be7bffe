//! Replays of one recording, made as by `freehold compare`.

use std::num::NonZeroU16;
use std::sync::Arc;

use freehold_policies::NamedPolicy;
use freehold_replay::{Conditions, Pacing, PreparedReplay, ReclaimMode, Watch, advice};
use freehold_trace::Facts;
use freehold_trace::kernel::Release;
use freehold_trace::recording::{Recording, RecordingFacts};

use crate::error::TaskError;
use crate::outcome::Replay;
use crate::plan::Replays;
use crate::subject::Identity;

/// A recording that is prepared for replays.
pub(crate) struct Replayer {
    prepared: PreparedReplay,
    machine: Arc<Facts>,
    release: Release,
    facts: RecordingFacts,
}

impl Replayer {
    /// Reads the recording. Its file is not needed afterwards.
    pub(crate) fn new(identity: &Identity, recording: Recording) -> Result<Replayer, TaskError> {
        let prepared = PreparedReplay::new(&recording.reader, ReclaimMode::Model)?;
        let facts = RecordingFacts { file: format!("{}.parquet", identity.name), ..recording.facts(None) };
        Ok(Replayer { prepared, machine: recording.reader.shared_facts(), release: recording.release, facts })
    }

    /// Replays the recording under a policy, settings and CPUs, given as indices in the plan. `None` stands for the
    /// recorded ones.
    pub(crate) fn replay(
        &self,
        replays: &Replays,
        policy: Option<usize>,
        setting: Option<usize>,
        cpus: Option<usize>,
    ) -> Result<Replay, TaskError> {
        let named = self.policy(replays, policy)?;
        let settings = setting.map_or(&[][..], |at| &replays.settings[at]);
        let replay_cpus = cpus.and_then(|at| replays.cpus[at]);
        let variants = match replays.exact {
            true => vec![settings.to_vec()],
            false => advice::with_nudges(&self.machine, settings),
        };
        let mut outcomes = variants.iter().map(|settings| {
            let conditions = Conditions { cpus: replay_cpus, settings, pacing: Pacing::Work, watch: Watch::Nothing };
            self.prepared.replay(&named.name, named.policy, conditions, |_| {})
        });
        let mut outcome = outcomes.next().expect("the first outcome is that of the unvaried settings")?;
        outcome.nudged = outcomes.collect::<Result<_, _>>()?;
        Ok(Replay { facts: self.facts_on(replay_cpus), outcome })
    }

    fn facts_on(&self, cpus: Option<NonZeroU16>) -> RecordingFacts {
        RecordingFacts { replay_cpus: cpus.map_or(self.facts.cpus, NonZeroU16::get), ..self.facts.clone() }
    }

    /// Returns a policy by its index in the plan. If A is the recorded kernel's rules, a policy B is based on these
    /// rules.
    fn policy(&self, replays: &Replays, place: Option<usize>) -> Result<NamedPolicy, TaskError> {
        let rules = self.release.rules();
        match place.map(|place| replays.policy(place)) {
            None | Some(None) => Ok(freehold_policies::parse(rules)?),
            Some(Some(b)) if replays.a.is_none() => Ok(freehold_policies::parse(&self.release.on_rules(&b.name))?),
            Some(Some(policy)) => Ok(policy.clone()),
        }
    }
}
