//! `freehold calibrate`: measures the cost of steps on this machine, and checks whether the simulation agrees with real
//! threads.

use std::borrow::Cow;
use std::path::PathBuf;

use clap::Args;
use freehold_report::formats::{Document, Formats};
use freehold_report::number::{self, Quantity};
use freehold_report::output;
use freehold_report::report::{Column, Detail, Report, Table, Value};
use freehold_report::terminal::Style;
use freehold_sim::calibrate::check::{self, Agreement, Comparison, LOCKS_MIN, Row};
use freehold_sim::calibrate::table::{Recipe, entries};
use freehold_sim::calibrate::{self, Calibration};
use freehold_sim::costs::Costs;
use freehold_stats::verdict::Verdict;
use freehold_timing::affinity;
use serde::Serialize;

use crate::error::Error;

/// Maximum CPUs that a check uses.
const CPUS_MAX: u16 = 2;

/// Arguments of `freehold calibrate`.
#[derive(Debug, Args)]
#[command(
    after_help = "A table takes about ten seconds on an idle machine, and --check takes about as long. Stop other \
                  programs first, because their load changes the measured costs.\n\n\
                  Exit status: 1 if --check finds that simulation and threads do not agree."
)]
pub struct CalibrateArgs {
    /// Name of the table, which results computed with it also contain
    #[arg(long, value_name = "NAME", default_value = "this-machine")]
    name: String,

    /// Write the table to FILE, for `freehold sim --costs FILE`
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Run other workloads on threads and in virtual time, and check that the results agree within 20 %
    #[arg(long)]
    check: bool,

    /// Table to check, instead of measuring a new one: `reference`, or a file
    #[arg(long, value_name = "NAME|FILE", requires = "check", conflicts_with_all = ["name", "out"])]
    costs: Option<String>,

    /// Check with this workload only; may be repeated
    #[arg(long, value_name = "NAME", requires = "check", value_parser = check::NAMES)]
    workload: Vec<String>,

    /// Number of measurements of each step for the table
    #[arg(long, value_name = "N", default_value_t = 31, value_parser = clap::value_parser!(u32).range(1..=1000))]
    turns: u32,

    /// Number of runs of each workload on threads for the check; at least 11
    #[arg(long, value_name = "N", requires = "check", default_value_t = check::RUNS_MIN, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,

    /// CPU to measure on [default: the last CPU that this process may use]
    #[arg(long, value_name = "N")]
    cpu: Option<u16>,

    #[command(flatten)]
    formats: Formats,
}

/// Measures the table and writes it if a file is given, or reads the given table, and checks it if `--check` is given.
/// Returns an error if simulation and threads do not agree in all cases.
pub(crate) fn run(args: &CalibrateArgs, style: Style) -> Result<(), Error> {
    if args.runs < check::RUNS_MIN {
        return Err(Error::Input(format!(
            "`--runs {}` is too few for a 95 % interval, as up to half of the runs may be discarded; give at least {}",
            args.runs,
            check::RUNS_MIN
        )));
    }
    args.formats.try_all([])?;
    args.out.as_deref().map_or(Ok(()), output::try_file)?;
    let recipe = Recipe::this();
    let measured = match args.costs {
        Some(_) => None,
        None => Some(calibrate::measure(&args.name, args.turns, args.cpu)?),
    };
    let costs = match (&measured, &args.costs) {
        (Some(calibration), _) => calibration.costs.clone(),
        (None, name) => super::sim::costs(name.as_deref().unwrap_or_default())?,
    };
    if let (Some(file), Some(calibration)) = (&args.out, &measured) {
        output::write_atomically(file, calibrate::table::text(calibration, &recipe).as_bytes())?;
    }
    let checked = if args.check { Some(Checked::new(&costs, args)?) } else { None };
    let report = CalibrateReport { recipe, costs, measured, checked };
    args.formats.emit(&report, style)?;
    report.checked.map_or(Ok(()), |checked| checked.verdict())
}

/// Measured costs, and the result of the check.
#[derive(Debug, Serialize)]
struct CalibrateReport {
    recipe: Recipe,
    costs: Costs,
    #[serde(skip)]
    measured: Option<Calibration>,
    checked: Option<Checked>,
}

/// Result of the check.
#[derive(Debug, Serialize)]
struct Checked {
    /// Maximum CPUs of the checked cases.
    cpus: u16,
    rows: Vec<Row>,
    agreeing: usize,
}

impl Checked {
    fn new(costs: &Costs, args: &CalibrateArgs) -> Result<Checked, Error> {
        let mut names = check::NAMES.to_vec();
        if !args.workload.is_empty() {
            names.retain(|name| args.workload.iter().any(|chosen| chosen == name));
        }
        let usable = affinity::usable().map_or(1, |cpus| cpus.len() as u16);
        let cpus = usable.clamp(1, CPUS_MAX);
        let rows = check::check(costs, &names, cpus, args.runs)?;
        Ok(Checked { cpus, agreeing: rows.iter().filter(|row| row.agrees()).count(), rows })
    }

    fn verdict(&self) -> Result<(), Error> {
        let all = self.rows.len();
        if self.agreeing == all { Ok(()) } else { Err(Error::Disagreement { agreeing: self.agreeing, all }) }
    }

