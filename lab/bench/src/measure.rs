//! Plans a benchmark and runs it: its comparisons one after the other, then its epilogue.

use std::time::Instant;

use fastrand::Rng;
use freehold_report::number::unit;
use freehold_report::progress::{Part, Progress};

use super::bench::{Bench, Plan, Request};
use super::comparison::Comparison;
use super::decide::Looks;
use super::error::Error;
use super::recipe::Timing;
use super::report::{BenchResult, ComparisonRow};
use super::run;
use super::session::{self, Rules, Time, WEIGHT, used_up};
use super::settings::Settings;

impl Bench {
    /// Checks the request and returns the planned comparisons. This takes no time, so an invalid request is rejected
    /// before anything is measured.
    ///
    /// # Errors
    /// When the benchmark cannot do what is requested, or a program that it needs is missing or invalid.
    pub fn plan(&self, request: &Request) -> Result<Plan, Error> {
        (self.make_plan)(request)
    }

    /// Runs the benchmark.
    ///
    /// # Errors
    /// When a subject cannot be built or sampled.
    pub fn measure(&self, request: &Request, plan: Plan) -> Result<BenchResult, Error> {
        let Plan { comparisons, mut notes } = plan;
        let compared = self.settle_all(&comparisons, &request.settings)?;
        let epilogue = (self.epilogue)(request, &compared)?;
        notes.extend(epilogue.notes);
        let policies = std::iter::once(&request.a).chain(&request.rivals).map(|policy| policy.name.clone());
        Ok(BenchResult {
            bench: self.name,
            asks: self.asks,
            timing: Timing::new(self.method, &request.settings),
            policies: policies.collect(),
            comparisons: compared,
            exact: epilogue.exact,
            tables: epilogue.tables,
            standings: epilogue.standings,
            duels: epilogue.duels,
            notes,
        })
    }

    /// Settles comparisons one after the other, under one progress bar. All comparisons have equal weight in it, since
    /// it is not known which of them will be decided early.
    fn settle_all(&self, comparisons: &[Comparison], settings: &Settings) -> Result<Vec<ComparisonRow>, Error> {
        let what = format!("{}, {} {}", self.name, comparisons.len(), unit(comparisons.len() as u64, "comparisons"));
        let bar = Progress::weighing(what, comparisons.len() as u64 * WEIGHT);
        let settled = comparisons.iter().map(|comparison| {
            let part = bar.part(WEIGHT);
            let compared = settle(comparison, settings, &part)?;
            part.reach(1.0);
            Ok(compared)
        });
        settled.collect()
    }
}

/// Settles a comparison. Reports after each run which share of the maximum runs or of the maximum time is used up.
fn settle(comparison: &Comparison, settings: &Settings, part: &Part<'_>) -> Result<ComparisonRow, Error> {
    let start = Instant::now();
    let looks = Looks::plan(settings.runs_max);
    let rules = Rules { margin: settings.margin, looks, seed: settings.seed };
    let mut rng = Rng::with_seed(settings.seed);
    let outcome = session::settle(
        &rules,
        |run| {
            part.reach(used_up(run, settings.runs_max, start, settings.time.as_secs_f64()));
            run::take_run(comparison.case, [&*comparison.a, &*comparison.b], settings.effort, &mut rng)
        },
        || if start.elapsed() < settings.time { Time::Left } else { Time::Over },
    )?;
    Ok(ComparisonRow::new(comparison, outcome))
}
