//! What advice says in words: effects, prices, reasons to leave a setting, recipes, caveats.

use freehold_report::number::{change, count};
use freehold_report::report::pool::CASES_MIN;
use freehold_report::report::{Measure, Row};

use super::concerns::{CONCERNS, OF_PRESSURE};
use super::judge::{CandidateVerdict, Effect, Finding, ReservedMemory};
use crate::report::metrics::Metric;
use crate::settings::DEFRAG;

/// An effect: what changes, by how much, and its interval. Where not all recordings tell it, so many do.
pub(crate) fn effect(effect: &Effect, recordings: usize) -> String {
    let size = effect.change.map_or_else(|| "from none".to_owned(), |size| change(Some(size)));
    let ends = effect.interval.map(|(low, high)| format!(" ({} to {})", change(Some(low)), change(Some(high))));
    let on = (effect.recordings < recordings).then(|| format!(" on {} of {recordings}", effect.recordings));
    [effect.words, " ", &size, &ends.unwrap_or_default(), &on.unwrap_or_default()].concat()
}

/// What a value gains.
pub(crate) fn gains(judged: &CandidateVerdict, recordings: usize) -> String {
    judged.gains().map(|gain| effect(gain, recordings)).collect::<Vec<_>>().join("; ")
}

/// What a value costs.
pub(crate) fn price(judged: &CandidateVerdict, recordings: usize) -> String {
    let losses = judged.losses().map(|loss| effect(loss, recordings));
    let all: Vec<String> = losses.chain(memory(judged.memory)).collect();
    if all.is_empty() { "none seen".to_owned() } else { all.join("; ") }
}

/// Memory that is set apart, from a mebibyte on.
fn memory(memory: ReservedMemory) -> Vec<String> {
    let parts =
        [(memory.kept_free_bytes >> 20, "kept free"), (memory.on_lists_bytes >> 20, "on per-CPU lists at most")];
    let shown = parts.into_iter().filter(|(mebibytes, _)| *mebibytes > 0);
    shown.map(|(mebibytes, what)| format!("{} MiB more {what}", count(mebibytes.unsigned_abs()))).collect()
}

/// Why a setting is left as it is, given what came of its values.
pub(crate) fn reason(findings: &[Finding]) -> String {
    let costs = findings.iter().find_map(|finding| match finding {
        Finding::Costs { concern } => Some(CONCERNS[*concern].words),
        _ => None,
    });
    match costs {
        Some(words) => format!("what gets better costs {words}"),
        None if findings.contains(&Finding::CostsMemory) => "saves work, and is not worth the memory".to_owned(),
        None if findings.contains(&Finding::Undecided) => "too few events, or recordings that do not agree".to_owned(),
        None => "nothing gets better".to_owned(),
    }
}

/// How to set it.
pub(crate) fn command(setting: &str, value: &str) -> String {
    match setting {
        DEFRAG => format!("echo {value} > /sys/kernel/mm/transparent_hugepage/defrag"),
        _ => format!("sysctl -w {setting}={value}"),
    }
}

/// How intervals are to be read.
pub(crate) fn about_intervals(recordings: usize) -> String {
    match recordings {
        1 => "One recording gives no interval: a replay repeats exactly, and says nothing of other runs. Record the \
              same work several times and give all files: with six or more an interval has a confidence of 95 %."
            .to_owned(),
        _ if recordings < CASES_MIN => format!(
            "An interval is all that the {recordings} recordings gave; with six or more it has a confidence of 95 %."
        ),
        _ => "An interval holds the middle recording's change at a confidence of 95 %.".to_owned(),
    }
}

/// How values are ranked.
pub(crate) fn about_ranking() -> String {
    let words: Vec<&str> = CONCERNS.iter().map(|concern| concern.words).collect();
    let [first, others @ ..] = words.as_slice() else { return String::new() };
    format!(
        "What matters most decides: {first}, then {}. No value is proposed that makes one of them worse for the sake \
         of a later one, nor for what no more than half of the recordings tell. Scans and locks alone are not worth a \
         hundredth of the memory, and where there are fewer of them than one for a hundred requests, not worth saving.",
        others.join(", ")
    )
}

/// What keeps chance out of it.
pub(crate) const ABOUT_CHANCE: &str = "Where memory is short, a few pages decide what follows. So each recording is \
                                replayed with vm.min_free_kbytes a hundredth up and down, too, and a change that is \
                                no larger than what this makes is none.";

/// Always true of advice.
pub(crate) const ALWAYS: [&str; 2] = [
    "Each value was tried alone, on the work as it was recorded; nothing is said of several together.",
    "What is written so lasts until the next boot.",
];

/// Said where memory was never short.
pub(crate) const NO_PRESSURE: &str = "ReservedMemory was never short in what was recorded: no request failed, reclaimed or \
                               compacted. So this is advice about the zone lock, per-CPU lists and huge pages alone.";

/// Whether a metric is about memory being short.
pub(crate) fn is_of_pressure(metric: Metric) -> bool {
    OF_PRESSURE.contains(&metric)
}

/// A concern that has no verdict on some recordings, with how far the replay is off there; nothing where it has one
/// on all.
pub(crate) fn not_judged(words: &str, measure: &Measure) -> Option<String> {
    let far: Vec<String> = measure.rows.iter().filter(|row| row.verdict.is_none()).map(format_error).collect();
    let on = if far.len() < measure.rows.len() {
        format!(", on {} of {}", far.len(), measure.rows.len())
    } else {
        String::new()
    };
    (!far.is_empty()).then(|| format!("{words} ({}{on})", far.join(", ")))
}

/// How far the replay is off on a recording.
fn format_error(row: &Row) -> String {
    row.replay_error.map_or_else(|| "not recorded, or none was".to_owned(), |error| change(Some(error)))
}
