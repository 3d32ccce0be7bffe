//! Labels and lines of advice: effects, prices, reasons to leave a setting, commands, and caveats.

use freehold_report::number::{change, count, percent};
use freehold_report::report::{Measure, Row};
use freehold_stats::verdict::Verdict;

use super::concerns::{CONCERNS, Concern, OF_PRESSURE};
use super::judge::{CandidateVerdict, Effect, Finding, RECORDINGS_MIN, ReservedMemory};
use crate::report::metrics::Metric;
use crate::settings::DEFRAG;

/// Formats an effect: the change and its interval.
pub(crate) fn effect(effect: &Effect) -> String {
    let size = effect.change.map_or_else(|| "from 0".to_owned(), |size| change(Some(size)));
    let ends = effect.interval.map(|(low, high)| format!(" ({} to {})", change(Some(low)), change(Some(high))));
    [effect.words, " ", &size, &ends.unwrap_or_default()].concat()
}

/// Formats the replay's error in the measure that gets better.
pub(crate) fn accuracy(effect: &Effect) -> String {
    effect.replay_error.map_or_else(|| "unknown".to_owned(), |error| format!("at most {}", percent(error)))
}

/// Lists the measures that get worse, judged or not, and the memory that is set apart.
pub(crate) fn price(judged: &CandidateVerdict) -> String {
    let losses = judged.losses().map(|loss| {
        let label = if loss.verdict == Verdict::NotJudged { " (not judged)" } else { "" };
        format!("{}{label}", effect(loss))
    });
    let all: Vec<String> = losses.chain([memory(judged.memory)]).collect();
    all.join("; ")
}

/// Formats the memory that is set apart, in MiB.
fn memory(memory: ReservedMemory) -> String {
    let bytes = memory.kept_free_bytes.max(0) + memory.on_lists_bytes.max(0);
    format!("{} MiB", count((bytes >> 20).unsigned_abs()))
}

/// Returns the reason why a setting is left as it is, given the results of its values.
pub(crate) fn reason(findings: &[Finding]) -> String {
    let costs = findings.iter().find_map(|finding| match finding {
        Finding::Costs { concern } => Some(CONCERNS[*concern].words),
        _ => None,
    });
    let doubt = findings.iter().filter_map(|finding| match finding {
        Finding::Doubtful { doubt } => Some(*doubt),
        _ => None,
    });
    match costs {
        Some(words) => format!("makes {words} worse"),
        None if findings.contains(&Finding::CostsMemory) => "costs more than 1 % of memory".to_owned(),
        None if findings.contains(&Finding::Disagreement) => "the recordings disagree".to_owned(),
        None => doubt.max().map_or_else(|| "no gain".to_owned(), |doubt| doubt.label().to_owned()),
    }
}

/// Returns the command that sets `setting` to `value`.
pub(crate) fn command(setting: &str, value: &str) -> String {
    match setting {
        DEFRAG => format!("echo {value} > /sys/kernel/mm/transparent_hugepage/defrag"),
        _ => format!("sysctl -w {setting}={value}"),
    }
}

/// Returns the concern of an effect; `None` for the effect on free pageblocks, which is only a price.
pub(crate) fn concern(effect: &Effect) -> Option<&'static Concern> {
    CONCERNS.iter().find(|concern| concern.metric.name() == effect.name)
}

/// Returns the rules of the advice, in the order in which they decide.
pub(crate) fn rules() -> String {
    let words: Vec<&str> = CONCERNS.iter().map(|concern| concern.words).collect();
    format!(
        "Measures in order of importance: {}. Worth testing: the gain exceeds the sensitivity to watermarks and chance, \
         and also the replay error in most recordings, unless {RECORDINGS_MIN} or more recordings from different times \
         all show the gain; neither this measure nor one before it in this order gets worse; the value costs at most \
         1 % of memory. Recommended: {RECORDINGS_MIN} recordings with pressure from different times show the gain, in a \
         measure that their replays reproduce; no measure gets worse, nor the number of free pageblocks; at least one \
         earlier prediction of that measure for that setting was decided, and all decided ones were right.",
        words.join(", ")
    )
}

/// Returns the rule for measures whose replay error is above its bound.
pub(crate) fn unreliable() -> String {
    format!(
        "In these measures, a gain in requests, reclaims, compactions or huge pages counts if it exceeds the replay \
         error. Any gain counts if {RECORDINGS_MIN} or more recordings from different times all show it. A loss always \
         counts."
    )
}

/// Facts that hold for all advice.
pub(crate) const ALWAYS: [&str; 2] = [
    "Each value was tried alone, on the recorded work.",
    "A value that is set with these commands lasts until the next boot.",
];

/// Caveat for recordings in which memory was never short.
pub(crate) const NO_PRESSURE: &str = "Memory was never short in the recordings: no request failed, reclaimed or \
                               compacted. Only the zone lock, per-CPU lists and huge pages can be judged.";

/// Returns whether a metric exists only where memory is short.
pub(crate) fn is_of_pressure(metric: Metric) -> bool {
    OF_PRESSURE.contains(&metric)
}

/// Formats a concern that is not judged on some recordings, with the replay's errors there; `None` if it is judged on
/// all.
pub(crate) fn not_judged(words: &str, measure: &Measure) -> Option<String> {
    let far: Vec<String> =
        measure.rows.iter().filter(|row| row.verdict == Verdict::NotJudged).map(format_error).collect();
    let on = if far.len() < measure.rows.len() {
        format!(", on {} of {} recordings", far.len(), measure.rows.len())
    } else {
        String::new()
    };
    (!far.is_empty()).then(|| format!("{words} ({}{on})", far.join(", ")))
}

/// Formats the replay's error on a recording.
fn format_error(row: &Row) -> String {
    row.replay_error.map_or_else(|| "not recorded".to_owned(), |error| change(Some(error)))
}
