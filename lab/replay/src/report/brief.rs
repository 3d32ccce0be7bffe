//! One-line descriptions of recordings: each by itself, or a summary if there are many.

use std::collections::HashMap;

use freehold_report::number::{self, change};
use freehold_report::origin::version_in;
use freehold_trace::recording::RecordingFacts;

use super::fidelity::FidelityRow;

/// Largest number of recordings that are listed one by one. More recordings are summarized.
pub const LISTED_MAX: usize = 12;

/// Describes the recordings. `short` returns the name of a recording.
pub(crate) fn recordings(all: &[RecordingFacts], short: impl Fn(&RecordingFacts) -> String) -> String {
    if all.len() > LISTED_MAX {
        return sum_up(all);
    }
    let lines = all
        .iter()
        .map(|facts| format!("{}: Linux {}, {}", short(facts), version_in(&facts.kernel_release), extent(facts)));
    lines.collect::<Vec<_>>().join("; ")
}

fn sum_up(all: &[RecordingFacts]) -> String {
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
    format!("{} recordings: {kernels}, {cpus} CPUs, {seconds:.1} s in all", number::count(all.len() as u64))
}

/// Returns the number of recorded CPUs, the number of replayed CPUs if it differs, and the duration.
pub(crate) fn extent(facts: &RecordingFacts) -> String {
    let spread =
        if facts.replay_cpus == facts.cpus { String::new() } else { format!(" spread over {}", facts.replay_cpus) };
    format!("{} CPUs{spread}, {:.1} s", facts.cpus, facts.duration_seconds)
}

/// Counts the checks that are within their bounds. `rows` has the rows of each recording, by its file.
pub(crate) fn checks<'r>(
    all: &[RecordingFacts],
    rows: impl Iterator<Item = (&'r str, &'r FidelityRow)>,
    short: impl Fn(&RecordingFacts) -> String,
) -> String {
    let mut rows_by_file: HashMap<&str, Vec<&FidelityRow>> = HashMap::new();
    for (file, row) in rows.filter(|(_, row)| row.within.is_some()) {
        rows_by_file.entry(file).or_default().push(row);
    }
    let checks: Vec<Checks<'_>> =
        all.iter().map(|facts| Checks::new(rows_by_file.get(facts.file.as_str()).map_or(&[], Vec::as_slice))).collect();
    if all.len() <= LISTED_MAX {
        let summaries = all.iter().zip(&checks).map(|(facts, checks)| format!("{} {}", short(facts), checks.summary()));
        return summaries.collect::<Vec<_>>().join("; ");
    }
    let whole = checks.iter().filter(|checks| checks.within == checks.total).count();
    let within: usize = checks.iter().map(|checks| checks.within).sum();
    let total: usize = checks.iter().map(|checks| checks.total).sum();
    format!("{within} of {total}; all checks within bounds on {whole} of {} recordings", all.len())
}

/// The checks of one recording that have bounds.
struct Checks<'r> {
    within: usize,
    total: usize,
    worst: Option<&'r FidelityRow>,
}

impl<'r> Checks<'r> {
    fn new(rows: &[&'r FidelityRow]) -> Checks<'r> {
        let off: Vec<&'r FidelityRow> = rows.iter().copied().filter(|row| row.within == Some(false)).collect();
        let worst = off.iter().copied().max_by(|a, b| excess(a).total_cmp(&excess(b)));
        Checks { within: rows.len() - off.len(), total: rows.len(), worst }
    }

    fn summary(&self) -> String {
        let worst =
            self.worst.map(|row| format!(", worst {} {}", row.measure.name().replace('_', " "), format_error(row)));
        format!("{} of {}{}", self.within, self.total, worst.unwrap_or_default())
    }
}

/// Formats the error of a row.
fn format_error(row: &FidelityRow) -> String {
    row.relative_error.map_or_else(|| "(none recorded)".to_owned(), |error| change(Some(error)))
}

/// Returns the error of a row as a multiple of its bound; infinite if only the recorded value is zero, or the bound is
/// zero.
fn excess(row: &FidelityRow) -> f64 {
    let bound = row.bound.filter(|bound| *bound > 0.0);
    row.relative_error.zip(bound).map_or(f64::INFINITY, |(error, bound)| error.abs() / bound)
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

    #[test]
    fn few_recordings_are_listed_and_many_summarised() {
        let all: Vec<RecordingFacts> = (0..20).map(facts).collect();
        assert_eq!(recordings(&all[..1], file), "0.parquet: Linux 6.12.1, 2 CPUs, 1.5 s");
        assert_eq!(recordings(&all, file), "20 recordings: Linux 6.12.1, 2 to 3 CPUs, 30.0 s in all");
        let rows = [1.0, 2.0].map(|replayed| FidelityRow::new(FidelityMeasure::FreePages, 1.0, replayed, Some(0.1)));
        let [one, many] = [&all[..1], &all].map(|all| checks(all, rows.iter().map(|row| ("0.parquet", row)), file));
        assert_eq!(one, "0.parquet 1 of 2, worst free pages +100.0 %");
        assert_eq!(many, "1 of 2; all checks within bounds on 19 of 20 recordings");
    }
}
