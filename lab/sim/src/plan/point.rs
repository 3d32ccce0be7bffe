//! One experiment of a plan: its workload and its machine, and a check that the workload fits the machine.

use std::error::Error;

use toml::Spanned;
use toml::de::DeValue;

use super::error::PlanError;
use super::head::read_head;
use super::machine::MachineSpec;
use super::model::Point;
use super::source::Source;
use crate::window::Window;
use crate::workload::Workload;
use crate::workload::purge::Purge;
use crate::workload::recording::Recording;
use crate::workload::webhost::Webhost;

/// Maximum virtual time, in ms: two hours. The sum of warm-up and window stays below the range of the clocks.
const DURATION_MAX_MS: u64 = 7_200_000;

/// The kinds of workloads.
const KINDS: [&str; 7] = ["steady", "purge", "pingpong", "exit", "build", "webhost", "recording"];

/// Returns whether a key belongs to the workload or to the machine.
pub(super) fn is_parameter(key: &str) -> bool {
    ["workload.", "machine."].iter().any(|table| key.starts_with(table))
}

/// Reads one experiment, and checks that it fits its memory with each of these numbers of CPUs.
pub(super) fn read_point(source: &Source<'_>, value: Option<String>, cpus: &[u16]) -> Result<Point, PlanError> {
    let head = read_head(source)?;
    for (key, ms, least) in [("warmup_ms", head.warmup_ms, 0), ("duration_ms", head.duration_ms, 1)] {
        if !(least..=DURATION_MAX_MS).contains(&ms) {
            return Err(source.unfit(key, format!("is {ms}; give a virtual time from {least} to {DURATION_MAX_MS} ms")));
        }
    }
    let machine: MachineSpec = match source.table().get("machine") {
        Some(table) => source.read("machine", table.clone(), &[])?,
        None => MachineSpec::default(),
    };
    let machine = machine.sized().map_err(|error| source.unfit("machine.start", start_error(&error)))?;
    let workload = read_workload(source)?;
    let point = Point { value, workload, machine, warmup_ms: head.warmup_ms, duration_ms: head.duration_ms };
    cpus.iter().try_for_each(|&cpus| fits(source, &point, cpus))?;
    Ok(point)
}

/// Reads the workload. Its kind determines the other keys of its table.
fn read_workload(source: &Source<'_>) -> Result<Workload, PlanError> {
    let Some(value) = source.table().get("workload") else {
        return Err(source.unfit("workload", "is missing; add a table [workload]"));
    };
    let Some(table) = value.get_ref().as_table() else {
        return Err(source.unfit("workload", "is not a table; write [workload] and its keys below it"));
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

/// Checks that a group of CPUs has a CPU that allocates besides its purger.
fn not_alone(source: &Source<'_>, cpus_per_purger: u16) -> Result<(), PlanError> {
    match cpus_per_purger {
        few @ 0..2 => Err(source.unfit(
            "workload.cpus_per_purger",
            format!("is {few}, which leaves a purger without a CPU that allocates; give 2 or more"),
        )),
        _ => Ok(()),
    }
}

/// Checks that the shares of a workload `webhost` are consistent.
fn webhost(source: &Source<'_>, webhost: Webhost) -> Result<Workload, PlanError> {
    let checked = webhost.check();
    checked.map_err(|unfit| source.unfit(&format!("workload.{}", unfit.key), unfit.sentence))?;
    Ok(Workload::Webhost(Box::new(webhost)))
}

/// Checks that the workload uses less memory than the machine has besides the pages that are in use at the start.
fn fits(source: &Source<'_>, point: &Point, cpus: u16) -> Result<(), PlanError> {
    let spec = &point.machine;
    let machine = spec.machine(cpus);
    let machine =
        machine.map_err(|impossible| source.unfit(&format!("machine.{}", impossible.key), impossible.sentence))?;
    let held = spec.held(cpus).map_err(|error| source.unfit("machine.start", start_error(&error)))?;
    let needed = pages_needed(source, point, cpus)?;
    if needed + held < u64::from(machine.pages) {
        return Ok(());
    }
    let beside = format!(", and {} MiB are in use at the start", mebibytes(held));
    let sentence = format!(
        "makes {} MiB with {cpus} CPUs, but the workload uses {} MiB at a time{}; raise it, or lower a parameter of \
         the workload",
        mebibytes(machine.pages.into()),
        mebibytes(needed),
        if held > 0 { beside.as_str() } else { "" },
    );
    Err(source.unfit(&format!("machine.{}", spec.memory_key()), sentence))
}

/// Formats an error of a start, as words that follow its key.
fn start_error(error: &dyn Error) -> String {
    format!("cannot be used: {error}")
}

/// Converts pages to MiB, rounded up.
fn mebibytes(pages: u64) -> u64 {
    pages.div_ceil(256)
}

/// Returns the largest number of pages that the workload uses at a time.
fn pages_needed(source: &Source<'_>, point: &Point, cpus: u16) -> Result<u64, PlanError> {
    let list_high = match point.workload {
        Workload::Purge(_) => point.machine.list_high(cpus),
        _ => 0,
    };
    let window = Window::after_ms(point.warmup_ms, point.duration_ms);
    // Other seeds begin at other places of a recording; the first seed stands for all.
    let play = point.workload.stage(cpus, window, 1);
    let play = play.map_err(|error| source.unfit("workload.file", format!("cannot be played: {error}")))?;
    Ok(play.map_or_else(|| point.workload.pages_in_use(cpus, list_high), |play| play.pages_peak()))
}
