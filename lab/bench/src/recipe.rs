//! The recipe: everything that is needed to repeat a measurement.

use freehold_policies::NamedPolicy;
use freehold_report::number;
use freehold_report::origin::{Machine, Program};
use freehold_timing::clock;
use serde::Serialize;

use super::contest;
use super::settings::{Method, Settings};
use super::subject::Effort;

/// Conditions under which results were measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recipe {
    /// Program that measured.
    #[serde(flatten)]
    pub program: Program,
    /// Machine that the program ran on.
    #[serde(flatten)]
    pub machine: Machine,
    /// CPU that the sampling thread was pinned to.
    pub pinned_to_cpu: u16,
    /// CPU of the second thread, for cases that have one.
    pub partner_cpu: Option<u16>,
    /// Clock and limits. If there were comparisons and contests, these are the ones of the comparisons. Each result
    /// names its own.
    #[serde(flatten)]
    pub timing: Timing,
    /// Policies that took part.
    pub policies: Vec<PolicyEntry>,
    /// Amount of measuring.
    pub effort: Effort,
    /// Largest difference that counts as no difference, in percent.
    pub margin_percent: f64,
    /// Seed of the order of samples and of the bootstrap.
    pub seed: u64,
}

/// Method, clock and limits of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Timing {
    /// Method of measurement.
    pub method: Method,
    /// Name of the clock.
    pub clock: &'static str,
    /// Maximum runs of a comparison, or of a contest.
    pub runs_max: usize,
    /// Maximum seconds of a comparison, or of a contest.
    pub seconds_max: f64,
}

impl Timing {
    /// Returns the clock and the limits of a method under these settings.
    pub fn new(method: Method, settings: &Settings) -> Timing {
        let (runs_max, seconds_max) = (settings.runs_max, settings.time.as_secs_f64());
        match method {
            Method::Comparisons => Timing { method, clock: clock::NAME, runs_max, seconds_max },
            Method::Contest => {
                let (runs_max, seconds_max) = contest::limits(runs_max, seconds_max);
                Timing { method, clock: contest::CLOCK, runs_max, seconds_max }
            }
        }
    }

    fn limits(&self) -> String {
        let Timing { runs_max, seconds_max, .. } = self;
        let what = match self.method {
            Method::Comparisons => "a comparison",
            Method::Contest => "a contest",
        };
        let runs = number::unit(*runs_max as u64, "runs");
        format!("{runs_max} {runs} or {seconds_max} s {what}, whichever comes first")
    }
}

/// A policy with all of its choices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyEntry {
    /// Name as requested, including the numbers that were given with it.
    pub name: String,
    /// Choice of the policy in each field.
    pub choices: String,
}

impl Recipe {
    /// Returns the recipe for measurements by this process, with these methods and settings.
    pub fn new(methods: &[Method], settings: &Settings, policies: &[&NamedPolicy]) -> Recipe {
        let mut entries: Vec<PolicyEntry> = Vec::new();
        for policy in policies {
            if entries.iter().all(|entry| entry.name != policy.name) {
                entries.push(PolicyEntry {
                    name: policy.name.clone(),
                    choices: freehold_policies::choices(&policy.policy),
                });
            }
        }
        let is_contest = methods.iter().all(|method| *method == Method::Contest);
        let method = if is_contest { Method::Contest } else { Method::Comparisons };
        Recipe {
            program: Program::this(),
            machine: Machine::this(),
            pinned_to_cpu: settings.cpu,
            partner_cpu: settings.partner,
            timing: Timing::new(method, settings),
            policies: entries,
            effort: settings.effort,
            margin_percent: settings.margin.as_percent(),
            seed: settings.seed,
        }
    }

    fn place(&self) -> String {
        let second = self.partner_cpu.map_or_else(String::new, |cpu| format!(", a second thread to CPU {cpu}"));
        format!("CPU {}{second}", self.pinned_to_cpu)
    }

    /// Returns the recipe as rows of a keyword and its value, with those policies for whose name `takes_part` is true.
    pub fn rows(&self, timing: &Timing, takes_part: impl Fn(&String) -> bool) -> Vec<(String, String)> {
        let mut rows = vec![
            ("freehold", format!("{}, {} build", self.program.version(), self.machine.build)),
            ("processor", self.machine.cpu_model.clone()),
            ("kernel", self.machine.kernel_release.clone()),
            ("pinned to", self.place()),
            ("clock", timing.clock.to_owned()),
            ("margin", format!("{} %", self.margin_percent)),
            ("at most", timing.limits()),
            ("seed", self.seed.to_string()),
        ];
        let policies = self.policies.iter().filter(|policy| takes_part(&policy.name));
        rows.extend(policies.map(|policy| ("policy", format!("{} is {}", policy.name, policy.choices))));
        rows.into_iter().map(|(word, meaning)| (word.to_owned(), meaning)).collect()
    }
}
