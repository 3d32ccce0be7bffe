//! One-line descriptions of recordings: each by itself, or a summary if there are many.

use std::collections::HashMap;

use freehold_report::number;
use freehold_report::origin::version_in;
use freehold_report::report::{Column, Table, Value};
use freehold_trace::recording::RecordingFacts;

use super::fidelity::{FidelityMeasure, FidelityRow, VmstatCounter};

/// Largest number of recordings that are listed one by one. More recordings are summarized.
pub const LISTED_MAX: usize = 12;

/// Fidelity rows of the replays under the recorded kernels' rules: the recording's file, the policy, and the row.
pub(crate) type FidelityOf<'r> = (&'r str, &'r str, &'r FidelityRow);

/// Returns a table of the recordings: the machine, whether its memory was short, and how well the replay under the
/// recorded kernel's rules agrees with the kernel. `short` returns the name of a recording.
pub(crate) fn recordings<'r>(
    all: &[RecordingFacts],
    fidelity: impl Iterator<Item = FidelityOf<'r>>,
    short: impl Fn(&RecordingFacts) -> String,
) -> Table {
    let mut policies = Vec::new();
    let mut rows_by_file: HashMap<&str, Vec<&FidelityRow>> = HashMap::new();
    for (file, policy, row) in fidelity {
        rows_by_file.entry(file).or_default().push(row);
        policies.push(policy);
    }
    policies.sort_unstable();
    policies.dedup();
    let policy = if let [policy] = policies.as_slice() { policy } else { "replay" };
    let columns = ["recording", "machine", "memory"]
        .map(Column::words)
        .into_iter()
        .chain([Column::words(format!("{policy} against kernel"))]);
    let rows: Vec<&[&FidelityRow]> =
        all.iter().map(|facts| rows_by_file.get(facts.file.as_str()).map_or(&[][..], Vec::as_slice)).collect();
    let lines = match all.len() {
        0..=LISTED_MAX => all.iter().zip(rows).map(|(facts, rows)| line(short(facts), facts, rows)).collect(),
        _ => vec![sum_up(all, &rows)],
    };
    Table::new("", columns.collect(), lines)
}

/// Returns the row of one recording.
fn line(name: String, facts: &RecordingFacts, rows: &[&FidelityRow]) -> Vec<Value> {
    let machine = format!("Linux {}, {}", version_in(&facts.kernel_release), extent(facts));
    let checks = Checks::count(rows);
    let accuracy = match checks.total {
        0 => checks.word().to_owned(),
        total => format!("{}: {} of {total} in bounds", checks.word(), checks.within),
    };
    [name, machine, memory(rows).to_owned(), accuracy].map(Value::text).to_vec()
}

/// Returns one row for many recordings.
fn sum_up(all: &[RecordingFacts], rows: &[&[&FidelityRow]]) -> Vec<Value> {
    let mut kernels: Vec<&str> = all.iter().map(|facts| version_in(&facts.kernel_release)).collect();
    kernels.sort_unstable();
    kernels.dedup();
    let kernels = match kernels.len() {
        0..=LISTED_MAX => format!("Linux {}", kernels.join(", ")),
        several => format!("{several} releases of Linux"),
    };
    let cpus = all.iter().map(|facts| facts.cpus);
    let (least, most) = (cpus.clone().min().unwrap_or(0), cpus.max().unwrap_or(0));
    let cpus = if least == most { most.to_string() } else { format!("{least} to {most}") };
    let seconds: f64 = all.iter().map(|facts| facts.duration_seconds).sum();
    let words = |words: &[&str], word: fn(&[&FidelityRow]) -> &'static str| {
        let counts = words.iter().map(|wanted| (wanted, rows.iter().filter(|rows| word(rows) == *wanted).count()));
        let counts: Vec<String> =
            counts.filter(|(_, count)| *count > 0).map(|(word, count)| format!("{word} {count}")).collect();
        counts.join(", ")
    };
    let texts = [
        format!("all {}", number::count(all.len() as u64)),
        format!("{kernels}, {cpus} CPUs, {seconds:.1} s"),
        words(&[PLENTIFUL, SHORT, UNKNOWN], memory),
        words(&[GOOD, FAIR, POOR, UNKNOWN], |rows| Checks::count(rows).word()),
    ];
    texts.map(Value::text).to_vec()
}

/// Returns the number of recorded CPUs, the number of replayed CPUs if it differs, and the duration.
pub(crate) fn extent(facts: &RecordingFacts) -> String {
    let spread =
        if facts.replay_cpus == facts.cpus { String::new() } else { format!(" spread over {}", facts.replay_cpus) };
    format!("{} CPUs{spread}, {:.1} s", facts.cpus, facts.duration_seconds)
}

