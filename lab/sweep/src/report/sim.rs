//! Simulated runs: at each point a B is held against A seed by seed, as in a simulation of its own. As many verdicts
//! take more seeds than one.

use std::collections::{BTreeSet, HashMap, HashSet};

use freehold_report::number;
use freehold_report::report::pool::confidence_of;
use freehold_report::report::{self as model, Caveats, Group};
use freehold_sim::measures::quantity;
use freehold_sim::report::judge::{self, Judged as OfSeeds};
use freehold_sim::report::measures::{self, Measure, Spread};
use freehold_sim::workload::WorkPace;
use freehold_stats::intervals::has_rank;
use freehold_stats::verdict::{Direction, Verdict};

use super::{Judged, Terms};
use crate::outcome::MEASURE;
use crate::part::{Header, Row};
use crate::plan::{SimulatedPoint, Simulations};
use crate::task::{CPUS, POLICY, SEED};

/// What was measured in a run, by measure.
type Run = HashMap<&'static str, f64>;

/// A policy, and the labels of a point.
type Place = (String, Vec<(String, String)>);

/// What is known of all runs.
pub struct Told<'p> {
    simulations: &'p Simulations,
    /// Names of the measures that are told of.
    names: HashSet<&'static str>,
    /// Point and policy, by number.
    places: HashMap<Place, [usize; 2]>,
    /// Runs by point, policy and seed.
    runs: Vec<Vec<Vec<Option<Run>>>>,
}

impl<'p> Told<'p> {
    /// Of no run yet.
    pub fn nothing(simulations: &'p Simulations) -> Told<'p> {
        let (mut places, mut runs) = (HashMap::new(), Vec::new());
        for (at, point) in simulations.points.iter().enumerate() {
            let cpus = (CPUS.to_owned(), point.cpus.to_string());
            let labels: Vec<_> = [cpus].into_iter().chain(point.values.iter().cloned()).collect();
            let policies = point.plan.policies.iter().enumerate();
            places.extend(policies.map(|(policy, named)| ((named.name.clone(), labels.clone()), [at, policy])));
            runs.push(vec![vec![None; simulations.seeds as usize]; point.plan.policies.len()]);
        }
        let names = measures::groups(pace(simulations)).flat_map(|(_, all)| all).map(|measure| measure.name).collect();
        Told { simulations, names, places, runs }
    }

    /// Takes in a run; nothing if it is none of the plan's.
    pub fn add(&mut self, header: Header, rows: &[Row]) -> Option<()> {
        let policy = header.label(POLICY)?.to_owned();
        let seed = header.label(SEED)?.parse::<usize>().ok()?.checked_sub(1)?;
        let labels = header.labels.into_iter().filter(|(key, _)| ![POLICY, SEED].contains(&key.as_str())).collect();
        let [point, policy] = *self.places.get(&(policy, labels))?;
        let measured = rows.iter().filter(|row| row.section == MEASURE);
        let run = measured.filter_map(|row| Some((*self.names.get(row.measure.as_str())?, row.value?))).collect();
        *self.runs[point][policy].get_mut(seed)? = Some(run);
        Some(())
    }

    /// Judges every B by A.
    pub fn judge(&self, terms: Terms) -> Judged {
        let Told { simulations, runs, .. } = self;
        let policies = simulations.points.first().map_or(0, |point| point.plan.policies.len());
        let comparisons = simulations.points.len() * policies.saturating_sub(1);
        let is_enough = has_rank(simulations.seeds as usize, confidence_of(comparisons));
        let runs = Runs { simulations, runs, is_enough };
        let verdicts = (1..policies).filter_map(|policy| runs.report(policy, comparisons, terms)).collect();
        Judged { comparisons, incomplete: runs.incomplete(), verdicts }
    }
}

/// At what pace all of them work.
fn pace(simulations: &Simulations) -> WorkPace {
    simulations.points[0].plan.points[0].workload.pace()
}

/// All runs.
struct Runs<'p> {
    simulations: &'p Simulations,
    /// By point, policy and seed.
    runs: &'p [Vec<Vec<Option<Run>>>],
    /// Whether there are seeds enough to decide anything.
    is_enough: bool,
}

