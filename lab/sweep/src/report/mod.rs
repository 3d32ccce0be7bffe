//! Report on a dataset: a verdict on each policy B at each point of the axes, by the rules of the command that makes a
//! single such comparison.
//!
//! Replays are judged and pooled over recordings as by `freehold compare` ([`replay`]), hosts as by `freehold fleet`
//! ([`fleet`]), and seeds as by `freehold sim` ([`sim`]). With many verdicts, the probability of at least one wrong
//! verdict grows. Each comparison is therefore held to a higher confidence, so that all of them together have the
//! confidence of a single one ([`confidence_of`]).
//!
//! Parts are read one by one, in any order. Only the data that a verdict needs is kept in memory.

mod fleet;
mod replay;
mod sim;
mod terms;

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

use terms::Verdicts;
pub use terms::{MARGIN, Terms};

/// Report on all parts of a dataset.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Title of the plan.
    pub title: String,
    /// Digest of the plan.
    pub plan: String,
    /// Version and commit of the program.
    pub freehold: String,
    /// Number of parts that were read.
    pub tasks: usize,
    /// Number of comparisons of a B with an A. A comparison covers all measures.
    pub comparisons: usize,
    /// Confidence of each comparison.
    pub confidence: f64,
    /// Recordings, hosts, or points of simulated runs that are left out because some of their tasks are missing.
    pub incomplete: Vec<String>,
    /// Reports on the comparisons.
    pub verdicts: Vec<model::Report>,
}

/// Results from the parts of a sweep.
enum Results<'p> {
    Replays(replay::ReplayResults<'p>),
    Runs(sim::RunResults<'p>),
    Hosts(fleet::HostResults<'p>),
}

impl Report {
    /// Judges the parts of a plan's dataset. The parts may be in any order; each has its name, for messages.
    ///
    /// # Errors
    /// If a part is damaged or incomplete, belongs to another plan or version of this program, is the second one of a
    /// task, or is not in its place: its name has to end in the folders of the swept values.
    pub fn from_parts(
        plan: &Plan,
        parts: impl IntoIterator<Item = Result<(String, Bytes), Error>>,
        terms: Terms,
    ) -> Result<Report, Error> {
        let (mut results, mut tasks) = (Results::new(&plan.study), HashSet::new());
        for part in parts {
            let (name, bytes) = part?;
            let (header, rows) = read_part(plan, &name, bytes).map_err(|why| part_error(&name, &why))?;
            if !tasks.insert(header.task.clone()) {
                return Err(part_error(&name, "is a second part of one task; remove one of them"));
            }
            if results.add(header, &rows).is_none() {
                let why = "is an incomplete result; remove it, and run the sweep again, which keeps finished tasks";
                return Err(part_error(&name, why));
            }
        }
        Ok(Report::new(plan, tasks.len(), results.judge(terms)?))
    }

    fn new(plan: &Plan, tasks: usize, results: Verdicts) -> Report {
        let Verdicts { comparisons, incomplete, reports: mut verdicts } = results;
        if verdicts.is_empty() {
            let nothing = "No comparison yet: no recording or point has results for all of its tasks.".to_owned();
            // There is nothing else to show.
            verdicts.push(model::Report { verdict: vec![nothing], detail: Detail::All, ..model::Report::default() });
        }
        let confidence = confidence_of(comparisons);
        let recipe = [
            ("plan", format!("{}, {}", plan.title(), plan.digest())),
            ("freehold", this_program()),
            ("tasks", number::count(tasks as u64)),
        ];
        verdicts[0].subject.insert(0, plan.title().to_owned());
        let last = verdicts.last_mut().expect("there is at least one report");
        last.verdict.extend(confidence_sentence(comparisons, confidence));
        last.verdict.extend(incomplete_sentence(&incomplete));
        last.recipe = recipe.map(|(what, entry)| (what.to_owned(), entry)).to_vec();
        let (title, plan) = (plan.title().to_owned(), plan.digest().to_owned());
        Report { title, plan, freehold: this_program(), tasks, comparisons, confidence, incomplete, verdicts }
    }
}

impl Results<'_> {
    fn new(study: &Study) -> Results<'_> {
        match study {
            Study::Replays(replays) => Results::Replays(replay::ReplayResults::new(replays)),
            Study::Simulations(simulations) => match simulations.kind {
                Simulation::Runs => Results::Runs(sim::RunResults::new(simulations)),
                Simulation::Hosts(hosts) => Results::Hosts(fleet::HostResults::new(simulations, hosts)),
            },
        }
    }

    /// Adds a part; returns `None` if the part does not contain a complete result.
    fn add(&mut self, header: Header, rows: &[Row]) -> Option<()> {
        match self {
            Results::Replays(results) => results.add(header, rows),
            Results::Runs(results) => results.add(header, rows),
            Results::Hosts(results) => results.add(header, rows),
        }
    }

    fn judge(&self, terms: Terms) -> Result<Verdicts, Error> {
        match self {
            Results::Replays(results) => Ok(results.judge(terms)),
            Results::Runs(results) => Ok(results.judge(terms)),
            Results::Hosts(results) => results.judge(terms),
        }
    }
}

