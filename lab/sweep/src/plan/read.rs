//! Parsing and validation of plans: required keys, optional keys, and combinations that are refused.

use std::collections::HashSet;
use std::path::Path;

use freehold_policies::NamedPolicy;
use freehold_sim::fleet::HOSTS_MAX;
use freehold_sim::plan::builtin::BUILTINS;
use freehold_sim::plan::error::{OpenError, PlanError};
use freehold_sim::plan::source::Source;
use freehold_sim::plan::{Changes, Plan as Simulated};
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::DeValue;

use super::axes::{AXES, Axis, CPUS, HOST, SEED, SETTING, read_axes};
use super::model::{RECORDED, Replays, SimulatedPoint, Simulation, Simulations, Study, cpus_label, setting_label};
use crate::digest;
use crate::error::Error;

/// Most combinations of a plan for one recording, or for one seed.
const COMBINATIONS_MAX: usize = 100_000;
/// Most seeds of a simulation.
const SEEDS_MAX: u32 = 1000;
/// Kinds of sweeps.
const KINDS: [&str; 3] = ["replay", "sim", "fleet"];

/// Keys at the top of a plan.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    title: String,
    kind: String,
    a: Option<String>,
    b: Option<Vec<String>>,
    exact: Option<bool>,
    plan: Option<String>,
    set: Option<Vec<String>>,
}

/// A parsed plan.
pub(super) struct ParsedPlan {
    pub title: String,
    pub study: Study,
    /// Name and text of the plan of the simulation.
    pub simulated: Option<(String, String)>,
    /// Canonical form of everything that affects the results.
    pub meaning: Vec<u8>,
}

/// The parts of a plan that affect the results of replays.
#[derive(Serialize)]
struct ReplaysMeaning {
    kind: &'static str,
    a: String,
    b: Vec<String>,
    setting: Vec<String>,
    cpus: Vec<String>,
    exact: bool,
}

/// The parts of a plan that affect the results of simulations.
#[derive(Serialize)]
struct SimulationsMeaning<'m> {
    kind: &'m str,
    text: &'m str,
    policies: Vec<&'m str>,
    set: &'m [String],
    points: Vec<(u16, &'m [(String, String)])>,
    seeds: u32,
    hosts: Option<u32>,
}

/// Parses a plan. `find` returns the name and the text of the plan of the simulation that it names.
pub(super) fn read_plan(
    name: &str,
    text: &str,
    find: impl FnOnce(&str) -> Result<(String, String), Error>,
) -> Result<ParsedPlan, Error> {
    let source = Source::parse(name, text)?;
    let head = read_head(&source)?;
    let axes = read_axes(&source)?;
    match head.kind.as_str() {
        "replay" => Ok(read_replays(&source, &head, &axes)?),
        "sim" | "fleet" => {
            let Some(named) = &head.plan else {
                return Err(source
                    .unfit("kind", format!("is `{}`, which needs `plan`, as in plan = \"webhost\"", head.kind))
                    .into());
            };
            read_simulations(&source, &head, &axes, find(named)?)
        }
        other => {
            let hint = freehold_policies::hint(other, KINDS.into_iter());
            Err(source.unfit("kind", format!("cannot be `{other}`; {hint}")).into())
        }
    }
}

/// Returns the name and the text of a plan of the simulation: a built-in one, or a file in this folder.
pub(super) fn find_simulated(name: &str, folder: Option<&Path>) -> Result<(String, String), Error> {
    if let Some(builtin) = BUILTINS.iter().find(|builtin| builtin.name == name) {
        return Ok((name.to_owned(), builtin.text.to_owned()));
    }
    let Some(path) = folder.map(|folder| folder.join(name)).filter(|path| path.exists() || name.contains(['/', '.']))
    else {
        let hint = freehold_policies::hint(name, BUILTINS.iter().map(|builtin| builtin.name));
        return Err(OpenError::Unknown { name: name.to_owned(), hint }.into());
    };
    let text = std::fs::read_to_string(&path).map_err(|source| OpenError::Unreadable { path, source })?;
    Ok((name.to_owned(), text))
}

fn read_head(source: &Source<'_>) -> Result<Head, PlanError> {
    let mut table = source.table().clone();
    table.remove(AXES);
    let head: Head = source.read("", Spanned::new(0..0, DeValue::Table(table)), &[AXES])?;
    if head.title.trim().is_empty() {
        return Err(source.unfit("title", "is empty; describe the purpose of the plan"));
    }
    Ok(head)
}

