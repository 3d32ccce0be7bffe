//! The report, in the order in which people read it: Freehold's costs relative to other mallocs, table by table.

use std::borrow::Cow;

use freehold_report::formats::Document;
use freehold_report::origin::{Machine, Program};
use freehold_report::report::{Caveats, Column, Detail, Report, Table, Value};
use freehold_stats::intervals::median;
use freehold_workloads::malloc::Table as LoadTable;
use serde::Serialize;

use super::cost::Rounds;
use super::ratio::{CONFIDENCE, CPU, CPU_OF_STEP, Figure, PEAK, Ratio, logs, logs_of_best};
use super::request::Request;
use super::roster::Malloc;
use super::sheet::{Sheet, sheets};
use crate::numbers::format_ratio;

/// Minimum live bytes for a ratio of resident to live memory.
const LEAST_LIVE: f64 = (1 << 20) as f64;

/// Results of the study.
#[derive(Clone, Debug, Serialize)]
pub struct WholeReport {
    program: Program,
    machine: Machine,
    percent: u32,
    rounds: u32,
    seed: u64,
    /// Names of the mallocs; Freehold's is the first.
    mallocs: Vec<String>,
    loads: Vec<LoadSummary>,
    /// Geometric means over the loads, by malloc.
    cpu: Vec<Option<Ratio>>,
    peak: Vec<Option<Ratio>>,
    /// Ratio to the best other malloc of each load, which may be a different one for each load.
    cpu_of_best: Option<Ratio>,
    /// Pairs of an allocation and a free, by band of sizes.
    pairs: Vec<Band>,
    /// Tables of one figure.
    sheets: Vec<Sheet>,
    /// Loads that could not be run here, or at which another malloc failed.
    left_out: Vec<String>,
}

/// Results of a load under all mallocs.
#[derive(Clone, Debug, Serialize)]
struct LoadSummary {
    load: String,
    /// Medians, by malloc.
    cpu_ms: Vec<Option<f64>>,
    peak_mib: Vec<Option<f64>>,
    /// Resident memory over live bytes at the end, by malloc; `None` where too little is live.
    overhead: Vec<Option<f64>>,
    /// Ratio of Freehold's figure to that of each malloc.
    cpu: Vec<Option<Ratio>>,
    peak: Vec<Option<Ratio>>,
}

/// Pairs of a band of sizes.
#[derive(Clone, Debug, Serialize)]
struct Band {
    band: &'static str,
    /// Names of the cases, each with the ratios of Freehold's CPU time to that of each other malloc.
    cases: Vec<(String, Vec<Option<Ratio>>)>,
    /// Geometric means over the cases, by malloc.
    mean: Vec<Option<Ratio>>,
}

/// Costs from which ratios and medians are computed.
struct Costs<'a> {
    request: &'a Request,
    rounds: &'a Rounds,
    mallocs: usize,
}

