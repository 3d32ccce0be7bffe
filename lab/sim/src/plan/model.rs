//! A plan as data: what is simulated, on which machine, under which policies.

use freehold_policies::{BEST, NamedPolicy, SETS, Set};
use serde::Serialize;

use super::error::OpenError;
use super::machine::MachineSpec;
use crate::workload::Workload;

/// The numbers of CPUs of a plan that names none.
pub const CPUS: [u16; 6] = [1, 2, 8, 32, 128, 512];

/// Seeds of a plan that names none.
pub const SEEDS: u32 = 3;

/// Policies B of a plan that names none.
pub const RIVALS: [&str; 3] = ["linux-6.12,pcp=merge", "linux-6.12,pcp=owned", "linux-6.12,pcp=owned-remote"];

/// What part of its time a plan has when it is made short.
const SHORT_DIVISOR: u64 = 10;

/// What is to be simulated.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Built-in name, or path as it was given.
    pub name: String,
    /// What happens, in a line.
    pub title: String,
    /// What it is good for, in a sentence or two.
    pub shows: String,
    /// The numbers of CPUs, from the smallest up.
    pub cpus: Vec<u16>,
    /// Policy A, then the policies B.
    #[serde(serialize_with = "names_of_policies")]
    pub policies: Vec<NamedPolicy>,
    /// Each of the seeds 1 to this one is run.
    pub seeds: u32,
    /// The parameter that is swept.
    pub swept: Option<String>,
    /// One experiment a value of the swept parameter; one in all if nothing is swept.
    pub points: Vec<Point>,
    /// What each host of a fleet draws for itself.
    pub draws: Vec<Draw>,
    /// The plan's text, as it was read, so that the results can be had again.
    pub text: String,
    /// What `--memory` and `--set` changed in it, as `key=value`.
    pub changes: Vec<String>,
}

/// One experiment: everything but the number of CPUs, the policy and the seed.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The swept parameter's value, as it stands in the plan.
    pub value: Option<String>,
    /// What happens.
    pub workload: Workload,
    /// Where it happens.
    pub machine: MachineSpec,
    /// Virtual time before anything is counted, in ms.
    pub warmup_ms: u64,
    /// Virtual time that is counted, in ms.
    pub duration_ms: u64,
}

/// What a plan says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outline {
    /// What happens, in a line.
    pub title: String,
    /// What it is good for, in a sentence or two.
    pub shows: String,
    /// The numbers of CPUs.
    pub cpus: Vec<u16>,
}

/// What the command line changes about a plan.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Single values, as `key=value`.
    pub set: Vec<String>,
    /// A snapshot or a recording with whose start state runs begin: a path.
    pub start: Option<String>,
    /// How old memory is when runs begin.
    pub age: Option<u8>,
    /// Another size of memory of the machine, as it was typed.
    pub memory: Option<String>,
    /// Other numbers of CPUs.
    pub cpus: Vec<u16>,
    /// Another policy A.
    pub a: Option<String>,
    /// Other policies B.
    pub b: Vec<String>,
    /// Another number of seeds.
    pub seeds: Option<u32>,
}

/// A key whose value each host draws.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Draw {
    /// Where it stands in the plan, as in `workload.think_ns`.
    pub key: String,
    /// The smallest value that may be drawn.
    pub least: u64,
    /// The largest.
    pub most: u64,
}

/// Value that a host drew for a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DrawnValue {
    /// The key.
    pub key: String,
    /// The value.
    pub value: u64,
}

impl Plan {
    /// A policy's name in tables: without policy A's, where it only changes that one.
    pub fn label(&self, policy: usize) -> &str {
        let (a, b) = (&self.policies[0].name, &self.policies[policy].name);
        b.strip_prefix(a.as_str()).and_then(|changes| changes.strip_prefix(',')).unwrap_or(b)
    }

    /// The plan made short, with one seed, to see that it runs; but not so short that its memory stays empty.
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

    /// Why policies of ours that take part are what they are, and where to read on.
    pub fn reading(&self) -> Vec<String> {
        let recommended = SETS.iter().filter(|set| set.name == BEST);
        recommended.filter(|set| self.has_policy(set)).map(|set| set.why.to_owned()).collect()
    }

    /// Returns whether a set takes part as a policy.
    fn has_policy(&self, set: &Set) -> bool {
        self.policies.iter().any(|policy| policy.name == set.name)
    }

    /// How many runs the plan asks for.
    pub fn runs(&self) -> usize {
        self.points.len() * self.cpus.len() * self.policies.len() * self.seeds as usize
    }
}

impl Changes {
    /// Returns whether `--set` gives this key a value.
    pub(super) fn sets(&self, key: &str) -> bool {
        self.set.iter().any(|change| change.split('=').next().is_some_and(|name| name.trim() == key))
    }

    /// Whether policies are policies, so that a mistake is told of the option and not of the plan.
    pub(super) fn check_policies(&self) -> Result<(), OpenError> {
        let (a, b) = (self.a.iter().map(|name| ("--a", name)), self.b.iter().map(|name| ("--b", name)));
        a.chain(b).try_for_each(|(option, name)| match freehold_policies::parse(name) {
            Ok(_) => Ok(()),
            Err(error) => Err(OpenError::Policy { option, name: name.clone(), error }),
        })
    }
}

/// Policies as their names: what each chose is in the recipe.
fn names_of_policies<S: serde::Serializer>(policies: &[NamedPolicy], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(policies.iter().map(|policy| &policy.name))
}