/// Refuses an axis that this kind of sweep does not have.
fn expect_axes<'x, 's: 'x, 't: 's>(
    axes: impl IntoIterator<Item = &'x Axis<'s, 't>>,
    known: &[&str],
) -> Result<(), PlanError> {
    let unknown = axes.into_iter().find(|axis| !known.contains(&axis.key.as_str()));
    unknown.map_or(Ok(()), |axis| {
        let hint = freehold_policies::hint(&axis.key, known.iter().copied());
        Err(axis.unfit(format!("is not a known axis; {hint}")))
    })
}

fn axis<'x, 's, 't>(axes: &'x [Axis<'s, 't>], key: &str) -> Option<&'x Axis<'s, 't>> {
    axes.iter().find(|axis| axis.key == key)
}

fn parse_policy(source: &Source<'_>, key: &str, name: &str) -> Result<NamedPolicy, PlanError> {
    freehold_policies::parse(name).map_err(|error| source.unfit(key, format!("is not a policy: {error}")))
}

fn read_replays(source: &Source<'_>, head: &Head, axes: &[Axis<'_, '_>]) -> Result<ParsedPlan, PlanError> {
    let strange = [("plan", head.plan.is_some()), ("set", head.set.is_some())];
    if let Some((key, _)) = strange.into_iter().find(|(_, is_given)| *is_given) {
        return Err(source.unfit(key, "is a key of simulations, but this plan replays recordings; remove it"));
    }
    expect_axes(axes, &[SETTING, CPUS])?;
    let a =
        head.a.as_deref().filter(|name| *name != RECORDED).map(|name| parse_policy(source, "a", name)).transpose()?;
    let b = head.b.iter().flatten().map(|name| parse_policy(source, "b", name)).collect::<Result<Vec<_>, _>>()?;
    if (1..b.len()).any(|at| b[..at].iter().any(|other| other.name == b[at].name)) {
        return Err(source.unfit("b", "names a policy twice; name each once"));
    }
    if let Some(a) = a.as_ref().filter(|a| b.iter().any(|b| b.name == a.name)) {
        return Err(source.unfit("b", format!("names {}, which is policy A; name another", a.name)));
    }
    let settings = axis(axes, SETTING).map_or_else(|| Ok(vec![Vec::new()]), Axis::settings)?;
    let cpus = axis(axes, CPUS).map_or_else(|| Ok(vec![None]), Axis::cpus_or_recorded)?;
    if b.is_empty() && (settings.len() < 2 || !settings.contains(&Vec::new())) {
        let sentence = "names no policy, so settings are compared with the recorded ones; give a policy, or \
                        setting = [\"recorded\", ...] below [axes]";
        return Err(source.unfit("b", sentence));
    }
    let replays = Replays { a, b, settings, cpus, exact: head.exact.unwrap_or(false) };
    expect_few(source, replays.settings.len() * replays.cpus.len() * (1 + replays.b.len()))?;
    let meaning = ReplaysMeaning {
        kind: "replay",
        a: replays.a_label().to_owned(),
        b: sorted(replays.b.iter().map(|policy| policy.name.clone())),
        setting: sorted(replays.settings.iter().map(|settings| setting_label(settings))),
        cpus: sorted(replays.cpus.iter().map(|cpus| cpus_label(*cpus))),
        exact: replays.exact,
    };
    Ok(ParsedPlan {
        title: head.title.clone(),
        meaning: canonical_json(&meaning),
        study: Study::Replays(replays),
        simulated: None,
    })
}

fn expect_few(source: &Source<'_>, combinations: usize) -> Result<(), PlanError> {
    match combinations > COMBINATIONS_MAX {
        true => Err(source.unfit(AXES, format!("make {combinations} combinations; make at most {COMBINATIONS_MAX}"))),
        false => Ok(()),
    }
}