impl Costs<'_> {
    /// Returns the indices of the loads of a table.
    fn loads_of(&self, table: LoadTable) -> Vec<usize> {
        (0..self.request.loads.len()).filter(|&load| self.request.loads[load].table == table).collect()
    }

    /// Returns the ratios of Freehold's figure to that of each other malloc.
    fn against(&self, loads: &[usize], figure: Figure) -> Vec<Option<Ratio>> {
        let mut ratios = vec![None; self.mallocs];
        if !loads.is_empty() {
            for (other, ratio) in ratios.iter_mut().enumerate().skip(1) {
                *ratio = Ratio::from_logs(&logs(self.rounds, loads, other, figure), self.request.seed);
            }
        }
        ratios
    }

    /// Returns the medians over the rounds, by malloc.
    fn medians(&self, load: usize, figure: Figure) -> Vec<Option<f64>> {
        let mut medians = Vec::new();
        for malloc in 0..self.mallocs {
            let costs = self.rounds.iter().filter_map(|round| round[load][malloc].as_ref());
            let mut values: Vec<f64> = costs.map(figure).collect();
            medians.push((!values.is_empty()).then(|| median(&mut values)));
        }
        medians
    }

    fn summarize_load(&self, load: usize) -> LoadSummary {
        let live = self.medians(load, |cost| cost.live_bytes as f64);
        let resident = self.medians(load, |cost| cost.resident_kib as f64 * 1024.0);
        let overhead = resident.into_iter().zip(live);
        let overhead = overhead.map(|(resident, live)| Some(resident? / live.filter(|&live| live >= LEAST_LIVE)?));
        LoadSummary {
            load: self.request.loads[load].name.clone(),
            cpu_ms: self.medians(load, |cost| CPU(cost) / 1e6),
            peak_mib: self.medians(load, |cost| PEAK(cost) / 1024.0),
            overhead: overhead.collect(),
            cpu: self.against(&[load], CPU),
            peak: self.against(&[load], PEAK),
        }
    }

    /// Returns the bands of pairs, in the order of the loads.
    fn bands(&self) -> Vec<Band> {
        let (all, loads) = (self.loads_of(LoadTable::Pairs), &self.request.loads);
        let bands = all.chunk_by(|&one, &next| loads[one].group == loads[next].group);
        bands.map(|places| self.band(places)).collect()
    }

    /// Returns the band that consists of the loads with these indices.
    fn band(&self, places: &[usize]) -> Band {
        let loads = &self.request.loads;
        let cases = places.iter().map(|&load| (loads[load].name.clone(), self.against(&[load], CPU_OF_STEP)));
        Band { band: loads[places[0]].group, cases: cases.collect(), mean: self.against(places, CPU_OF_STEP) }
    }
}

impl WholeReport {
    pub(super) fn new(request: &Request, mallocs: &[Malloc], rounds: &Rounds, failures: Vec<String>) -> WholeReport {
        let costs = Costs { request, rounds, mallocs: mallocs.len() };
        let all = costs.loads_of(LoadTable::Loads);
        let best = if all.is_empty() || mallocs.len() < 2 { Vec::new() } else { logs_of_best(rounds, &all, CPU) };
        let missing = request.left_out.iter();
        let missing =
            missing.map(|(load, program)| format!("the load `{load}`: the program `{program}` is not installed"));
        WholeReport {
            program: Program::this(),
            machine: Machine::this(),
            percent: request.percent,
            rounds: request.rounds,
            seed: request.seed,
            mallocs: mallocs.iter().map(|malloc| malloc.name.clone()).collect(),
            loads: all.iter().map(|&load| costs.summarize_load(load)).collect(),
            cpu: costs.against(&all, CPU),
            peak: costs.against(&all, PEAK),
            cpu_of_best: Ratio::from_logs(&best, request.seed),
            pairs: costs.bands(),
            sheets: sheets(request, rounds),
            left_out: missing.chain(failures).collect(),
        }
    }