impl Runs<'_> {
    /// All points, with their numbers.
    fn points(&self) -> impl Iterator<Item = (usize, &SimulatedPoint)> {
        self.simulations.points.iter().enumerate()
    }

    /// A measure under each seed; nothing if one was not run under this policy.
    fn spread(&self, point: usize, policy: usize, measure: &Measure) -> Option<Spread> {
        let value = |run: &Option<Run>| Some(run.as_ref()?.get(measure.name).copied().unwrap_or(f64::NAN));
        Some(Spread::of_values(self.runs[point][policy].iter().map(value).collect::<Option<_>>()?))
    }

    fn incomplete(&self) -> Vec<String> {
        let places = self.points().flat_map(|(at, point)| {
            let policies = point.plan.policies.iter().zip(&self.runs[at]);
            let is_short = |(_, runs): &(_, &Vec<Option<Run>>)| runs.iter().any(Option::is_none);
            policies.filter(is_short).map(|(policy, _)| format!("{} on {}", policy.name, of(point)))
        });
        places.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn row(&self, (at, point): (usize, &SimulatedPoint), policy: usize, measure: &Measure) -> Option<model::Row> {
        let [a, b] = [0, policy].map(|policy| self.spread(at, policy, measure));
        let (a, b) = (a?, b?);
        let OfSeeds { change, verdict } = judge::judge(measure, &a, &b);
        let is_open = !self.is_enough && matches!(verdict, Verdict::Better | Verdict::Worse);
        let verdict = Some(if is_open { Verdict::Undecided } else { verdict });
        let [a, b] = [a, b].map(|spread| spread.number().map(quantity));
        (a.is_some() || b.is_some()).then(|| model::Row {
            case: of(point),
            a,
            b,
            change,
            verdict,
            ..model::Row::default()
        })
    }

    fn groups(&self, policy: usize) -> Vec<Group> {
        let pace = pace(self.simulations);
        let measure = |measure: &Measure| {
            // As much is asked for under every policy: more of it is neither good nor bad.
            let is_set = measure.name == measures::THROUGHPUT.name && pace == WorkPace::Set;
            let measure = measure.directed(if is_set { Direction::Neutral } else { measure.direction });
            let rows = self.points().filter_map(|point| self.row(point, policy, &measure));
            let (rows, unit) = (rows.collect(), measure.unit.name());
            model::Measure { name: measure.name, unit, direction: measure.direction, rows, pooled: None }
        };
        let group = |(name, all): measures::Group| Group { name, measures: all.iter().map(measure).collect() };
        measures::groups(pace).map(group).collect()
    }

    fn report(&self, policy: usize, comparisons: usize, terms: Terms) -> Option<model::Report> {
        let groups = self.groups(policy);
        let is_there = groups.iter().flat_map(|group| &group.measures).any(|measure| !measure.rows.is_empty());
        let plan = &self.simulations.points[0].plan;
        let sides = [0, policy].map(|policy| plan.policies[policy].name.clone());
        let seeds = self.simulations.seeds;
        let subject = vec![
            format!("A: {}; B: {}", sides[0], sides[1]),
            format!("{}: {}; {seeds} {}", plan.name, plan.title, number::unit(seeds.into(), "seeds")),
        ];
        let verdict = [changes(&sides[1], &groups), self.belief(comparisons)].to_vec();
        let caveats = vec![Caveats { title: "About the plan".into(), sentences: vec![plan.shows.clone()] }];
        is_there.then(|| model::Report {
            sides,
            subject,
            verdict,
            groups,
            caveats,
            detail: terms.detail,
            ..model::Report::default()
        })
    }

    fn belief(&self, comparisons: usize) -> String {
        let seeds = self.simulations.seeds;
        let least = (1..).find(|&seeds| has_rank(seeds, confidence_of(comparisons))).unwrap_or(usize::MAX);
        match self.is_enough {
            true => format!("A verdict holds under each of {seeds} seeds."),
            false => format!(
                "With fewer than {least} seeds nothing is better or worse for certain: seed = {least} below [axes]."
            ),
        }
    }
}

/// A point, in words.
fn of(point: &SimulatedPoint) -> String {
    let cpus = format!("{} {}", point.cpus, number::unit(point.cpus.into(), "CPUs"));
    let values = point.values.iter().map(|(key, value)| format!("{key} = {value}"));
    [cpus].into_iter().chain(values).collect::<Vec<_>>().join(", ")
}

/// What B changes, and at how many points.
fn changes(b: &str, groups: &[Group]) -> String {
    let list = |verdict: Verdict| {
        let measures = groups.iter().flat_map(|group| &group.measures);
        let told = measures.filter_map(|measure| {
            let many = measure.rows.iter().filter(|row| row.verdict == Some(verdict)).count();
            let all = measure.rows.len();
            let at = if all == 1 { String::new() } else { format!(" at {many} of {all} points") };
            (many > 0).then(|| measure.name.replace('_', " ") + &at)
        });
        told.collect::<Vec<_>>().join(", ")
    };
    match [Verdict::Better, Verdict::Worse].map(list) {
        [better, worse] if better.is_empty() && worse.is_empty() => {
            format!("{b} changes nothing for better or worse that may be said here.")
        }
        [better, worse] if worse.is_empty() => format!("{b} is better: {better}."),
        [better, worse] if better.is_empty() => format!("{b} is worse: {worse}."),
        [better, worse] => format!("{b} is better: {better}. It is worse: {worse}."),
    }
}