fn read_simulations(
    source: &Source<'_>,
    head: &Head,
    axes: &[Axis<'_, '_>],
    (name, text): (String, String),
) -> Result<ParsedPlan, Error> {
    if head.exact.is_some() {
        return Err(source.unfit("exact", "is a key of replays; remove it").into());
    }
    let (keys, reserved): (Vec<&Axis<'_, '_>>, Vec<&Axis<'_, '_>>) =
        axes.iter().partition(|axis| axis.key.contains('.'));
    let is_fleet = head.kind == "fleet";
    let known: &[&str] = if is_fleet { &[SEED, HOST, CPUS] } else { &[SEED, CPUS] };
    for axis in reserved {
        // This includes a key whose path was not quoted, which TOML parses as a table.
        if !known.contains(&axis.key.as_str()) {
            axis.expect_no_table()?;
            expect_axes([axis], known)?;
        }
    }
    let set = head.set.as_deref().unwrap_or(&[]);
    let named = NamedSimulation { name: &name, text: &text, head };
    let combinations = combine(&keys)?;
    // Without an axis of CPUs, those of the named plan are used.
    let cpus = axis(axes, CPUS).map(Axis::cpus).transpose()?.unwrap_or_default();
    let first = named.parse(cpus.iter().map(|cpus| cpus.get()).collect(), &combinations[0])?;
    if let Some(key) = &first.swept {
        let sentence =
            format!("is {name}, which sweeps `{key}` itself; give its values as \"{key}\" = [...] below [axes]");
        return Err(source.unfit("plan", sentence).into());
    }
    expect_few(source, first.cpus.len() * combinations.len() * first.policies.len())?;
    let mut points = Vec::with_capacity(first.cpus.len() * combinations.len());
    for &cpus in &first.cpus {
        for values in &combinations {
            let plan = named.parse(vec![cpus], values)?;
            points.push(SimulatedPoint { cpus, values: values.clone(), plan });
        }
    }
    expect_different(source, &points)?;
    let given_seeds = axis(axes, SEED).map(|axis| axis.count(SEEDS_MAX)).transpose()?;
    let hosts = axis(axes, HOST).map(|axis| axis.count(HOSTS_MAX)).transpose()?;
    let kind = if is_fleet { Simulation::Hosts(hosts.unwrap_or(HOSTS)) } else { Simulation::Runs };
    let seeds = given_seeds.unwrap_or(if is_fleet { 1 } else { first.seeds });
    let meaning = canonical_json(&SimulationsMeaning {
        kind: &head.kind,
        text: &text,
        policies: first.policies.iter().map(|policy| policy.name.as_str()).collect(),
        set,
        points: sorted(points.iter().map(|point| (point.cpus, point.values.as_slice()))),
        seeds,
        hosts: if let Simulation::Hosts(hosts) = kind { Some(hosts) } else { None },
    });
    let study = Study::Simulations(Simulations { kind, points, seeds });
    Ok(ParsedPlan { title: head.title.clone(), study, simulated: Some((name, text)), meaning })
}

/// A plan of the simulation that the plan of a sweep names, with the policies and values that the sweep sets.
struct NamedSimulation<'n> {
    name: &'n str,
    text: &'n str,
    head: &'n Head,
}

impl NamedSimulation<'_> {
    /// Parses the plan with these numbers of CPUs and these values.
    fn parse(&self, cpus: Vec<u16>, values: &[(String, String)]) -> Result<Simulated, OpenError> {
        let NamedSimulation { name, text, head } = self;
        let values = values.iter().map(|(key, value)| format!("{key}={value}"));
        let set = head.set.iter().flatten().cloned().chain(values).collect();
        let (a, b) = (head.a.clone(), head.b.clone().unwrap_or_default());
        Simulated::parse(name, text, &Changes { set, cpus, a, b, ..Changes::default() })
    }
}

/// Refuses values that are written differently but mean the same.
fn expect_different(source: &Source<'_>, points: &[SimulatedPoint]) -> Result<(), PlanError> {
    let mut seen = HashSet::new();
    for SimulatedPoint { cpus, values, plan } in points {
        if !seen.insert(digest::hash_bytes(canonical_json(&(cpus, &plan.points, &plan.draws)))) {
            let texts: Vec<String> = values.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            let sentence = format!("contains {} twice; give each value once", texts.join(", "));
            return Err(source.unfit(AXES, sentence));
        }
    }
    Ok(())
}

/// Number of hosts of a fleet, if the plan does not set it.
const HOSTS: u32 = 60;

/// Returns every combination of the values of these axes: each key with a value.
fn combine(axes: &[&Axis<'_, '_>]) -> Result<Vec<Vec<(String, String)>>, PlanError> {
    let mut points = vec![Vec::new()];
    for axis in axes {
        let values = axis.values()?;
        let mut longer = Vec::with_capacity(points.len() * values.len());
        for point in &points {
            for value in &values {
                longer.push([point.as_slice(), &[(axis.key.clone(), value.clone())]].concat());
            }
        }
        points = longer;
    }
    Ok(points)
}

/// Sorts values, so that the order in which a plan lists them does not affect its digest.
fn sorted<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut sorted: Vec<T> = values.collect();
    sorted.sort();
    sorted
}

fn canonical_json(meaning: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(meaning).expect("a plan serializes to JSON")
}
