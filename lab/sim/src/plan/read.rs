//! From tables to a plan: what must be there, what may be, and what makes no sense.

use std::error::Error;

use freehold_policies::NamedPolicy;
use serde::Deserialize;
use toml::Spanned;
use toml::de::DeValue;

use super::error::PlanError;
use super::machine::MachineSpec;
use super::source::{Source, Value};
use super::{CPUS, Changes, Outline, Plan, Point, RIVALS, SEEDS, draws};
use crate::CPUS_MAX;
use crate::workload::Workload;
use crate::workload::purge::Purge;
use crate::workload::recording::Recording;
use crate::workload::webhost::Webhost;
use crate::world::Window;

/// Most seeds a run can ask for.
const SEEDS_MAX: u32 = 1000;
/// Longest virtual time, in ms: two hours. Before and within the window together, it stays below what clocks can tell.
const DURATION_MAX_MS: u64 = 7_200_000;
/// The kinds of workloads.
const KINDS: [&str; 7] = ["steady", "purge", "pingpong", "exit", "build", "webhost", "recording"];
/// The tables of a plan, which are read by themselves.
const TABLES: [&str; 4] = ["machine", "workload", "sweep", "fleet"];

/// What stands at the top of a plan.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    title: String,
    shows: String,
    #[serde(default = "default_cpus")]
    cpus: Vec<u16>,
    #[serde(default = "default_a")]
    a: String,
    #[serde(default = "default_b")]
    b: Vec<String>,
    #[serde(default = "default_seeds")]
    seeds: u32,
    #[serde(default)]
    warmup_ms: u64,
    duration_ms: u64,
}

/// The parameter that takes one value after the other.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SweepKey {
    key: Spanned<String>,
    #[serde(rename = "values")]
    _values: Vec<toml::Value>,
}

fn default_cpus() -> Vec<u16> {
    CPUS.to_vec()
}

fn default_a() -> String {
    freehold_policies::BASELINE.to_owned()
}

fn default_b() -> Vec<String> {
    RIVALS.map(str::to_owned).to_vec()
}

fn default_seeds() -> u32 {
    SEEDS
}

/// Reads the whole plan. Its name and text are the caller's to fill in.
pub fn plan(source: &Source<'_>, changes: &Changes) -> Result<Plan, PlanError> {
    let head = head(source)?;
    let cpus = if changes.cpus.is_empty() { cpus(source, &head)? } else { sorted(&changes.cpus) };
    let seeds = changes.seeds.unwrap_or(head.seeds);
    if !(1..=SEEDS_MAX).contains(&seeds) {
        return Err(source.unfit("seeds", format!("is {seeds}; give a number of runs from 1 to {SEEDS_MAX}")));
    }
    let (swept, sources) = sweep(source)?;
    let point = |(value, source): &(Option<String>, Source<'_>)| point(source, value.clone(), &cpus);
    let points = sources.iter().map(point).collect::<Result<Vec<_>, _>>()?;
    let policies = policies(source, &head, changes)?;
    let draws = draws::read(source, changes, &cpus)?;
    let (title, shows) = (head.title, head.shows.trim().to_owned());
    Ok(Plan {
        name: String::new(),
        title,
        shows,
        cpus,
        policies,
        seeds,
        swept,
        points,
        draws,
        text: String::new(),
        changes: Vec::new(),
    })
}

/// Reads no more than what the plan says of itself.
pub fn outline(source: &Source<'_>) -> Result<Outline, PlanError> {
    let head = head(source)?;
    Ok(Outline { title: head.title, shows: head.shows.trim().to_owned(), cpus: head.cpus })
}

fn head(source: &Source<'_>) -> Result<Head, PlanError> {
    let mut table = source.table().clone();
    for name in TABLES {
        table.remove(name);
    }
    let head: Head = source.read("", Spanned::new(0..0, DeValue::Table(table)), &TABLES)?;
    for (key, text) in [("title", &head.title), ("shows", &head.shows)] {
        if text.trim().is_empty() {
            return Err(source.unfit(key, "is empty; say what the plan is for"));
        }
    }
    Ok(head)
}

fn cpus(source: &Source<'_>, head: &Head) -> Result<Vec<u16>, PlanError> {
    let range = format!("give numbers of CPUs from 1 to {CPUS_MAX}");
    match head.cpus.iter().find(|cpus| !(1..=CPUS_MAX).contains(cpus)) {
        Some(0) => Err(source.unfit("cpus", format!("holds 0, but nothing runs without a CPU; {range}"))),
        Some(many) => Err(source.unfit("cpus", format!("holds {many}, which is too many; {range}"))),
        None if head.cpus.is_empty() => Err(source.unfit("cpus", format!("is empty; {range}"))),
        None => Ok(sorted(&head.cpus)),
    }
}

/// From the smallest up, each once.
fn sorted(cpus: &[u16]) -> Vec<u16> {
    let mut cpus = cpus.to_vec();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// Policy A, then each policy B that is not there yet.
fn policies(source: &Source<'_>, head: &Head, changes: &Changes) -> Result<Vec<NamedPolicy>, PlanError> {
    let parse = |key, name: &str| {
        freehold_policies::parse(name).map_err(|error| source.unfit(key, format!("names no policy: {error}")))
    };
    let rivals = if changes.b.is_empty() { &head.b } else { &changes.b };
    let mut policies = vec![parse("a", changes.a.as_ref().unwrap_or(&head.a))?];
    for name in rivals {
        let rival = parse("b", name)?;
        if policies.iter().all(|policy| policy.name != rival.name) {
            policies.push(rival);
        }
    }
    Ok(policies)
}

/// The swept key, and the plan with each of its values in place.
type Swept<'t> = (Option<String>, Vec<(Option<String>, Source<'t>)>);

