//! Ratios of Freehold's cost to each other malloc's, within a round.

use std::borrow::Cow;

use fastrand::Rng;
use freehold_measure::formats::Document;
use freehold_measure::origin::{Machine, Program};
use freehold_measure::report::{Column, Detail, Report, Table, Value};
use freehold_measure::stats::median;
use serde::Serialize;

use super::cost::Cost;
use super::{Malloc, Request, Rounds, roster};
use crate::decide::Estimate;
use crate::report::ratio;

/// How far an interval is to be believed.
const CONFIDENCE: f64 = 0.95;
/// Bytes in use from which what is resident is divided by them.
const LEAST_LIVE: u64 = 1 << 20;

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct WholeReport {
    program: Program,
    machine: Machine,
    percent: u32,
    rounds: u32,
    seed: u64,
    /// Names of the mallocs; ours is the first.
    mallocs: Vec<String>,
    loads: Vec<OfLoad>,
    /// Geometric means over the loads.
    cpu: Vec<Option<Ratio>>,
    peak: Vec<Option<Ratio>>,
    /// Of the best of each load, which may be another one each time.
    cpu_of_best: Option<Ratio>,
}

/// A load, under all of them.
#[derive(Clone, Debug, Serialize)]
struct OfLoad {
    load: String,
    /// Medians, by malloc.
    cpu_ms: Vec<f64>,
    peak_mib: Vec<f64>,
    /// Resident over live at the end, where something is.
    overhead: Vec<Option<f64>>,
    /// Ours divided by each.
    cpu: Vec<Option<Ratio>>,
    peak: Vec<Option<Ratio>>,
}

/// A ratio, and its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Ratio {
    ratio: f64,
    low: f64,
    high: f64,
}

impl Ratio {
    /// `None` if there are no logarithms.
    fn of(logs: &[f64], seed: u64) -> Option<Ratio> {
        let estimate = (!logs.is_empty()).then(|| Estimate::of(logs, CONFIDENCE, &mut Rng::with_seed(seed)))?;
        Some(Ratio { ratio: estimate.ratio, low: estimate.low, high: estimate.high })
    }

    fn text(self) -> String {
        format!("{} ({} to {})", ratio(self.ratio), ratio(self.low), ratio(self.high))
    }
}

/// What is compared.
type Figure = fn(&Cost) -> f64;

const CPU: Figure = |cost| cost.cpu_ns as f64;
const PEAK: Figure = |cost| cost.peak_kib as f64;

/// The logarithm of ours divided by another's, for each round: of one load, or the mean over all.
fn logs(rounds: &Rounds, loads: &[usize], other: usize, figure: Figure) -> Vec<f64> {
    let of_round = |round: &Vec<Vec<Cost>>| {
        let of_load = |&load: &usize| (figure(&round[load][0]) / figure(&round[load][other])).ln();
        loads.iter().map(of_load).sum::<f64>() / loads.len() as f64
    };
    rounds.iter().map(of_round).collect()
}

/// The same against the best other one of each load.
fn logs_of_best(rounds: &Rounds, figure: Figure) -> Vec<f64> {
    let of_round = |round: &Vec<Vec<Cost>>| {
        let of_load = |costs: &Vec<Cost>| {
            let best = costs[1..].iter().map(figure).fold(f64::INFINITY, f64::min);
            (figure(&costs[0]) / best).ln()
        };
        round.iter().map(of_load).sum::<f64>() / round.len() as f64
    };
    rounds.iter().map(of_round).collect()
}