const PLENTIFUL: &str = "plentiful";
const SHORT: &str = "short";
const UNKNOWN: &str = "unknown";
const GOOD: &str = "good";
const FAIR: &str = "fair";
const POOR: &str = "poor";

/// Returns whether the recorded kernel reclaimed pages or refused a request. Unknown if the recording has no counters
/// of reclaim.
fn memory(rows: &[&FidelityRow]) -> &'static str {
    let signs = [
        FidelityMeasure::Failures,
        FidelityMeasure::AllocStalls,
        FidelityMeasure::Vmstat(VmstatCounter::PgscanKswapd),
        FidelityMeasure::Vmstat(VmstatCounter::PgscanDirect),
    ];
    let recorded: Vec<&&FidelityRow> = rows.iter().filter(|row| signs.contains(&row.measure)).collect();
    match recorded.iter().any(|row| row.recorded > 0.0) {
        true => SHORT,
        false if recorded.iter().any(|row| row.measure != FidelityMeasure::Failures) => PLENTIFUL,
        false => UNKNOWN,
    }
}

/// The checks of one recording: the fidelity rows with a bound.
struct Checks {
    within: usize,
    total: usize,
}

impl Checks {
    fn count(rows: &[&FidelityRow]) -> Checks {
        let checks = rows.iter().filter_map(|row| row.within);
        Checks { within: checks.clone().filter(|within| *within).count(), total: checks.count() }
    }

    /// Returns a word for the accuracy: good if every check is within its bound, fair if three quarters are.
    fn word(&self) -> &'static str {
        match self {
            Checks { total: 0, .. } => UNKNOWN,
            Checks { within, total } if within == total => GOOD,
            Checks { within, total } if within * 4 >= total * 3 => FAIR,
            Checks { .. } => POOR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fidelity::FidelityMeasure;
    use super::*;

    fn facts(number: u16) -> RecordingFacts {
        RecordingFacts {
            file: format!("{number}.parquet"),
            kernel_release: "6.12.1-host".to_owned(),
            cpus: 2 + number % 2,
            replay_cpus: 2 + number % 2,
            duration_seconds: 1.5,
            rows: 7,
            guesses: Vec::new(),
        }
    }

    fn file(facts: &RecordingFacts) -> String {
        facts.file.clone()
    }

    fn texts(table: &Table) -> Vec<String> {
        table.rows.iter().map(|row| row.iter().map(Value::shown).collect::<Vec<_>>().join(" | ")).collect()
    }

    #[test]
    fn few_recordings_are_listed_and_many_summarised() {
        let all: Vec<RecordingFacts> = (0..20).map(facts).collect();
        let rows = [1.0, 2.0].map(|replayed| FidelityRow::new(FidelityMeasure::FreePages, 1.0, replayed, Some(0.1)));
        let fidelity = || rows.iter().map(|row| ("0.parquet", "linux-6.12", row));
        let one = recordings(&all[..1], fidelity(), file);
        assert_eq!(one.columns[3].name, "linux-6.12 against kernel");
        assert_eq!(texts(&one), ["0.parquet | Linux 6.12.1, 2 CPUs, 1.5 s | unknown | poor: 1 of 2 in bounds"]);
        let many = recordings(&all, fidelity(), file);
        assert_eq!(texts(&many), ["all 20 | Linux 6.12.1, 2 to 3 CPUs, 30.0 s | unknown 20 | poor 1, unknown 19"]);
    }

    #[test]
    fn memory_is_short_if_the_kernel_reclaimed_or_refused() {
        let row = |measure, recorded| FidelityRow::new(measure, recorded, 1.0, None);
        let scanned = FidelityMeasure::Vmstat(VmstatCounter::PgscanKswapd);
        assert_eq!(memory(&[&row(scanned, 0.0), &row(FidelityMeasure::FreePages, 7.0)]), PLENTIFUL);
        assert_eq!(memory(&[&row(scanned, 1.0)]), SHORT);
        assert_eq!(memory(&[&row(FidelityMeasure::Failures, 1.0)]), SHORT);
        assert_eq!(memory(&[&row(FidelityMeasure::Failures, 0.0)]), UNKNOWN);
    }

    #[test]
    fn accuracy_is_a_word_for_the_share_of_checks_within_bounds() {
        let words =
            [(13, 13), (12, 13), (3, 4), (5, 13), (0, 0)].map(|(within, total)| Checks { within, total }.word());
        assert_eq!(words, [GOOD, FAIR, FAIR, POOR, UNKNOWN]);
    }
}