    /// Returns two tables per checked workload.
    fn tables(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        for name in check::NAMES {
            let rows: Vec<&Row> = self.rows.iter().filter(|row| row.workload == name).collect();
            tables.push(table(format!("{name}: M op/s"), &rows, |row| (row.throughput, 1e-6)));
            tables.push(table(format!("{name}: zone locks in 1000 operations"), &rows, |row| (row.zone_locks, 1.0)));
        }
        tables.retain(|table| !table.rows.is_empty());
        tables
    }

    /// Summarizes the check in sentences.
    fn sentences(&self) -> Vec<String> {
        let (agreeing, all) = (self.agreeing, self.rows.len());
        let few = self.rows.iter().filter(|row| row.zone_locks.negligible).count();
        let stretch = self.rows.iter().map(|row| row.stretch).fold(1.0, f64::max);
        let busy = number::percent(1.0 - 1.0 / stretch);
        let mut sentences = vec![
            format!("Threads and simulation agree within 20 % in {agreeing} of {all} cases."),
            format!("Share of time that CPUs spent on other work in the runs that were kept: at most {busy}."),
        ];
        sentences.extend((few > 0).then(|| {
            format!("Cases with too few zone locks to compare, fewer than {LOCKS_MIN} in 1000 operations: {few}.")
        }));
        let one = "Two CPUs were not checked, because this process may use only one.";
        sentences.extend((self.cpus == 1).then(|| one.to_owned()));
        sentences
    }
}

/// Returns a table of one quantity of one workload, with one row per case. `quantity` returns the comparison and the
/// factor by which its numbers are scaled.
fn table(title: String, rows: &[&Row], quantity: impl Fn(&Row) -> (Comparison, f64)) -> Table {
    let mut columns = vec![Column::numbers("CPUs"), Column::words("policy")];
    columns.extend(["threads", "from", "to", "simulated", "error"].map(Column::numbers));
    columns.push(Column::words("verdict"));
    let cells = rows.iter().map(|row| {
        let (compared, scale) = quantity(row);
        cells(row, &compared, scale)
    });
    let about = "from, to: 95 % interval of the result on threads.".to_owned();
    Table { about, ..Table::new(title, columns, cells) }
}

fn cells(row: &Row, compared: &Comparison, scale: f64) -> Vec<Value> {
    let numbers = [compared.threads, compared.low, compared.high, compared.simulated];
    let policy = row.policy.rsplit(',').next().unwrap_or(row.policy);
    let mut cells = vec![Value::count(u64::from(row.cpus)), Value::text(policy)];
    cells.extend(numbers.map(|number| Value::Number(Quantity::Ratio(number * scale))));
    cells.push(compared.error().map_or(Value::None, Value::Change));
    cells.push(agreement(compared));
    cells
}

fn agreement(compared: &Comparison) -> Value {
    match compared.agreement {
        _ if compared.negligible => Value::Faint("too few".to_owned()),
        Agreement::Agrees => Value::Judged("agrees".to_owned(), Verdict::Better),
        Agreement::Differs => Value::Judged("differs".to_owned(), Verdict::Worse),
        Agreement::Unsure => Value::text("inconclusive"),
    }
}

impl Document for CalibrateReport {
    fn reports(&self) -> Cow<'_, [Report]> {
        let columns = vec![Column::words("step"), Column::counting("cost", "ns"), Column::words("description")];
        let rows = entries(&self.costs).map(|(name, picoseconds, about)| {
            let nanoseconds = Value::Number(Quantity::Ratio(picoseconds as f64 / 1000.0));
            vec![Value::text(name), nanoseconds, Value::Faint(about.to_owned())]
        });
        let costs = Table {
            conclusions: self.measured.iter().flat_map(Calibration::remarks).collect(),
            ..Table::new(format!("cost table `{}`", self.costs.name), columns, rows)
        };
        let checked = self.checked.iter();
        Cow::Owned(vec![Report {
            verdict: checked.clone().flat_map(Checked::sentences).collect(),
            tables: checked.flat_map(Checked::tables).chain([costs]).collect(),
            detail: Detail::Tables,
            ..Report::default()
        }])
    }
}

#[cfg(test)]
mod tests {
    use freehold_report::report::terminal;

    use super::*;

    fn compared(threads: f64, simulated: f64, negligible: bool) -> Comparison {
        let agreement = Agreement::Agrees;
        Comparison { threads, low: 0.9 * threads, high: 1.1 * threads, simulated, agreement, negligible }
    }

    #[test]
    fn small_lock_counts_have_no_error_and_tables_fit() {
        let row = Row {
            workload: "steady",
            cpus: 2,
            policy: "linux-6.12,pcp=owned-remote",
            throughput: compared(12_345_678.9, 13_000_000.0, false),
            zone_locks: compared(0.007, 0.0, true),
            runs: 11,
            stretch: 1.5,
        };
        let checked = Checked { cpus: 2, rows: vec![row], agreeing: 1 };
        let report = CalibrateReport {
            recipe: Recipe::this(),
            costs: Costs::reference(),
            measured: None,
            checked: Some(checked),
        };
        for width in [40, 80, 200] {
            let text = terminal::text(&report.reports()[0], Style::with_width(width));
            assert!(text.contains("too few") && !text.contains("-100.0 %"), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{width}:\n{text}");
            assert_eq!(text.contains("CPUs  policy"), width >= 80, "{text}");
        }
    }
}