fn sweep<'t>(source: &Source<'t>) -> Result<Swept<'t>, PlanError> {
    let Some(table) = source.table().get("sweep") else { return Ok((None, vec![(None, source.clone())])) };
    let SweepKey { key, .. } = source.read("sweep", table.clone(), &[])?;
    let place = key.span();
    let key = key.into_inner();
    if !is_parameter(&key) {
        let sentence =
            format!("cannot be `{key}`; name a parameter of the workload or of the machine, as in `workload.think_ns`");
        return Err(source.unfit("sweep.key", sentence));
    }
    let values = table.get_ref().get("values").and_then(|values| values.get_ref().as_array());
    let values: Vec<&Value<'t>> = values.into_iter().flatten().collect();
    if values.is_empty() {
        return Err(
            source.unfit("sweep.values", "is empty; give the values that the key is to have, one after the other")
        );
    }
    let with = |value: &&Value<'t>| Ok((Some(written(value.get_ref())), source.with(&key, place.clone(), value)?));
    let sources = values.iter().map(with).collect::<Result<Vec<_>, PlanError>>()?;
    Ok((Some(key), sources))
}

/// Whether a key belongs to the workload or to the machine.
pub fn is_parameter(key: &str) -> bool {
    ["workload.", "machine."].iter().any(|table| key.starts_with(table))
}

/// A value as it is written, without quotes.
fn written(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) | DeValue::Table(_) => "...".to_owned(),
    }
}

/// Reads one experiment, and checks that it fits its memory on each of these numbers of CPUs.
pub fn point(source: &Source<'_>, value: Option<String>, cpus: &[u16]) -> Result<Point, PlanError> {
    let head = head(source)?;
    for (key, ms, least) in [("warmup_ms", head.warmup_ms, 0), ("duration_ms", head.duration_ms, 1)] {
        if !(least..=DURATION_MAX_MS).contains(&ms) {
            return Err(source.unfit(key, format!("is {ms}; give a virtual time from {least} to {DURATION_MAX_MS} ms")));
        }
    }
    let machine: MachineSpec = match source.table().get("machine") {
        Some(table) => source.read("machine", table.clone(), &[])?,
        None => MachineSpec::default(),
    };
    let machine = machine.sized().map_err(|error| source.unfit("machine.start", told(&error)))?;
    let workload = workload(source)?;
    let point = Point { value, workload, machine, warmup_ms: head.warmup_ms, duration_ms: head.duration_ms };
    cpus.iter().try_for_each(|&cpus| fits(source, &point, cpus))?;
    Ok(point)
}

