//! What a dataset says, whoever made it: a verdict on each policy B at each point of the axes, by the rules of the
//! command that answers one such question alone.
//!
//! Replays are judged and pooled over recordings as by `freehold compare` ([`replay`]), hosts as by `freehold fleet`
//! ([`fleet`]), seeds as by `freehold sim` ([`sim`]). Many verdicts at once err more often than one. So each comparison
//! is held to a confidence at which all of them together are as sure as one alone would be
//! ([`confidence_of`](freehold_measure::report::pool::confidence_of)).

mod fleet;
mod replay;
mod sim;

use std::borrow::Cow;

use bytes::Bytes;
use freehold_measure::formats::Document;
use freehold_measure::number;
use freehold_measure::report::pool::{CONFIDENCE, confidence_of};
use freehold_measure::report::{self as model, Detail};
use serde::Serialize;

use crate::error::Error;
use crate::part::{self, Header, Row};
use crate::plan::{Plan, Simulation, Study, this_program};

/// Relative changes up to this are none, unless somebody says otherwise.
pub const MARGIN: f64 = 0.02;

/// How results are judged, and how much of that a person sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Relative changes of replays up to this are none.
    pub margin: f64,
    /// What a person at a terminal sees.
    pub detail: Detail,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms { margin: MARGIN, detail: Detail::Differences }
    }
}

/// What all parts say together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The plan's title.
    pub title: String,
    /// The plan's digest.
    pub plan: String,
    /// Version and commit of the program.
    pub freehold: String,
    /// Parts that were read.
    pub tasks: usize,
    /// Comparisons of a B with an A, each of them of all measures.
    pub comparisons: usize,
    /// How sure each comparison has to be.
    pub confidence: f64,
    /// Recordings, hosts or seeds of which some tasks are missing, and which are left out therefore.
    pub incomplete: Vec<String>,
    /// A report on each comparison.
    pub verdicts: Vec<model::Report>,
}

/// A part that was read.
struct Part {
    header: Header,
    rows: Vec<Row>,
}

/// What one kind of sweep comes to.
struct Judged {
    comparisons: usize,
    incomplete: Vec<String>,
    verdicts: Vec<model::Report>,
}

impl Report {
    /// What these parts of a plan's dataset say: each with its name, for complaints, in any order.
    ///
    /// # Errors
    /// When a part is damaged, or one of another plan.
    pub fn of_parts(
        plan: &Plan,
        parts: impl IntoIterator<Item = Result<(String, Bytes), Error>>,
        terms: Terms,
    ) -> Result<Report, Error> {
        let parts = parts.into_iter().map(|part| part.and_then(|(name, bytes)| admitted(plan, &name, bytes)));
        let mut parts = parts.collect::<Result<Vec<Part>, Error>>()?;
        parts.sort_by(|one, other| one.header.task.cmp(&other.header.task));
        let tasks = parts.len();
        let judged = match &plan.study {
            Study::Replays(replays) => replay::judge(replays, parts, terms),
            Study::Simulations(simulations) => match simulations.of {
                Simulation::Runs => sim::judge(simulations, &parts, terms),
                Simulation::Hosts(hosts) => fleet::judge(simulations, hosts, &parts, terms)?,
            },
        };
        Ok(Report::of(plan, tasks, judged, terms))
    }

    fn of(plan: &Plan, tasks: usize, judged: Judged, terms: Terms) -> Report {
        let Judged { comparisons, incomplete, mut verdicts } = judged;
        if verdicts.is_empty() {
            let nothing = "There is nothing to compare yet: nothing has all of its tasks done.".to_owned();
            verdicts.push(model::Report { verdict: vec![nothing], detail: terms.detail, ..model::Report::default() });
        }
        let confidence = confidence_of(comparisons);
        let recipe = [
            ("plan", format!("{}, {}", plan.title(), plan.digest())),
            ("freehold", this_program()),
            ("tasks", number::count(tasks as u64)),
        ];
        verdicts[0].subject.insert(0, plan.title().to_owned());
        let last = verdicts.last_mut().expect("there is one at least");
        last.verdict.extend(many(comparisons, confidence));
        last.verdict.extend(left_out(&incomplete));
        last.recipe = recipe.map(|(what, entry)| (what.to_owned(), entry)).to_vec();
        let (title, plan) = (plan.title().to_owned(), plan.digest().to_owned());
        Report { title, plan, freehold: this_program(), tasks, comparisons, confidence, incomplete, verdicts }
    }
}

/// A part of this plan.
fn admitted(plan: &Plan, name: &str, bytes: Bytes) -> Result<Part, Error> {
    let (header, rows) = part::read(bytes).map_err(|why| {
        Error::Folder(format!("{name} {why}; remove it, and sweep once more: what is there is not done again"))
    })?;
    if (&header.plan, &header.program) != (&plan.digest().to_owned(), &this_program()) {
        return Err(Error::Folder(format!(
            "{name} is of another plan, or made by another version of freehold; remove it"
        )));
    }
    Ok(Part { header, rows })
}

/// What is said where there are several comparisons.
fn many(comparisons: usize, confidence: f64) -> Option<String> {
    let percent = |share: f64| (share * 1e5).round() / 1e3;
    (comparisons > 1).then(|| {
        format!(
            "There are {comparisons} comparisons. Each is held to {} % confidence, so that all of them together are as \
             sure as one at {} %.",
            percent(confidence),
            percent(CONFIDENCE)
        )
    })
}

fn left_out(incomplete: &[String]) -> Option<String> {
    const NAMED_MAX: usize = 3;
    let named = incomplete.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    let more = if incomplete.len() > NAMED_MAX { " and more" } else { "" };
    (!incomplete.is_empty())
        .then(|| format!("Left out, since some of their tasks are not done: {} ({named}{more}).", incomplete.len()))
}

impl Document for Report {
    fn reports(&self) -> Cow<'_, [model::Report]> {
        Cow::Borrowed(&self.verdicts)
    }
}
