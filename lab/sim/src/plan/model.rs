//! A plan as data: workloads, machines and policies to simulate.

use freehold_policies::{BEST, NamedPolicy, SETS, Set};
use serde::Serialize;

use super::error::OpenError;
use super::machine::MachineSpec;
use crate::workload::Workload;

/// Default numbers of CPUs.
pub const CPUS: [u16; 6] = [1, 2, 8, 32, 128, 512];

/// Default number of seeds.
pub const SEEDS: u32 = 3;

/// Default policies B.
pub const RIVALS: [&str; 3] = ["linux-6.12,pcp=merge", "linux-6.12,pcp=owned", "linux-6.12,pcp=owned-remote"];

/// Divisor of the durations of a shortened plan.
const SHORT_DIVISOR: u64 = 10;

/// A plan.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Built-in name, or path as it was given.
    pub name: String,
    /// Description in one line.
    pub title: String,
    /// Purpose, in a sentence or two.
    pub shows: String,
    /// Numbers of CPUs, in ascending order.
    pub cpus: Vec<u16>,
    /// Policy A, then the policies B.
    #[serde(serialize_with = "names_of_policies")]
    pub policies: Vec<NamedPolicy>,
    /// Number of seeds; the runs use seed 1 up to this number.
    pub seeds: u32,
    /// Key of the swept parameter.
    pub swept: Option<String>,
    /// One point for each value of the swept parameter; one in all if nothing is swept.
    pub points: Vec<Point>,
    /// Keys that each host of a fleet draws.
    pub draws: Vec<Draw>,
    /// Text of the plan, so that the results can be reproduced.
    pub text: String,
    /// Changes by `--start`, `--age`, `--memory` and `--set`, as `key=value`.
    pub changes: Vec<String>,
}

/// One experiment: everything but the number of CPUs, the policy and the seed.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Value of the swept parameter, as in the plan.
    pub value: Option<String>,
    /// Workload of the runs.
    pub workload: Workload,
    /// Machine of the runs.
    pub machine: MachineSpec,
    /// Virtual time before the measurement, in ms.
    pub warmup_ms: u64,
    /// Virtual time of the measurement, in ms.
    pub duration_ms: u64,
}

/// Outline of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outline {
    /// Description in one line.
    pub title: String,
    /// Purpose, in a sentence or two.
    pub shows: String,
    /// Numbers of CPUs.
    pub cpus: Vec<u16>,
}

/// Changes that the command line makes to a plan.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Single values, as `key=value`.
    pub set: Vec<String>,
    /// Path of a snapshot or a recording whose start state is the start state of runs.
    pub start: Option<String>,
    /// Age of memory when runs begin.
    pub age: Option<u8>,
    /// Size of the machine's memory, as it was typed.
    pub memory: Option<String>,
    /// Numbers of CPUs; empty for those of the plan.
    pub cpus: Vec<u16>,
    /// Policy A.
    pub a: Option<String>,
    /// Policies B; empty for those of the plan.
    pub b: Vec<String>,
    /// Number of seeds.
    pub seeds: Option<u32>,
}

/// A key whose value each host draws.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Draw {
    /// Path of the key in the plan, such as `workload.think_ns`.
    pub key: String,
    /// Lower bound, inclusive.
    pub least: u64,
    /// Upper bound, inclusive.
    pub most: u64,
}

/// Value that a host drew for a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DrawnValue {
    /// Path of the key.
    pub key: String,
    /// Value of the key.
    pub value: u64,
}

impl Plan {
    /// Returns a policy's name in tables. The part that it shares with policy A is omitted.
    pub fn label(&self, policy: usize) -> &str {
        let (a, b) = (&self.policies[0].name, &self.policies[policy].name);
        b.strip_prefix(a.as_str()).and_then(|changes| changes.strip_prefix(',')).unwrap_or(b)
    }

    /// Returns the plan with shorter durations and one seed, for a quick test. Durations stay long enough to fill
    /// memory.
    #[must_use]
    pub fn shortened(mut self) -> Plan {
        self.seeds = 1;
        for point in &mut self.points {
            let filling_ms = point.workload.filling_ms();
            for ms in [&mut point.warmup_ms, &mut point.duration_ms] {
                *ms = ms.div_ceil(SHORT_DIVISOR).max(filling_ms).min(*ms);
            }
        }
        self
    }

    /// Returns an explanation of the recommended policy; nothing if that policy does not take part.
    pub fn reading(&self) -> Vec<String> {
        let recommended = SETS.iter().filter(|set| set.name == BEST);
        recommended.filter(|set| self.has_policy(set)).map(|set| set.why.to_owned()).collect()
    }

    /// Returns whether a set takes part as a policy.
    fn has_policy(&self, set: &Set) -> bool {
        self.policies.iter().any(|policy| policy.name == set.name)
    }

    /// Returns the number of runs of the plan.
    pub fn runs(&self) -> usize {
        self.points.len() * self.cpus.len() * self.policies.len() * self.seeds as usize
    }
}

impl Changes {
    /// Returns whether `--set` gives this key a value.
    pub(super) fn sets(&self, key: &str) -> bool {
        self.set.iter().any(|change| change.split('=').next().is_some_and(|name| name.trim() == key))
    }

    /// Checks the names of policies, so that an error names the option and not the plan.
    pub(super) fn check_policies(&self) -> Result<(), OpenError> {
        let (a, b) = (self.a.iter().map(|name| ("--a", name)), self.b.iter().map(|name| ("--b", name)));
        a.chain(b).try_for_each(|(option, name)| match freehold_policies::parse(name) {
            Ok(_) => Ok(()),
            Err(error) => Err(OpenError::Policy { option, name: name.clone(), error }),
        })
    }
}

/// Serializes policies as their names. The recipe has the choices of each policy.
fn names_of_policies<S: serde::Serializer>(policies: &[NamedPolicy], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(policies.iter().map(|policy| &policy.name))
}
