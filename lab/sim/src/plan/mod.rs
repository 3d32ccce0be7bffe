//! Plans: what is to be simulated, as data.
//!
//! A plan is a TOML file that says what happens ([`Workload`]), on what machine, on how many CPUs, under which
//! policies, how long and how often. Some are [built in](builtin); any file will do. It is read in three steps:
//! [`source`] knows where everything stands, the command line changes single values there, and [`read`] turns the
//! tables into a [`Plan`] that can be run, or into one sentence with file, line and key ([`error`]). A plan that sweeps
//! a parameter is read once for each of its values, so each value is checked as if it stood in its place; so are the
//! ends of what the hosts of a fleet draw ([`draws`]).

pub mod builtin;
mod bytes;
pub mod draws;
pub mod error;
mod machine;
mod read;
pub mod source;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use builtin::{BUILTINS, Builtin};
use freehold_policies::{BEST, NamedPolicy, SETS, Set};
use serde::Serialize;
use toml::Spanned;
use toml::de::DeValue;

use super::costs::Costs;
use super::workload::Workload;
pub use bytes::{Bytes, BytesError};
use draws::Draw;
use error::OpenError;
pub use machine::MachineSpec;
use source::Source;

/// The numbers of CPUs of a plan that names none.
pub const CPUS: [u16; 6] = [1, 2, 8, 32, 128, 512];
/// Seeds of a plan that names none.
pub const SEEDS: u32 = 3;
/// Policies B of a plan that names none.
pub const RIVALS: [&str; 3] = ["linux-6.12,pcp=merge", "linux-6.12,pcp=owned", "linux-6.12,pcp=owned-remote"];

/// What part of its time a plan has when it is made short.
const SHORT_DIVISOR: u64 = 10;

/// The key for memory of the machine.
const MEMORY: &str = "machine.memory";
/// The key for how memory lies when a run begins.
const START: &str = "machine.start";
/// The key for how old memory is then.
const AGE: &str = "machine.age";
/// The key for memory of each CPU.
const MEMORY_PER_CPU: &str = "machine.memory_per_cpu";

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

impl Plan {
    /// The plan of this built-in name or at this path, with changes.
    ///
    /// # Errors
    /// When there is no such plan, or it is wrong.
    pub fn open(name: &str, changes: &Changes) -> Result<Plan, OpenError> {
        if let Some(builtin) = BUILTINS.iter().find(|builtin| builtin.name == name) {
            return Plan::parse(name, builtin.text, changes);
        }
        let path = Path::new(name);
        let looks_like_name = !name.contains(['/', '.']);
        if looks_like_name && !path.exists() {
            let hint = freehold_policies::hint(name, BUILTINS.iter().map(|builtin| builtin.name));
            return Err(OpenError::Unknown { name: name.to_owned(), hint });
        }
        let text = fs::read_to_string(path);
        let text = text.map_err(|source| OpenError::Unreadable { path: path.to_path_buf(), source })?;
        Plan::parse(name, &text, changes)
    }

    /// What a built-in plan says of itself, without looking at whether it could be run: a recording may not be here.
    ///
    /// # Errors
    /// When it is wrong.
    pub fn outline(builtin: &Builtin) -> Result<Outline, OpenError> {
        Ok(read::outline(&Source::parse(builtin.name, builtin.text)?)?)
    }

    /// The plan in `text`, called `name` in complaints.
    ///
    /// # Errors
    /// When it is wrong; one sentence with the line and the key.
    pub fn parse(name: &str, text: &str, changes: &Changes) -> Result<Plan, OpenError> {
        changes.check_policies()?;
        let mut source = Source::parse(name, text)?;
        let age = changes.age.map(|age| age.to_string());
        let options = [("--start", START, &changes.start), ("--age", AGE, &age), ("--memory", MEMORY, &changes.memory)];
        let given = options.into_iter().filter_map(|(option, key, value)| Some((option, key, value.as_ref()?)));
        for (option, key, value) in given.clone() {
            set(&mut source, format!("{option} {value}"), key, value)?;
        }
        set_all(&mut source, &changes.set)?;
        let plan = read::plan(&source, changes)?;
        let changes =
            given.map(|(_, key, value)| format!("{key}={value}")).chain(changes.set.iter().cloned()).collect();
        Ok(Plan { name: name.to_owned(), text: text.to_owned(), changes, ..plan })
    }

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
            let short = |ms: u64| ms.div_ceil(SHORT_DIVISOR).max(filling_ms).min(ms);
            point.warmup_ms = short(point.warmup_ms);
            point.duration_ms = short(point.duration_ms);
        }
        self
    }

    /// Why policies of ours that take part are what they are, and where to read on.
    pub fn reading(&self) -> Vec<String> {
        let takes_part = |set: &&Set| self.policies.iter().any(|policy| policy.name == set.name);
        let is_ours = |set: &&Set| set.name == BEST;
        SETS.iter().filter(takes_part).filter(is_ours).map(|set| set.why.to_owned()).collect()
    }

    /// How many runs the plan asks for.
    pub fn runs(&self) -> usize {
        self.points.len() * self.cpus.len() * self.policies.len() * self.seeds as usize
    }
}

impl Changes {
    /// Whether policies are policies, so that a mistake is told of the option and not of the plan.
    fn check_policies(&self) -> Result<(), OpenError> {
        let (a, b) = (self.a.iter().map(|name| ("--a", name)), self.b.iter().map(|name| ("--b", name)));
        a.chain(b).try_for_each(|(option, name)| match freehold_policies::parse(name) {
            Ok(_) => Ok(()),
            Err(error) => Err(OpenError::Policy { option, name: name.clone(), error }),
        })
    }
}

/// Makes these changes, each `key=value`.
fn set_all<'t>(source: &mut Source<'t>, changes: &'t [String]) -> Result<(), OpenError> {
    changes.iter().try_for_each(|change| {
        let (key, value) = change.split_once('=').ok_or_else(|| OpenError::NoValue(change.clone()))?;
        let (key, value) = (key.trim(), value.trim());
        set(source, format!("--set {key}"), key, value)
    })
}

/// Gives a key another value, which is swept no more, and takes out what it stands in the place of: of the two keys for
/// memory a machine has one; a start is as old and as large as it is, unless memory is given after it. Who gives both a
/// start and an age hears of it.
fn set<'t>(source: &mut Source<'t>, option: String, key: &str, value: &'t str) -> Result<(), OpenError> {
    let (memories, other): (&[&str], &[&str]) = match key {
        MEMORY | MEMORY_PER_CPU => (&[MEMORY, MEMORY_PER_CPU], &[]),
        START => (&[MEMORY, MEMORY_PER_CPU], &[AGE]),
        AGE => (&[], &[START]),
        _ => (&[], &[]),
    };
    memories.iter().for_each(|memory| source.remove(memory));
    for other in other {
        if !source.is_given(other) {
            source.remove(other);
        }
    }
    memories.iter().chain(other).chain([&key]).for_each(|swept| source.end_sweep(swept));
    Ok(source.set(option, key, value)?)
}

/// Reads a cost table, with the same care for mistakes.
///
/// # Errors
/// When it is wrong; one sentence with the line and the key.
pub fn read_costs(name: &str, text: &str) -> Result<Costs, OpenError> {
    let source = Source::parse(name, text)?;
    let table = source.table().clone();
    Ok(source.read("", Spanned::new(0..0, DeValue::Table(table)), &[])?)
}

/// Policies as their names: what each chose is in the recipe.
fn names_of_policies<S: serde::Serializer>(policies: &[NamedPolicy], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(policies.iter().map(|policy| &policy.name))
}
