//! Checks that a file has everything that a recording needs: all events, of the whole machine, each once.
//!
//! The error about a missing part names the command that records it. A file that covers only a part of the machine is
//! imported with a caveat, as long as the part is consistent by itself. If pages are allocated again and again without
//! a free, the frees were made outside of the part, and the recording would be wrong.

use std::path::Path;

use freehold_report::number::count;
use freehold_trace::Kind as RowKind;

use crate::coverage::expect_every_event;
use crate::drops::{Counted, Drops};
use crate::error::Error;
use crate::item::SourceFacts;
use crate::kind::Kind;
use crate::survey::Survey;

/// The file is refused if more than one event in this many of a kind was dropped.
const EVENTS_PER_DROP: u64 = 100;
/// Limits for allocations of pages in use, at least this number and one in a number of allocations, that show missing
/// frees.
const TWICE_MIN: u64 = 5;
const ALLOCATIONS_PER_TWICE: u64 = 100;
/// Limits for contradictions, at least this number and one in a number of events, at which readers refuse a recording.
const CLASHES_MIN: u64 = 100;
const EVENTS_PER_CLASH: u64 = 6;
/// Number of events above which a CPU without any is reported.
const EVENTS_OF_BUSY_MACHINES: u64 = 1000;
/// The file is refused if more than one event in this many is older than the events before it.
const EVENTS_PER_BACKWARD: u64 = 100;

/// Refuses a file whose recording would differ from the events on the machine.
///
/// # Errors
/// [`Error::Dropped`], [`Error::Lacks`] or [`Error::Refused`].
pub(crate) fn expect_all(path: &Path, kind: Kind, survey: &Survey, source: &SourceFacts) -> Result<(), Error> {
    expect_every_event(path, &source.sampling)?;
    expect_few_drops(path, &survey.drops, |counted| match counted {
        Counted::Events(kind) => survey.counts.get(&kind).copied().unwrap_or(0),
        Counted::Lines => source.lines,
    })?;
    expect_kinds(path, survey, source)?;
    let rows = survey.spool.rows();
    if survey.backward.saturating_mul(EVENTS_PER_BACKWARD) > rows {
        let reason =
            format!("{} of its {} events are older than the events before them", count(survey.backward), count(rows));
        return Err(Error::refused(
            path,
            reason,
            "record with a clock that all CPUs share: `-k CLOCK_MONOTONIC` for perf, `-C mono` for trace-cmd",
        ));
    }
    if source.absent.saturating_mul(ALLOCATIONS_PER_TWICE) > rows {
        let reason = format!("{} events that the kernel counted are missing in the file", count(source.absent));
        return Err(Error::refused(path, reason, "record again, and do not kill trace-cmd"));
    }
    match contradiction(survey, source) {
        Some(what) => {
            let cause = cause(survey, source);
            Err(Error::refused(path, format!("{what}, so frees are missing: {cause}"), remedy(kind, survey)))
        }
        None => Ok(()),
    }
}

/// Refuses the file if too many events of a kind were dropped. `taken` returns the number of accepted events.
///
/// # Errors
/// [`Error::Dropped`].
fn expect_few_drops(path: &Path, drops: &Drops, taken: impl Fn(Counted) -> u64) -> Result<(), Error> {
    for (counted, dropped) in drops.totals() {
        let total = taken(counted).saturating_add(dropped);
        let most = drops.rows().into_iter().find(|row| row.event == counted.name());
        if let Some(most) = most.filter(|_| dropped.saturating_mul(EVENTS_PER_DROP) > total) {
            return Err(Error::Dropped { path: path.to_path_buf(), dropped, total, most: Box::new(most) });
        }
    }
    Ok(())
}

/// Checks that the file has allocations and frees.
///
/// # Errors
/// [`Error::Refused`] or [`Error::Lacks`].
fn expect_kinds(path: &Path, survey: &Survey, source: &SourceFacts) -> Result<(), Error> {
    let needed = [RowKind::Alloc, RowKind::Free];
    let Some(missing) = needed.iter().find(|kind| !survey.counts.contains_key(kind)) else { return Ok(()) };
    let path = path.to_path_buf();
    if source.has_old_frees {
        return Err(Error::Refused {
            path,
            reason: "its frees are named `mm_page_free_direct`, as before Linux 3.3".to_owned(),
            instead: "record on Linux 5.0 or later".to_owned(),
        });
    }
    let unread = match source.unread.join(", ") {
        parts if parts.is_empty() => parts,
        parts => format!(" in the parts that are read ({parts} is not read; record without it)"),
    };
    Err(Error::Lacks { path, event: missing.event().unwrap_or_default(), unread, others: others(survey, source) })
}

