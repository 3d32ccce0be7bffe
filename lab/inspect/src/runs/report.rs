//! Report on two groups of runs.

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::number::{Quantity, change, percent, unit};
use freehold_report::report::{Caveats, Column, Detail, Report, Table, Value};
use freehold_stats::samples::{Comparison, RUNS_MIN, Sample};
use freehold_stats::verdict;

use super::{Row, Runs, Side};

/// Most differences that the verdict names.
const NAMED: usize = 6;

impl Document for Runs {
    fn reports(&self) -> Cow<'_, [Report]> {
        let shown = self.counters.iter().filter(|row| self.is_whole || row.differs());
        let counters: Vec<Row> = shown.cloned().collect();
        let mut tables = vec![table("Measures", &self.measures)];
        if !counters.is_empty() {
            let title = if self.is_whole { "All counters" } else { "Counters that differ" };
            tables.push(table(title, &counters));
        }
        let [a, b] = &self.sides;
        Cow::Owned(vec![Report {
            sides: [a.name.clone(), b.name.clone()],
            subject: vec![subject("A", a), subject("B", b)],
            verdict: self.in_short(),
            tables,
            caveats: self.caveats(),
            detail: Detail::Tables,
            ..Report::default()
        }])
    }
}

impl Row {
    /// Returns whether the verdict is that B differs from A.
    pub fn differs(&self) -> bool {
        self.comparison.differs()
    }

    fn describe(&self) -> String {
        format!("{} {}", self.name, shown_change(&self.comparison))
    }
}

impl Runs {
    /// Returns whether the verdict is that B differs from A in any of the deciding measures.
    pub fn differ(&self) -> bool {
        self.measures.iter().any(Row::differs)
    }

    fn in_short(&self) -> Vec<String> {
        let runs = self.sides.each_ref().map(|side| side.recordings.len());
        if runs.iter().any(|&runs| runs < RUNS_MIN) {
            return vec![format!(
                "no verdict: {} runs of A and {} of B; record at least {RUNS_MIN} of each.",
                runs[0], runs[1]
            )];
        }
        let mut differing: Vec<&Row> = self.measures.iter().filter(|row| row.differs()).collect();
        differing.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        let names = differing.iter().take(NAMED).map(|row| row.describe()).collect::<Vec<_>>().join("; ");
        let total = self.measures.len();
        let first = match differing.len() {
            0 => format!("B differs in 0 of {total} measures."),
            1 => format!("B differs in 1 of {total} measures: {names}."),
            many if many > NAMED => format!("B differs in {many} of {total} measures; the largest changes: {names}."),
            many => format!("B differs in {many} of {total} measures: {names}."),
        };
        let margin = percent(self.margin);
        let rest = format!("Margin {margin}. Labels: {}.", self.count_labels());
        let counters = self.counters.iter().filter(|row| row.differs()).count();
        let last = format!("Other counters that differ: {counters} of {}.", self.counters.len());
        vec![first, rest, last]
    }

    /// Counts the measures by label.
    fn count_labels(&self) -> String {
        let labels = self.measures.iter().map(|row| row.comparison.verdict);
        let shown = verdict::count_labels(labels).filter(|(_, count)| *count > 0);
        shown.map(|(label, count)| format!("{} {count}", label.word())).collect::<Vec<_>>().join(", ")
    }

    fn caveats(&self) -> Vec<Caveats> {
        let mut sentences = self.caveats.clone();
        sentences.push(
            "The intervals of all measures hold at 95 % jointly, and so do the intervals of all counters. They are \
             computed from the differences between runs of one kernel."
                .to_owned(),
        );
        let lost: u64 = self.sides.iter().map(|side| side.lost).sum();
        if lost > 0 {
            sentences.push(format!("{lost} events were lost, so counts of events are too low."));
        }
        for (letter, names) in ["A", "B"].iter().zip(&self.of_one_side).filter(|(_, names)| !names.is_empty()) {
            sentences.push(format!("Counters of the kernel of {letter} only: {}.", names.join(", ")));
        }
        vec![Caveats { title: "Notes".into(), sentences }]
    }
}

/// Returns the rank of a difference: the size of its change on a logarithmic scale. A change from zero ranks first.
fn weight(row: &Row) -> f64 {
    row.comparison.change.map_or(f64::INFINITY, |change| (1.0 + change).max(1e-9).ln().abs())
}

fn subject(letter: &str, side: &Side) -> String {
    let runs = side.recordings.len();
    format!("{letter}: {}, {runs} {}", side.name, unit(runs as u64, "runs"))
}

fn table(title: &str, rows: &[Row]) -> Table {
    let columns = Column::several(&["", "measure"], &["A", "spread", "B", "spread of B", "change", "interval"]);
    let columns = columns.into_iter().chain([Column::words("verdict")]).collect();
    let mut last = "";
    let cells = rows.iter().map(|row| {
        let cause = if row.cause == last { "" } else { row.cause };
        last = row.cause;
        let Comparison { a, b, interval, verdict, .. } = &row.comparison;
        vec![
            Value::text(cause),
            Value::text(&row.name),
            Value::Number(Quantity::from_mean(a.mean)),
            spread(a),
            Value::Number(Quantity::from_mean(b.mean)),
            spread(b),
            Value::text(shown_change(&row.comparison)),
            interval.map_or(Value::None, |(low, high)| {
                Value::text(format!("{} to {}", change(Some(low)), change(Some(high))))
            }),
            Value::verdict(*verdict),
        ]
    });
    Table::new(title, columns, cells.collect::<Vec<_>>())
}

fn shown_change(comparison: &Comparison) -> String {
    match comparison.change {
        Some(relative) => change(Some(relative)),
        None => "from 0".to_owned(),
    }
}

fn spread(sample: &Sample) -> Value {
    sample.spread().map_or(Value::None, Value::Share)
}
