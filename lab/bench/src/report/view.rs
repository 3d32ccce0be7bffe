//! The report for people. For each pair of sides there is a summary and then a table. Possible disturbances, the tables
//! and notes of the benchmark itself, and finally the recipe follow below the tables.

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::number::Quantity;
use freehold_report::report::plot::{Axis, Plot, PlotLine, Scale, Shape};
use freehold_report::report::{Caveats, Column, Detail, Group, Measure, Report, Row, Table, Value};
use freehold_stats::verdict::Direction;

use super::results::{BenchReport, BenchResult, ComparisonRow, Exact, Note, summary};
use crate::numbers::{format_ratio, format_time};
use crate::recipe::Recipe;
use crate::values::news;

impl Document for BenchReport {
    fn reports(&self) -> Cow<'_, [Report]> {
        let mut reports: Vec<Report> = self.benches.iter().flat_map(|result| result.reports(&self.recipe)).collect();
        if let Some(last) = reports.last_mut() {
            last.recipe = self.recipe.rows(&self.recipe.timing, |_| true);
            let debug = "This is a debug build, so its times are not representative.";
            last.reading.extend((self.recipe.machine.build == "debug").then(|| debug.to_owned()));
        }
        Cow::Owned(reports)
    }
}

impl BenchResult {
    /// Returns one report for each pair of sides. The last report also has the parts that apply to all of them.
    pub fn reports(&self, recipe: &Recipe) -> Vec<Report> {
        let mut reports: Vec<Report> =
            self.groups().iter().map(|(a, b, rows)| report_sides([a, b], rows, recipe)).collect();
        if reports.is_empty() {
            reports.push(Report { detail: Detail::Tables, ..Report::default() });
        }
        reports[0].subject.insert(0, format!("{}: {}", self.bench, self.asks));
        let last = reports.last_mut().expect("at least one report was pushed");
        last.tables.extend((!self.exact.is_empty()).then(|| exact(&self.exact)));
        last.tables.extend(self.tables.iter().cloned());
        last.tables.extend(self.notes.iter().map(lines));
        let disturbances = Caveats { title: "Possible disturbances".into(), sentences: self.disturbances() };
        last.caveats.push(disturbances);
        reports
    }
}

/// Returns the report of the comparisons between two sides.
fn report_sides(sides: [&str; 2], rows: &[&ComparisonRow], recipe: &Recipe) -> Report {
    let [a, b] = sides;
    let measures = rows.iter().map(|compared| measure(compared)).collect();
    Report {
        sides: sides.map(str::to_owned),
        subject: vec![format!("A = {a}"), format!("B = {b}")],
        verdict: vec![summary(rows, recipe)],
        groups: vec![Group { name: "time", measures }],
        tables: vec![comparisons(rows, recipe)],
        plots: vec![times(sides, rows)],
        detail: Detail::Tables,
        ..Report::default()
    }
}

/// Returns the plot of the time per operation in each case.
fn times(sides: [&str; 2], rows: &[&ComparisonRow]) -> Plot {
    let [mut a, mut b] = sides.map(|name| PlotLine::new(name, Vec::new()));
    for (at, compared) in rows.iter().enumerate() {
        a.points.push((at as f64, compared.outcome.a_ns));
        b.points.push((at as f64, compared.outcome.b_ns));
    }
    Plot {
        title: "Time of an operation in ns".to_owned(),
        caption: "Lower is faster. Operations differ between cases, so only bars of one case can be compared."
            .to_owned(),
        unit: "ns".into(),
        along: "case".into(),
        scale: Scale::Named(rows.iter().map(|compared| compared.case.to_owned()).collect()),
        axis: Axis::Logarithmic,
        shape: Shape::Bars,
        lines: vec![a, b],
        ..Plot::default()
    }
}

/// Converts a case into a measure.
fn measure(compared: &ComparisonRow) -> Measure {
    let outcome = &compared.outcome;
    let row = Row {
        case: compared.operation.to_owned(),
        a: Some(Quantity::Ratio(outcome.a_ns)),
        b: Some(Quantity::Ratio(outcome.b_ns)),
        change: Some(outcome.estimate.ratio - 1.0),
        interval: Some((outcome.estimate.low - 1.0, outcome.estimate.high - 1.0)),
        verdict: outcome.verdict,
        ..Row::default()
    };
    Measure {
        name: compared.case,
        title: compared.case,
        unit: "ns",
        direction: Direction::Lower,
        rows: vec![row],
        pooled: None,
    }
}

fn comparisons(rows: &[&ComparisonRow], recipe: &Recipe) -> Table {
    let has_bars = rows.iter().any(|row| row.bar.is_some());
    let confidence = rows[0].outcome.estimate.confidence * 100.0;
    let mut columns = Column::several(&["case", "unit"], &["A", "B", "B/A", "low", "high"]);
    columns.extend([Column::words("verdict"), Column::numbers("runs")]);
    columns.extend(has_bars.then(|| Column::words("bar")));
    let rows = rows.iter().map(|compared| {
        let outcome = &compared.outcome;
        let mut values = vec![
            Value::text(compared.case),
            Value::Faint(format!("ns {}", compared.operation)),
            Value::text(format_time(outcome.a_ns)),
            Value::text(format_time(outcome.b_ns)),
            Value::text(format_ratio(outcome.estimate.ratio)),
            Value::text(format_ratio(outcome.estimate.low)),
            Value::text(format_ratio(outcome.estimate.high)),
            Value::Judged(compared.verdict_text(recipe), outcome.verdict),
            Value::text(outcome.estimate.runs),
        ];
        values.extend(has_bars.then(|| Value::Judged(compared.bar_text(), news(compared.bar_holds))));
        values
    });
    let about = format!("From low to high is the interval of B/A at {confidence:.1} % confidence.");
    Table { about, ..Table::new("", columns, rows) }
}

/// Returns a table of exact counts, which are equal on every machine.
fn exact(rows: &[Exact]) -> Table {
    let columns = vec![
        Column::words("count"),
        Column::words("side A"),
        Column::numbers("A"),
        Column::words("side B"),
        Column::numbers("B"),
        Column::words("verdict"),
    ];
    let rows = rows.iter().map(|row| {
        vec![
            Value::text(&row.what),
            Value::Faint(row.a.clone()),
            Value::count(row.a_count),
            Value::Faint(row.b.clone()),
            Value::count(row.b_count),
            Value::Judged(row.verdict.word().to_owned(), row.verdict),
        ]
    });
    Table::new("Exact counts", columns, rows)
}

/// Returns a table of lines without any formatting, because people copy some of them.
fn lines(note: &Note) -> Table {
    Table::new(&note.title, vec![Column::words("")], note.lines.iter().map(|line| vec![Value::text(line)]))
}
