//! The recipe: everything that somebody would need to know to make the same measurement again.

use serde::Serialize;

use super::{Method, Settings, clock, contest};
use crate::origin::{Machine, Program};
use crate::registry::{self, NamedPolicy};

/// How results came about.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recipe {
    /// The program that measured it.
    #[serde(flatten)]
    pub program: Program,
    /// The machine that it measured on.
    #[serde(flatten)]
    pub machine: Machine,
    /// The CPU that samples were pinned to.
    pub pinned_to_cpu: u16,
    /// The CPU of the second thread, where a case has one.
    pub partner_cpu: Option<u16>,
    /// What was read as time.
    pub clock: &'static str,
    /// Policies that took part.
    pub policies: Vec<PolicyEntry>,
    /// Largest difference that counts as none, in percent.
    pub margin_percent: f64,
    /// Most runs of a comparison.
    pub runs_max: usize,
    /// Most seconds of a comparison.
    pub seconds_max: f64,
    /// Seed of the order of samples and of the bootstrap.
    pub seed: u64,
}

/// A policy in full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyEntry {
    /// As it was asked for; numbers that were given stand here.
    pub name: String,
    /// What it chose in each field.
    pub choices: String,
}

impl Recipe {
    /// The recipe of what this process measures under these settings.
    pub fn new(settings: &Settings, policies: &[&NamedPolicy]) -> Recipe {
        let mut entries: Vec<PolicyEntry> = Vec::new();
        for policy in policies {
            if entries.iter().all(|entry| entry.name != policy.name) {
                entries.push(PolicyEntry { name: policy.name.clone(), choices: registry::choices(&policy.policy) });
            }
        }
        Recipe {
            program: Program::this(),
            machine: Machine::this(),
            pinned_to_cpu: settings.cpu,
            partner_cpu: settings.partner,
            clock: clock::NAME,
            policies: entries,
            margin_percent: settings.margin.as_percent(),
            runs_max: settings.runs_max,
            seconds_max: settings.time.as_secs_f64(),
            seed: settings.seed,
        }
    }

    fn place(&self) -> String {
        let second = self.partner_cpu.map_or_else(String::new, |cpu| format!(", a second thread to CPU {cpu}"));
        format!("CPU {}{second}", self.pinned_to_cpu)
    }

    /// The recipe in rows of a word and what it is, with those policies whose name `takes_part`.
    pub fn rows(&self, method: Method, takes_part: impl Fn(&String) -> bool) -> Vec<(String, String)> {
        let (clock, most) = match method {
            Method::Comparisons => {
                (self.clock, format!("{} runs or {} s a comparison", self.runs_max, self.seconds_max))
            }
            Method::Contest => {
                let (runs, seconds) = contest::limits(self.runs_max, self.seconds_max);
                ("the processor's time stamp counter", format!("{runs} runs or {seconds} s a contest"))
            }
        };
        let limits = format!("{most}, whichever comes first");
        let mut rows = vec![
            ("freehold", format!("{}, {} build", self.program.version(), self.machine.build)),
            ("processor", self.machine.cpu_model.clone()),
            ("kernel", self.machine.kernel_release.clone()),
            ("pinned to", self.place()),
            ("clock", clock.to_owned()),
            ("margin", format!("{} %", self.margin_percent)),
            ("at most", limits),
            ("seed", self.seed.to_string()),
        ];
        let policies = self.policies.iter().filter(|policy| takes_part(&policy.name));
        rows.extend(policies.map(|policy| ("policy", format!("{} is {}", policy.name, policy.choices))));
        rows.into_iter().map(|(word, meaning)| (word.to_owned(), meaning)).collect()
    }
}
