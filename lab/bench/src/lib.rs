//! `freehold bench`: rival policies, and other allocators, timed against each other until there is a verdict.
//!
//! A *benchmark* is a value in the table below: a question, cases, and a plan that turns them into *comparisons*, each
//! of one case on two subjects, A and B. A comparison is settled as follows.
//!
//! ```text
//! cases/*   what is done, in one file a benchmark          subject   A or B: opened, sampled, closed
//! run       both machines built anew, samples in pairs     engine, peers   the kinds of subject
//! session   runs until the evidence is enough              decide    interval -> verdict; stats below it
//! contest   many sides at once, in turns; tables of them   program   other people's allocators, asked over a pipe
//! report    tables and JSON, with the recipe
//! whole     mallocs under whole programs: a study of its own shape
//! corruption   mallocs under programs that misuse their memory: another one, in which nothing is timed
//! ```
//!
//! A later benchmark is one more file in `cases` and one more row here. What the harness says about runs whose truth is
//! known is tested in `synthetic`.

pub mod bar;
mod cases;
mod contest;
pub mod corruption;
pub mod decide;
mod engine;
mod error;
mod mallocs;
mod peers;
mod profile;
mod program;
pub mod recipe;
pub mod report;
mod run;
mod session;
pub mod subject;
#[cfg(test)]
mod synthetic;
mod values;
pub mod whole;

pub use error::Error;
pub use profile::check_profile;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use contest::Standing;
use contest::duel::DuelRecord;
use decide::{Looks, Margin};
use fastrand::Rng;
use freehold_policies::NamedPolicy;
use freehold_report::number::unit;
use freehold_report::progress::{Part, Progress};
use freehold_report::report::Table;
use mallocs::MALLOCS;
use peers::PEERS;
use program::Kind;
use recipe::Timing;
use report::{BenchResult, Compared, Exact, Note};
use serde::Serialize;
use session::{Rules, Time, WEIGHT, used_up};
use subject::Comparison;
pub use subject::{Case, Effort};

/// Every benchmark, in the order of lists.
pub static BENCHES: [&Bench; 6] = [
    &cases::flags::BENCH,
    &cases::contig::BENCH,
    &cases::pages::BENCH,
    &cases::compaction::BENCH,
    &cases::slab::BENCH,
    &cases::harness::BENCH,
];

/// A benchmark.
pub struct Bench {
    /// Its name.
    pub name: &'static str,
    /// What it asks, in a sentence.
    pub asks: &'static str,
    /// What it asks, and why, for its page.
    pub question: &'static str,
    /// How its result is to be read, for its page.
    pub reading: &'static str,
    /// Policy A, unless another is asked for.
    pub a: &'static str,
    /// Policy B, unless others are asked for.
    pub b: &'static str,
    /// What times are counted in.
    pub unit: &'static str,
    /// How it measures.
    pub method: Method,
    /// Programs with other people's allocators that take part.
    beside: Option<Kind>,
    /// Its cases.
    pub cases: fn() -> Vec<&'static Case>,
    /// What is compared with what.
    make_plan: fn(&Request) -> Result<Plan, Error>,
    /// What is said after the comparisons.
    epilogue: fn(&Request, &[Compared]) -> Result<Epilogue, Error>,
}

/// How a benchmark measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Two sides at a time, until the verdict is clear.
    Comparisons,
    /// Everybody at once, for so long.
    Contest,
}

/// How everything is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How much is measured.
    pub effort: Effort,
    /// What counts as no difference.
    pub margin: Margin,
    /// Most runs of a comparison.
    pub runs_max: usize,
    /// Most time for a comparison.
    pub time: Duration,
    /// Seed of the order of samples and of the bootstrap.
    pub seed: u64,
    /// The CPU that this thread is pinned to.
    pub cpu: u16,
    /// The CPU of a second thread, where a case has one and this process may use another CPU.
    pub partner: Option<u16>,
    /// Where the program with other allocators is, if not where it is looked for.
    pub peers: Option<PathBuf>,
    /// Where programs with mallocs are, if not where they are looked for.
    pub mallocs: Vec<PathBuf>,
}

impl Settings {
    /// Refuses programs that none of these benchmarks would run.
    ///
    /// # Errors
    /// When one was named.
    pub fn check_programs(&self, benches: &[&Bench]) -> Result<(), Error> {
        let named = [(PEERS, self.peers.is_some()), (MALLOCS, !self.mallocs.is_empty())];
        named.into_iter().filter(|(_, is_named)| *is_named).try_for_each(|(kind, _)| {
            let runs = |bench: &&&Bench| bench.beside == Some(kind);
            match BENCHES.iter().find(runs) {
                Some(user) if benches.iter().find(runs).is_none() => Err(Error::Input(format!(
                    "{} is for the benchmark `{}`; name that as well, or leave the option out",
                    kind.option, user.name
                ))),
                _ => Ok(()),
            }
        })
    }
}

/// What a benchmark is asked to compare.
#[derive(Clone, Debug)]
pub struct Request {
    /// How.
    pub settings: Settings,
    /// Policy A.
    pub a: NamedPolicy,
    /// Every policy B.
    pub rivals: Vec<NamedPolicy>,
}

/// What will be compared.
#[derive(Default)]
pub struct Plan {
    comparisons: Vec<Comparison>,
    notes: Vec<Note>,
}

/// What is said after the comparisons.
#[derive(Default)]
struct Epilogue {
    exact: Vec<Exact>,
    tables: Vec<Table>,
    standings: Vec<Standing>,
    duels: Vec<DuelRecord>,
    notes: Vec<Note>,
}

impl Bench {
    /// Looks through the request and settles what will be compared. Takes no time: what is wrong with a request is
    /// known before anything is measured.
    ///
    /// # Errors
    /// When the benchmark cannot do that, or a program that it needs is not what it should be.
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

    /// Settles comparisons one after the other, under one bar. Each weighs as much as the others, since none is known
    /// to be decided early.
    fn settle_all(&self, comparisons: &[Comparison], settings: &Settings) -> Result<Vec<Compared>, Error> {
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

/// Settles a comparison, and tells after each run which part of its most runs or its most time is used up.
fn settle(comparison: &Comparison, settings: &Settings, part: &Part<'_>) -> Result<Compared, Error> {
    let start = Instant::now();
    let looks = Looks::plan(settings.runs_max);
    let rules = Rules { margin: settings.margin, looks, seed: settings.seed };
    let mut rng = Rng::with_seed(settings.seed);
    let take_run = |run: usize| {
        part.reach(used_up(run, settings.runs_max, start, settings.time.as_secs_f64()));
        run::take(comparison, settings.effort, &mut rng)
    };
    let time = || if start.elapsed() < settings.time { Time::Left } else { Time::Over };
    Ok(Compared::new(comparison, session::settle(&rules, take_run, time)?))
}