/// Returns the events that a file has, the most frequent first: at most three names.
fn others(survey: &Survey, source: &SourceFacts) -> String {
    let taken = survey.counts.iter().map(|(kind, events)| (*events, kind.event().unwrap_or_default()));
    let passed = source.passed.iter().map(|(name, events)| (*events, name.as_str()));
    let mut all: Vec<(u64, &str)> = taken.chain(passed).collect();
    all.sort_unstable_by(|one, other| other.cmp(one));
    let names: Vec<String> = all.iter().take(3).map(|(events, name)| format!("{} {name}", count(*events))).collect();
    if names.is_empty() { "no event at all".to_owned() } else { names.join(", ") }
}

/// Returns the contradictions between events, as a clause; `None` if they may be chance.
fn contradiction(survey: &Survey, source: &SourceFacts) -> Option<String> {
    let number = |kind| survey.counts.get(&kind).copied().unwrap_or(0);
    let (allocations, frees) = (number(RowKind::Alloc), number(RowKind::Free));
    let twice = survey.pairs.in_use_already;
    // Known gaps are reported elsewhere, and explain such allocations.
    let is_whole = survey.lost == 0 && survey.gaps == 0 && source.coverage.describe().is_none();
    if is_whole && twice >= TWICE_MIN && twice.saturating_mul(ALLOCATIONS_PER_TWICE) > allocations {
        return Some(format!(
            "{} of its {} allocations return pages that are in use",
            count(twice),
            count(allocations)
        ));
    }
    let told = survey.migrated.max(survey.compacted).saturating_add(survey.mapped);
    let clashes = (twice + survey.pairs.free_already).saturating_sub(told);
    (clashes >= CLASHES_MIN && clashes.saturating_mul(EVENTS_PER_CLASH) > allocations + frees).then(|| {
        format!(
            "{} of its {} allocations and frees contradict earlier events",
            count(clashes),
            count(allocations + frees)
        )
    })
}

/// Returns the probable reason for missing frees, as a clause.
fn cause(survey: &Survey, source: &SourceFacts) -> String {
    if survey.lost > 0 || survey.gaps > 0 {
        return "the kernel lost events".to_owned();
    }
    if let Some(part) = source.coverage.describe() {
        return format!("the file covers {part}");
    }
    if let [task] = survey.tasks.active() {
        return format!("the trace covers only one task, `{}` (PID {})", task.name, task.pid);
    }
    match absent_cpus(survey, source.cpus) {
        Some(cpus) => format!("the trace has no event of {cpus}"),
        None => "a filter, or a buffer that is missing in the file".to_owned(),
    }
}

fn remedy(kind: Kind, survey: &Survey) -> &'static str {
    match kind {
        _ if survey.lost > 0 || survey.gaps > 0 => {
            "record with larger buffers: `-m 64M` for perf, `-b 65536` for trace-cmd"
        }
        Kind::Perf => "record the whole machine: `perf record -a -e 'kmem:*'`",
        Kind::TraceCmd => "record the whole machine: `trace-cmd record -e kmem` without `-F`, `-P` and filters",
        Kind::Text => {
            "record the whole machine: all CPUs, no filter, and nothing in `set_event_pid` (`perf record -a`, \
             `trace-cmd record` without `-F` and `-P`)"
        }
    }
}

/// Returns the CPUs of the machine without an event, if the number of its CPUs is known: `CPU 1 and 2 others`.
fn absent_cpus(survey: &Survey, cpus: Option<u32>) -> Option<String> {
    let all = cpus? as usize;
    let mut absent = (0..all.min(1 << 16)).filter(|cpu| !survey.seen.get(*cpu).copied().unwrap_or(false));
    let first = absent.next()?;
    let others = absent.count();
    Some(if others == 0 { format!("CPU {first}") } else { format!("CPU {first} and {others} others") })
}

/// Returns a sentence about the part of the machine that the file covers; `None` if it seems to cover all.
pub(crate) fn partial(survey: &Survey, source: &SourceFacts, cpus: u16) -> Option<String> {
    if let Some(part) = source.coverage.describe() {
        return Some(format!("The file covers {part}. Other allocations and frees are missing."));
    }
    let is_busy = survey.spool.rows() >= EVENTS_OF_BUSY_MACHINES;
    let seen = survey.seen.iter().filter(|seen| **seen).count();
    let is_one = seen == 1 && cpus > 1 && survey.spool.rows() >= EVENTS_OF_BUSY_MACHINES / 50;
    let absent = absent_cpus(survey, Some(cpus.into())).filter(|_| is_busy || is_one)?;
    Some(format!("The file has no event of {absent}: idle, or the buffer is missing."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_1_percent_drops_are_an_error() {
        let mut drops = Drops::default();
        drops.add(Counted::Events(RowKind::Free), "no value `pfn`", || "line".to_owned());
        assert!(expect_few_drops(Path::new("f"), &drops, |_| 99).is_ok());
        let error = expect_few_drops(Path::new("f"), &drops, |_| 98).unwrap_err().to_string();
        assert!(error.contains("1 of its 99 mm_page_free") && error.contains("`line`"), "{error}");
    }
}