/// Returns the error for a part with this name.
fn part_error(name: &str, why: &str) -> Error {
    Error::Folder(format!("{name} {why}"))
}

/// Reads a part, which must belong to this plan and be in its place.
///
/// # Errors
/// If it is another part or file. The message follows its name.
fn read_part(plan: &Plan, name: &str, bytes: Bytes) -> Result<(Header, Vec<Row>), String> {
    let (header, rows) = part::read(bytes)
        .map_err(|why| format!("{why}; remove it, and run the sweep again, which keeps finished tasks"))?;
    if (header.plan.as_str(), header.program.as_str()) != (plan.digest(), this_program().as_str()) {
        return Err("belongs to another plan or another version of freehold; remove it".to_owned());
    }
    let path = header.path();
    let is_in_place = name.strip_suffix(&path).is_some_and(|folder| folder.is_empty() || folder.ends_with('/'));
    if !is_in_place {
        return Err(format!("is not in its place; remove it, or move it to {path}"));
    }
    Ok((header, rows))
}

/// Returns the sentence on the confidence of several comparisons.
fn confidence_sentence(comparisons: usize, confidence: f64) -> Option<String> {
    let [each, together] = [confidence, CONFIDENCE].map(|share| (share * 1e5).round() / 1e3);
    (comparisons > 1).then(|| {
        format!(
            "Comparisons: {comparisons} (policies B times points). Each uses {each} % confidence, so that all \
             comparisons hold jointly at {together} %. The number of measures in a comparison is not corrected for."
        )
    })
}

fn incomplete_sentence(incomplete: &[String]) -> Option<String> {
    const NAMED_MAX: usize = 3;
    let named = incomplete.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    let more = if incomplete.len() > NAMED_MAX { " and more" } else { "" };
    (!incomplete.is_empty())
        .then(|| format!("Left out because of missing tasks: {} ({named}{more}).", incomplete.len()))
}

impl Document for Report {
    fn reports(&self) -> Cow<'_, [model::Report]> {
        Cow::Borrowed(&self.verdicts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_report::number::Quantity;

    use crate::outcome::{EVENTS, MEASURE};
    use crate::subject::Identity;

    #[test]
    fn empty_part_is_reported_by_path() {
        for text in ["title = 'x'\nkind = 'replay'\nb = ['freehold']", "title = 'x'\nkind = 'fleet'\nplan = 'webhost'"]
        {
            let plan = Plan::parse("plan.toml", text).unwrap();
            let identity = Identity { name: "a".to_owned(), sha256: "0".repeat(64), kernel: "6.18.5".to_owned() };
            let recording = plan.takes_recordings().then_some(&identity);
            let task = &plan.tasks(recording)[0];
            let part = part::write(&Header::new(&plan, task, recording), &[]);
            let name = format!("study/{}", task.path());
            let refused = Report::from_parts(&plan, [Ok((name.clone(), part.into()))], Terms::default()).unwrap_err();
            assert!(refused.to_string().starts_with(&format!("{name} is an incomplete result")), "{refused}");
        }
    }

    /// Judges 20 seeds whose B moves more pages at a time than A, each with `acquisitions` events behind its ratio.
    fn verdict_on_ratios(acquisitions: u64) -> String {
        let text = "title = 'x'\nkind = 'sim'\nplan = 'pingpong'\nb = ['freehold']\n[axes]\ncpus = [2]\nseed = 20\n";
        let plan = Plan::parse("plan.toml", text).unwrap();
        let parts = plan.tasks(None).into_iter().map(|task| {
            let pages = if task.path().contains("freehold") { 9.0 } else { 5.0 };
            let rows = [
                Row::number(MEASURE, "pages_per_acquisition", "pages", Quantity::Ratio(pages)),
                Row::number(EVENTS, "pages_per_acquisition", "events", Quantity::Count(acquisitions)),
            ];
            Ok((task.path(), part::write(&Header::new(&plan, &task, None), &rows).into()))
        });
        let report = Report::from_parts(&plan, parts, Terms::default()).unwrap();
        let groups = &report.verdicts[0].groups;
        let mut measures = groups.iter().flat_map(|group| &group.measures);
        measures.find(|measure| measure.name == "pages_per_acquisition").unwrap().rows[0].verdict.word().to_owned()
    }

    #[test]
    fn ratio_of_few_simulated_events_is_too_few() {
        assert_eq!(verdict_on_ratios(100), "changed");
        assert_eq!(verdict_on_ratios(0), "too few events");
    }
}