    /// Returns a table of ratios: one row per load, and a row for the geometric mean.
    fn ratios<'a>(
        &self,
        title: impl Into<String>,
        rows: impl Iterator<Item = (&'a str, &'a [Option<Ratio>])>,
        all: &'a [Option<Ratio>],
    ) -> Table {
        let others = self.mallocs[1..].iter().map(|name| Column::numbers(format!("to {name}")));
        let columns = std::iter::once(Column::words("load")).chain(others).collect();
        let mut table = Table::new(title, columns, []);
        for (name, ratios) in rows.chain([("geometric mean", all)]) {
            let mut cells = vec![Value::text(name)];
            cells.extend(ratios[1..].iter().map(|ratio| format_cell(*ratio)));
            table.rows.push(cells);
        }
        table
    }

    /// Returns a table of medians.
    fn medians(&self, title: &str, of: fn(&LoadSummary) -> &[Option<f64>]) -> Table {
        let names = self.mallocs.iter().map(|name| Column::numbers(name.clone()));
        let columns = std::iter::once(Column::words("load")).chain(names).collect();
        let rows = self.loads.iter().filter(|load| of(load).iter().any(Option::is_some)).map(|load| {
            let cells =
                of(load).iter().map(|value| value.map_or(Value::None, |value| Value::text(format_ratio(value))));
            std::iter::once(Value::text(&load.load)).chain(cells).collect::<Vec<_>>()
        });
        Table::new(title, columns, rows.collect::<Vec<_>>())
    }

    /// Returns the tables of whole loads.
    fn load_tables(&self) -> Vec<Table> {
        let cpu = self.loads.iter().map(|load| (load.load.as_str(), &*load.cpu));
        let peak = self.loads.iter().map(|load| (load.load.as_str(), &*load.peak));
        vec![
            self.means(),
            self.ratios("CPU time: Freehold's divided by that of the other malloc", cpu, &self.cpu),
            self.ratios("Peak resident memory: Freehold's divided by that of the other malloc", peak, &self.peak),
            self.medians("CPU time in ms, median", |load| &load.cpu_ms),
            self.medians("Peak resident memory in MiB, median", |load| &load.peak_mib),
            self.medians("Resident memory divided by live memory at the end, median", |load| &load.overhead),
        ]
    }

    fn band_table(&self, band: &Band) -> Table {
        let title = format!("Pairs of {}: Freehold's CPU time divided by that of the other malloc", band.band);
        let rows = band.cases.iter().map(|(name, ratios)| (name.as_str(), ratios.as_slice()));
        self.ratios(title, rows, &band.mean)
    }

    /// Returns the table of geometric means over whole loads: one row for each other malloc, and a row for the best other
    /// malloc of each load.
    fn means(&self) -> Table {
        let mut rows = Vec::new();
        for (name, (cpu, peak)) in self.mallocs.iter().zip(self.cpu.iter().zip(&self.peak)).skip(1) {
            rows.push(vec![Value::text(name), format_cell(*cpu), format_cell(*peak)]);
        }
        rows.push(vec![Value::text("the best of each load"), format_cell(self.cpu_of_best), Value::None]);
        let columns = Column::several(&["other malloc"], &["CPU time", "peak resident memory"]);
        Table::new("Geometric means: Freehold's divided by that of the other malloc", columns, rows)
    }

    fn recipe(&self) -> Vec<(String, String)> {
        let rows = [
            ("freehold", format!("{}, {} build", self.program.version(), self.machine.build)),
            ("processor", self.machine.cpu_model.clone()),
            ("kernel", self.machine.kernel_release.clone()),
            ("rounds", self.rounds.to_string()),
            ("of each load", format!("{} %", self.percent)),
            ("seed", self.seed.to_string()),
        ];
        rows.into_iter().map(|(word, meaning)| (word.to_owned(), meaning)).collect()
    }
}

fn format_cell(ratio: Option<Ratio>) -> Value {
    ratio.map_or(Value::None, |ratio| Value::Text(ratio.text()))
}

impl Document for WholeReport {
    fn reports(&self) -> Cow<'_, [Report]> {
        let loads = if self.loads.is_empty() { Vec::new() } else { self.load_tables() };
        let bands = self.pairs.iter().map(|band| self.band_table(band));
        let sheets = self.sheets.iter().map(|sheet| sheet.shown(&self.mallocs));
        let left_out = Caveats { title: "Not measured".into(), sentences: self.left_out.clone() };
        Cow::Owned(vec![Report {
            subject: vec!["malloc: cost of whole loads under Freehold and under other mallocs".to_owned()],
            tables: loads.into_iter().chain(bands).chain(sheets).collect(),
            caveats: if self.left_out.is_empty() { Vec::new() } else { vec![left_out] },
            reading: vec![format!(
                "Ratios and figures are medians over the rounds, with the interval of the median at {} %; less is better.",
                CONFIDENCE * 100.0
            )],
            recipe: self.recipe(),
            detail: Detail::Tables,
            ..Report::default()
        }])
    }
}
