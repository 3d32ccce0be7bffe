//! `freehold calibrate`: what steps cost on this machine, and whether the simulation agrees with real threads.

use std::path::PathBuf;

use clap::Args;
use comfy_table::Cell;
use freehold_measure::affinity;
use freehold_measure::formats::{Document, Formats};
use freehold_measure::number;
use freehold_measure::output;
use freehold_measure::terminal::{Column, Style, Tone, table_text};
use freehold_sim::calibrate::check::{self, Agreement, Compared, LOCKS_MIN, Row};
use freehold_sim::calibrate::table::{Recipe, entries};
use freehold_sim::calibrate::{self, Calibration};
use freehold_sim::costs::Costs;
use serde::Serialize;

use crate::error::Error;

/// CPUs that a check uses at most.
const CPUS_MAX: u16 = 2;

/// Arguments of `freehold calibrate`.
#[derive(Debug, Args)]
#[command(
    after_help = "A table takes about ten seconds, and so does --check, on an idle machine. Close what else runs: a table that \
                  was measured beside other work describes both.\n\n\
                  Exit status: as everywhere, but 1 if --check finds that simulation and threads do not agree."
)]
pub struct CalibrateArgs {
    /// The name that the table, and results made with it, carry
    #[arg(long, value_name = "NAME", default_value = "this-machine")]
    name: String,

    /// Write the table to FILE, for `freehold sim --costs FILE`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Run other workloads on threads and in virtual time, and say whether they agree within 20 %
    #[arg(long)]
    check: bool,

    /// Check this table instead of one that is measured now: `reference`, or a file
    #[arg(long, value_name = "NAME|FILE", requires = "check", conflicts_with_all = ["name", "out"])]
    costs: Option<String>,

    /// Check with this workload only; may be given several times
    #[arg(long, value_name = "NAME", requires = "check", value_parser = check::NAMES)]
    workload: Vec<String>,

    /// Times that everything is measured for the table
    #[arg(long, value_name = "N", default_value_t = 31, value_parser = clap::value_parser!(u32).range(1..=1000))]
    turns: u32,

    /// Times that each workload is run on threads for the check; at least 11
    #[arg(long, value_name = "N", requires = "check", default_value_t = check::RUNS_MIN, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,

    /// The CPU to measure on; without it the last one that this process may use
    #[arg(long, value_name = "N")]
    cpu: Option<u16>,

    #[command(flatten)]
    formats: Formats,
}

/// Measures the table, or takes the one that is given, and checks it if that is asked for.
pub fn run(args: &CalibrateArgs, style: Style) -> Result<(), Error> {
    if args.runs < check::RUNS_MIN {
        return Err(Error::Input(format!(
            "`--runs {}` is too few for a 95 % interval, since up to half of the runs may not count; give at least {}",
            args.runs,
            check::RUNS_MIN
        )));
    }
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

/// What was measured, and what became of the check.
#[derive(Debug, Serialize)]
struct CalibrateReport {
    recipe: Recipe,
    costs: Costs,
    #[serde(skip)]
    measured: Option<Calibration>,
    checked: Option<Checked>,
}

/// The check.
#[derive(Debug, Serialize)]
struct Checked {
    /// CPUs that it was made on, at most.
    cpus: u16,
    rows: Vec<Row>,
    agreeing: usize,
}

impl Checked {
    fn new(costs: &Costs, args: &CalibrateArgs) -> Result<Checked, Error> {
        let is_chosen = |name: &&str| args.workload.is_empty() || args.workload.iter().any(|chosen| chosen == name);
        let names: Vec<_> = check::NAMES.into_iter().filter(is_chosen).collect();
        let usable = affinity::usable().map_or(1, |cpus| cpus.len() as u16);
        let cpus = usable.clamp(1, CPUS_MAX);
        let rows = check::check(costs, &names, cpus, args.runs)?;
        Ok(Checked { cpus, agreeing: rows.iter().filter(|row| row.agrees()).count(), rows })
    }

    fn verdict(&self) -> Result<(), Error> {
        let all = self.rows.len();
        if self.agreeing == all { Ok(()) } else { Err(Error::Disagreement { agreeing: self.agreeing, all }) }
    }

    fn text(&self, style: Style) -> String {
        let columns = [
            Column::Text("workload"),
            Column::Number("CPUs"),
            Column::Text("policy"),
            Column::Number("threads, M op/s"),
            Column::Text("95 % interval"),
            Column::Number("simulated"),
            Column::Number("error"),
            Column::Text(""),
            Column::Number("zone locks / 1000 op"),
            Column::Text("95 % interval"),
            Column::Number("simulated"),
            Column::Number("error"),
            Column::Text(""),
            Column::Number("runs"),
        ];
        let mut table = style.table(&columns);
        for row in &self.rows {
            let mut cells = vec![
                style.cell(row.workload, Tone::Plain),
                style.cell(row.cpus, Tone::Plain),
                style.cell(row.policy, Tone::Faint),
            ];
            cells.extend(compared(&row.throughput, 1e-6, style));
            cells.extend(compared(&row.zone_locks, 1.0, style));
            cells.push(style.cell(row.runs, Tone::Plain));
            table.add_row(cells);
        }
        let one = if self.cpus > 1 { "" } else { "This process may use one CPU, so two were not checked.\n" };
        let stretch = self.rows.iter().map(|row| row.stretch).fold(1.0, f64::max);
        let busy = format!(
            "CPUs did something else for at most {} of the time in the runs that count.\n",
            number::percent(1.0 - 1.0 / stretch)
        );
        let few =
            format!("Fewer than {LOCKS_MIN} zone locks in 1000 operations on both sides agree, whatever they are.\n");
        let (agreeing, all) = (self.agreeing, self.rows.len());
        format!("{}\n{agreeing} of {all} cases agree within 20 %. {busy}{few}{one}", table_text(&table))
    }
}

/// The cells of one number.
fn compared(compared: &Compared, scale: f64, style: Style) -> [Cell; 5] {
    let number = |value: f64| number::decimal(value * scale);
    let tone = match compared.agreement {
        Agreement::Agrees => Tone::Good,
        Agreement::Differs => Tone::Bad,
        Agreement::Unsure => Tone::Plain,
    };
    [
        style.cell(number(compared.threads), Tone::Plain),
        style.cell(format!("{} to {}", number(compared.low), number(compared.high)), Tone::Faint),
        style.cell(number(compared.simulated), Tone::Plain),
        style.cell(number::change(compared.error()), Tone::Plain),
        style.cell(compared.agreement, tone),
    ]
}

impl Document for CalibrateReport {
    fn reports(&self) -> std::borrow::Cow<'_, [freehold_measure::report::Report]> {
        std::borrow::Cow::Borrowed(&[])
    }

    fn text(&self, style: Style) -> String {
        let mut table = style.table(&[Column::Text("step"), Column::Number("ns"), Column::Text("what it is")]);
        for (name, picoseconds, about) in entries(&self.costs) {
            let nanoseconds = number::decimal(picoseconds as f64 / 1000.0);
            table.add_row(vec![
                style.cell(name, Tone::Plain),
                style.cell(nanoseconds, Tone::Plain),
                style.cell(about, Tone::Faint),
            ]);
        }
        let mut text = style.heading(&format!("cost table `{}`", self.costs.name));
        text += &table_text(&table);
        if let Some(measured) = &self.measured {
            text += &format!("\n{}", measured.remarks().iter().map(|line| format!("{line}\n")).collect::<String>());
        }
        if let Some(checked) = &self.checked {
            text += &format!("\n{}{}", style.heading("threads against simulation"), checked.text(style));
        }
        text
    }
}