/// The workload: its kind says which parameters the rest of its table may hold.
fn workload(source: &Source<'_>) -> Result<Workload, PlanError> {
    let lacks = || source.unfit("workload", "is missing; add a table [workload] that says what happens");
    let value = source.table().get("workload").ok_or_else(lacks)?;
    let Some(table) = value.get_ref().as_table() else {
        return Err(source.unfit("workload", "is no table; write [workload] and its keys below it"));
    };
    let kinds = KINDS.join(", ");
    let kind = table.get("kind").and_then(|kind| kind.get_ref().as_str());
    let kind = kind.ok_or_else(|| source.unfit("workload", format!("lacks `kind`; add one of {kinds}")))?;
    let mut parameters = table.clone();
    parameters.remove("kind");
    let parameters = Spanned::new(value.span(), DeValue::Table(parameters));
    let (path, more) = ("workload", ["kind"]);
    match kind {
        "steady" => source.read(path, parameters, &more).map(Workload::Steady),
        "purge" => purge(source, source.read(path, parameters, &more)?),
        "pingpong" => source.read(path, parameters, &more).map(Workload::Pingpong),
        "exit" => source.read(path, parameters, &more).map(Workload::Exit),
        "build" => source.read(path, parameters, &more).map(Workload::Build),
        "webhost" => webhost(source, source.read(path, parameters, &more)?),
        "recording" => recording(source, source.read(path, parameters, &more)?),
        _ => {
            let hint = freehold_policies::hint(kind, KINDS.iter().copied());
            Err(source.unfit("workload.kind", format!("cannot be `{kind}`; {hint}")))
        }
    }
}

fn purge(source: &Source<'_>, purge: Purge) -> Result<Workload, PlanError> {
    not_alone(source, purge.cpus_per_purger).map(|()| Workload::Purge(purge))
}

fn recording(source: &Source<'_>, recording: Recording) -> Result<Workload, PlanError> {
    not_alone(source, recording.cpus_per_purger).map(|()| Workload::Recording(recording))
}

/// A purger needs somebody who allocates.
fn not_alone(source: &Source<'_>, cpus_per_purger: u16) -> Result<(), PlanError> {
    match cpus_per_purger {
        few @ 0..2 => Err(source.unfit(
            "workload.cpus_per_purger",
            format!("is {few}, which leaves a purger without a CPU that allocates; give 2 or more"),
        )),
        _ => Ok(()),
    }
}

/// Shares must leave room for each other.
fn webhost(source: &Source<'_>, webhost: Webhost) -> Result<Workload, PlanError> {
    let checked = webhost.check();
    checked.map_err(|unfit| source.unfit(&format!("workload.{}", unfit.key), unfit.sentence))?;
    Ok(Workload::Webhost(Box::new(webhost)))
}

/// What the workload uses must be less than the machine has.
fn fits(source: &Source<'_>, point: &Point, cpus: u16) -> Result<(), PlanError> {
    let spec = &point.machine;
    let machine = spec.machine(cpus);
    let machine =
        machine.map_err(|impossible| source.unfit(&format!("machine.{}", impossible.key), impossible.sentence))?;
    let held = spec.held(cpus).map_err(|error| source.unfit("machine.start", told(&error)))?;
    let needed = pages_needed(source, point, cpus)?;
    if needed + held < u64::from(machine.pages) {
        return Ok(());
    }
    let mib = |pages: u64| pages.div_ceil(256);
    let beside = format!(" beside the {} MiB that are in use from the start", mib(held));
    let sentence = format!(
        "makes {} MiB with {cpus} CPUs, but the workload uses {} MiB at a time{}; give it more, or lower a parameter of \
         the workload",
        mib(machine.pages.into()),
        mib(needed),
        if held > 0 { beside.as_str() } else { "" },
    );
    Err(source.unfit(&format!("machine.{}", spec.memory_key()), sentence))
}

/// Why a start cannot be had, as words that follow its key.
fn told(error: &dyn Error) -> String {
    format!("cannot be had: {error}")
}

/// Pages that the workload uses at a time.
fn pages_needed(source: &Source<'_>, point: &Point, cpus: u16) -> Result<u64, PlanError> {
    let list_high = match point.workload {
        Workload::Purge(_) => point.machine.list_high(cpus),
        _ => 0,
    };
    let window = Window::after_ms(point.warmup_ms, point.duration_ms);
    // Seeds decide where in a recording a run begins: the first one speaks for all.
    let play = point.workload.stage(cpus, window, 1);
    let play = play.map_err(|error| source.unfit("workload.file", format!("cannot be played: {error}")))?;
    Ok(play.map_or_else(|| point.workload.pages_in_use(cpus, list_high), |play| play.pages_peak()))
}