impl WholeReport {
    pub(super) fn new(request: &Request, mallocs: &[Malloc], rounds: &Rounds) -> WholeReport {
        let count = mallocs.len();
        let against = |loads: &[usize], figure: Figure| -> Vec<Option<Ratio>> {
            let of = |other| Ratio::of(&logs(rounds, loads, other, figure), request.seed).filter(|_| other > 0);
            (0..count).map(of).collect()
        };
        let middle = |load: usize, malloc: usize, figure: Figure| {
            median(&mut rounds.iter().map(|round| figure(&round[load][malloc])).collect::<Vec<_>>())
        };
        let all: Vec<usize> = (0..request.loads.len()).collect();
        let of_load = |load: usize| OfLoad {
            load: request.loads[load].clone(),
            cpu_ms: (0..count).map(|malloc| middle(load, malloc, CPU) / 1e6).collect(),
            peak_mib: (0..count).map(|malloc| middle(load, malloc, PEAK) / 1024.0).collect(),
            overhead: (0..count)
                .map(|malloc| {
                    let live = rounds[0][load][malloc].live_bytes;
                    let resident = middle(load, malloc, |cost| cost.resident_kib as f64) * 1024.0;
                    (live >= LEAST_LIVE).then(|| resident / live as f64)
                })
                .collect(),
            cpu: against(&[load], CPU),
            peak: against(&[load], PEAK),
        };
        WholeReport {
            program: Program::this(),
            machine: Machine::this(),
            percent: request.percent,
            rounds: request.rounds,
            seed: request.seed,
            mallocs: mallocs.iter().map(|malloc| malloc.name.clone()).collect(),
            loads: all.iter().map(|&load| of_load(load)).collect(),
            cpu: against(&all, CPU),
            peak: against(&all, PEAK),
            cpu_of_best: Ratio::of(&logs_of_best(rounds, CPU), request.seed).filter(|_| count > 1),
        }
    }

    /// A table of ratios: a row a load, and one for all.
    fn ratios(&self, title: &str, of: fn(&OfLoad) -> &[Option<Ratio>], all: &[Option<Ratio>]) -> Table {
        let others = self.mallocs[1..].iter().map(|name| Column::numbers(format!("to {name}")));
        let columns = std::iter::once(Column::words("load")).chain(others).collect();
        let cells = |name: &str, ratios: &[Option<Ratio>]| {
            let texts = ratios[1..].iter().map(|ratio| ratio.map_or(Value::None, |ratio| Value::Text(ratio.text())));
            std::iter::once(Value::text(name)).chain(texts).collect::<Vec<_>>()
        };
        let rows = self.loads.iter().map(|load| cells(&load.load, of(load)));
        let mean = std::iter::once(cells("geometric mean", all));
        Table::new(title, columns, rows.chain(mean).collect::<Vec<_>>())
    }

    /// A table of medians.
    fn medians(&self, title: &str, of: fn(&OfLoad) -> Vec<Option<f64>>) -> Table {
        let names = self.mallocs.iter().map(|name| Column::numbers(name.clone()));
        let columns = std::iter::once(Column::words("load")).chain(names).collect();
        let rows = self.loads.iter().map(|load| {
            let cells = of(load).into_iter().map(|value| value.map_or(Value::None, |value| Value::text(ratio(value))));
            (load, std::iter::once(Value::text(&load.load)).chain(cells).collect::<Vec<_>>())
        });
        let rows = rows.filter(|(load, _)| of(load).iter().any(Option::is_some));
        Table::new(title, columns, rows.map(|(_, row)| row).collect::<Vec<_>>())
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

impl Document for WholeReport {
    fn reports(&self) -> Cow<'_, [Report]> {
        let best = self.cpu_of_best.map_or_else(String::new, |best| {
            format!("CPU time is {} times that of the best other malloc of each load.", best.text())
        });
        let mean = |ratios: &[Option<Ratio>], what: &str| {
            let libc = self.mallocs.iter().position(|name| name == roster::LIBC);
            libc.and_then(|at| ratios[at]).map(|ratio| format!("{what} is {} times the C library's.", ratio.text()))
        };
        let verdict = [mean(&self.cpu, "CPU time"), mean(&self.peak, "Peak resident memory")].into_iter().flatten();
        Cow::Owned(vec![Report {
            subject: vec!["malloc: what whole loads take under Freehold and under other mallocs".to_owned()],
            verdict: verdict.chain((!best.is_empty()).then_some(best)).collect(),
            tables: vec![
                self.ratios("CPU time, Freehold's divided by another's", |load| &load.cpu, &self.cpu),
                self.ratios("Peak resident memory, Freehold's divided by another's", |load| &load.peak, &self.peak),
                self.medians("CPU time in ms, median", |load| load.cpu_ms.iter().copied().map(Some).collect()),
                self.medians("Peak resident memory in MiB, median", |load| {
                    load.peak_mib.iter().copied().map(Some).collect()
                }),
                self.medians("Resident over live at the end, median", |load| load.overhead.clone()),
            ],
            reading: vec![format!(
                "Ratios are medians over the rounds, with the interval of the median at {} %; below 1 is better.",
                CONFIDENCE * 100.0
            )],
            recipe: self.recipe(),
            detail: Detail::Tables,
            ..Report::default()
        }])
    }
}
