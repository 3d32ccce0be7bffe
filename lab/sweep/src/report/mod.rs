//! What a dataset says, whoever made it: a verdict on each policy B at each point of the axes, by the rules of the
//! command that answers one such question alone.
//!
//! Replays are judged and pooled over recordings as by `freehold compare` ([`replay`]), hosts as by `freehold fleet`
//! ([`fleet`]), seeds as by `freehold sim` ([`sim`]). Many verdicts at once err more often than one. So each comparison
//! is held to a confidence at which all of them together are as sure as one alone would be
//! ([`confidence_of`]).
//!
//! Parts are read one after the other, in whatever order. Of each only what a verdict needs is kept.

mod fleet;
mod replay;
mod sim;

use std::borrow::Cow;
use std::collections::HashSet;

use bytes::Bytes;
use freehold_report::formats::Document;
use freehold_report::number;
use freehold_report::report::pool::{CONFIDENCE, confidence_of};
use freehold_report::report::{self as model, Detail};
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

/// What the parts of a sweep tell, without the parts.
enum Told<'p> {
    Replays(replay::Told<'p>),
    Runs(sim::Told<'p>),
    Hosts(fleet::Told<'p>),
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
    /// When a part is damaged, one of another plan, or not where it belongs: its name has to end in the folders of what
    /// was swept.
    pub fn of_parts(
        plan: &Plan,
        parts: impl IntoIterator<Item = Result<(String, Bytes), Error>>,
        terms: Terms,
    ) -> Result<Report, Error> {
        let (mut told, mut tasks) = (Told::nothing(&plan.study), HashSet::new());
        for part in parts {
            let (name, bytes) = part?;
            let refused = |why: &str| Error::Folder(format!("{name} {why}"));
            let (header, rows) = admitted(plan, &name, bytes).map_err(|why| refused(&why))?;
            if !tasks.insert(header.task.clone()) {
                return Err(refused("is the part of a task that has one already; remove one of them"));
            }
            let again = "tells of no whole result; remove it, and sweep once more: what is there is not done again";
            told.add(header, &rows).ok_or_else(|| refused(again))?;
        }
        Ok(Report::of(plan, tasks.len(), told.judge(terms)?))
    }

    fn of(plan: &Plan, tasks: usize, judged: Judged) -> Report {
        let Judged { comparisons, incomplete, mut verdicts } = judged;
        if verdicts.is_empty() {
            let nothing = "There is nothing to compare yet: nothing has all of its tasks done.".to_owned();
            // There is nothing more to see.
            verdicts.push(model::Report { verdict: vec![nothing], detail: Detail::All, ..model::Report::default() });
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

impl Told<'_> {
    fn nothing(study: &Study) -> Told<'_> {
        match study {
            Study::Replays(replays) => Told::Replays(replay::Told::nothing(replays)),
            Study::Simulations(simulations) => match simulations.of {
                Simulation::Runs => Told::Runs(sim::Told::nothing(simulations)),
                Simulation::Hosts(hosts) => Told::Hosts(fleet::Told::nothing(simulations, hosts)),
            },
        }
    }

    /// Takes in a part; nothing if it tells of no whole result.
    fn add(&mut self, header: Header, rows: &[Row]) -> Option<()> {
        match self {
            Told::Replays(told) => told.add(header, rows),
            Told::Runs(told) => told.add(header, rows),
            Told::Hosts(told) => told.add(header, rows),
        }
    }

    fn judge(&self, terms: Terms) -> Result<Judged, Error> {
        match self {
            Told::Replays(told) => Ok(told.judge(terms)),
            Told::Runs(told) => Ok(told.judge(terms)),
            Told::Hosts(told) => told.judge(terms),
        }
    }
}

/// A part of this plan that lies where it belongs; else what is wrong with it, as words that follow its name.
fn admitted(plan: &Plan, name: &str, bytes: Bytes) -> Result<(Header, Vec<Row>), String> {
    let (header, rows) = part::read(bytes)
        .map_err(|why| format!("{why}; remove it, and sweep once more: what is there is not done again"))?;
    if (header.plan.as_str(), header.program.as_str()) != (plan.digest(), this_program().as_str()) {
        return Err("is of another plan, or made by another version of freehold; remove it".to_owned());
    }
    let path = header.path();
    let is_there = name.strip_suffix(&path).is_some_and(|folder| folder.is_empty() || folder.ends_with('/'));
    if !is_there {
        return Err(format!("is not where it belongs; remove it, or move it to {path}"));
    }
    Ok((header, rows))
}

/// What is said where there are several comparisons.
fn many(comparisons: usize, confidence: f64) -> Option<String> {
    let percent = |share: f64| (share * 1e5).round() / 1e3;
    (comparisons > 1).then(|| {
        format!(
            "There are {comparisons} comparisons: policies B times points, each of all measures. Each comparison is held \
             to {} % confidence, so that all of them together are as sure as one at {} %. The measures of a comparison \
             are not counted.",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Identity;

    #[test]
    fn a_part_that_tells_of_nothing_is_named() {
        for text in ["title = 'x'\nkind = 'replay'\nb = ['freehold']", "title = 'x'\nkind = 'fleet'\nplan = 'webhost'"]
        {
            let plan = Plan::parse("plan.toml", text).unwrap();
            let identity = Identity { name: "a".to_owned(), sha256: "0".repeat(64), kernel: "6.18.5".to_owned() };
            let identity = plan.takes_recordings().then_some(&identity);
            let task = &plan.tasks(identity)[0];
            let part = part::write(&Header::of(&plan, task, identity), &[]);
            let name = format!("study/{}", task.path());
            let refused = Report::of_parts(&plan, [Ok((name.clone(), part.into()))], Terms::default()).unwrap_err();
            assert!(refused.to_string().starts_with(&format!("{name} tells of no whole result")), "{refused}");
        }
    }
}
