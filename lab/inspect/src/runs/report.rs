//! Report on two groups of runs.

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::number::{Quantity, change, unit};
use freehold_report::report::screen::headline;
use freehold_report::report::{self, Caveats, Column, Detail, Group, Measure, Report, Table, Value};
use freehold_stats::samples::{Comparison, RUNS_MIN, Sample};

use super::measures::{self, MEASURES};
use super::{Row, Runs, Side};

/// Options to try next.
const NEXT: &str = "It also lists counters, spreads and intervals.";

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
        let groups = self.groups();
        Cow::Owned(vec![Report {
            sides: [a.name.clone(), b.name.clone()],
            subject: vec![subject("A", a), subject("B", b)],
            verdict: self.in_short(&groups),
            groups,
            tables,
            caveats: self.caveats(),
            next: vec![NEXT.to_owned()],
            detail: if self.is_whole { Detail::All } else { Detail::Differences },
            ..Report::default()
        }])
    }
}

impl Row {
    /// Returns whether the verdict is that B differs from A.
    pub fn differs(&self) -> bool {
        self.comparison.differs()
    }
}

impl Runs {
    /// Returns whether the verdict is that B differs from A in any of the deciding measures.
    pub fn differ(&self) -> bool {
        self.measures.iter().any(Row::differs)
    }

    /// Returns the headline, and the rule behind the labels.
    fn in_short(&self, groups: &[Group]) -> Vec<String> {
        let runs = self.sides.each_ref().map(|side| side.recordings.len());
        if runs.iter().any(|&runs| runs < RUNS_MIN) {
            return vec![format!(
                "no verdict: {} runs of A and {} of B; record at least {RUNS_MIN} of each.",
                runs[0], runs[1]
            )];
        }
        let counters = self.counters.iter().filter(|row| row.differs()).count();
        let others = format!("Other counters that differ: {counters} of {}.", self.counters.len());
        vec![headline(groups), others]
    }

    /// Returns the deciding measures by cause, as means over the runs.
    fn groups(&self) -> Vec<Group> {
        let causes = self.measures.chunk_by(|one, next| one.cause == next.cause);
        let groups =
            causes.map(|rows| Group { name: rows[0].cause, measures: rows.iter().filter_map(measure).collect() });
        groups.collect()
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

/// Returns a deciding measure with its means over the runs of A and of B.
fn measure(row: &Row) -> Option<Measure> {
    let measures::Measure { name, direction, .. } = *MEASURES.iter().find(|measure| measure.name == row.name)?;
    let Comparison { a, b, change, interval, verdict } = &row.comparison;
    let case = report::Row {
        a: Some(Quantity::from_mean(a.mean)),
        b: Some(Quantity::from_mean(b.mean)),
        change: *change,
        interval: *interval,
        verdict: *verdict,
        ..report::Row::default()
    };
    Some(Measure { name, title: name, unit: "", direction, rows: vec![case], pooled: None })
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
