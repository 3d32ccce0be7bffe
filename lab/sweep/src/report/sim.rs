//! Verdicts on simulated runs: at each point, a policy B is compared with A seed by seed, as by `freehold sim`. With
//! many comparisons, more seeds are needed for a verdict.

use std::collections::{BTreeSet, HashMap, HashSet};

use freehold_report::number;
use freehold_report::report::pool::confidence_of;
use freehold_report::report::{self as model, Caveats, Group};
use freehold_sim::measure::quantity;
use freehold_sim::report::judge::{self, Comparison};
use freehold_sim::report::measures::{self, Measure, Spread};
use freehold_sim::workload::WorkPace;
use freehold_stats::intervals::has_rank_interval;
use freehold_stats::verdict::{Direction, Verdict};

use super::terms::{Terms, Verdicts};
use crate::outcome::{EVENTS, MEASURE};
use crate::part::{Header, Row};
use crate::plan::{SimulatedPoint, Simulations};
use crate::task::{CPUS, POLICY, SEED};

/// Values of a run, by measure.
type Values = HashMap<&'static str, f64>;

/// A simulated run.
#[derive(Clone)]
struct Run {
    /// Measured values.
    values: Values,
    /// Events behind measures that are not counts of events.
    events: Values,
}

/// Policy, and the labels of a point.
type Place = (String, Vec<(String, String)>);

/// Results of all runs.
pub(super) struct RunResults<'p> {
    simulations: &'p Simulations,
    /// Names of the reported measures.
    names: HashSet<&'static str>,
    /// Indices of point and policy, by their labels.
    places: HashMap<Place, [usize; 2]>,
    /// Runs by point, policy and seed.
    runs: Vec<Vec<Vec<Option<Run>>>>,
}

impl<'p> RunResults<'p> {
    /// Creates results without runs.
    pub(super) fn new(simulations: &'p Simulations) -> RunResults<'p> {
        let (mut places, mut runs) = (HashMap::new(), Vec::new());
        for (at, point) in simulations.points.iter().enumerate() {
            let cpus = (CPUS.to_owned(), point.cpus.to_string());
            let labels: Vec<_> = [cpus].into_iter().chain(point.values.iter().cloned()).collect();
            let policies = point.plan.policies.iter().enumerate();
            places.extend(policies.map(|(policy, named)| ((named.name.clone(), labels.clone()), [at, policy])));
            runs.push(vec![vec![None; simulations.seeds as usize]; point.plan.policies.len()]);
        }
        let names = measures::groups(pace(simulations))
            .flat_map(|(_, measures)| measures)
            .map(|measure| measure.name)
            .collect();
        RunResults { simulations, names, places, runs }
    }

    /// Adds a run; returns `None` if the plan has no run with these labels.
    pub(super) fn add(&mut self, header: Header, rows: &[Row]) -> Option<()> {
        let name = header.label(POLICY)?.to_owned();
        let seed = header.label(SEED)?.parse::<usize>().ok()?.checked_sub(1)?;
        let labels = header.labels.into_iter().filter(|(key, _)| ![POLICY, SEED].contains(&key.as_str())).collect();
        let [point, policy] = *self.places.get(&(name, labels))?;
        let run = Run { values: self.values(rows, MEASURE), events: self.values(rows, EVENTS) };
        *self.runs[point][policy].get_mut(seed)? = Some(run);
        Some(())
    }

    /// Returns the numbers of a section by reported measure.
    fn values(&self, rows: &[Row], section: &str) -> Values {
        let of_section = rows.iter().filter(|row| row.section == section);
        let named =
            of_section.filter_map(|row| Some((*self.names.get(row.measure.as_str())?, row.quantity()?.value())));
        named.collect()
    }

    /// Compares every policy B with A.
    pub(super) fn judge(&self, terms: Terms) -> Verdicts {
        let RunResults { simulations, runs, .. } = self;
        let policies = simulations.points.first().map_or(0, |point| point.plan.policies.len());
        let comparisons = simulations.points.len() * policies.saturating_sub(1);
        let is_enough = has_rank_interval(simulations.seeds as usize, confidence_of(comparisons));
        let runs = AllRuns { simulations, runs, is_enough };
        let reports = (1..policies).filter_map(|policy| runs.report(policy, comparisons, terms)).collect();
        Verdicts { comparisons, incomplete: runs.incomplete(), reports }
    }
}

/// Returns the pace of the workload, which all points share.
fn pace(simulations: &Simulations) -> WorkPace {
    simulations.points[0].plan.points[0].workload.pace()
}

/// All runs, ready to be compared.
struct AllRuns<'p> {
    simulations: &'p Simulations,
    /// Runs by point, policy and seed.
    runs: &'p [Vec<Vec<Option<Run>>>],
    /// `true` if there are enough seeds for a verdict.
    is_enough: bool,
}

impl AllRuns<'_> {
    /// Returns all points with their indices.
    fn points(&self) -> impl Iterator<Item = (usize, &SimulatedPoint)> {
        self.simulations.points.iter().enumerate()
    }

    /// Returns the values of a measure under all seeds; `None` if a seed was not run under this policy.
    fn spread(&self, point: usize, policy: usize, measure: &Measure) -> Option<Spread> {
        let runs: Vec<&Run> = self.runs[point][policy].iter().map(Option::as_ref).collect::<Option<_>>()?;
        let values = runs.iter().map(|run| run.values.get(measure.name).copied().unwrap_or(f64::NAN)).collect();
        let events = runs.iter().filter_map(|run| run.events.get(measure.name)).copied();
        let spread = Spread::from_values(measure.unit, values);
        Some(Spread { events: spread.events.or(events.reduce(|sum, events| sum + events)), ..spread })
    }

    fn incomplete(&self) -> Vec<String> {
        let mut incomplete = BTreeSet::new();
        for (number, point) in self.points() {
            for (policy, runs) in point.plan.policies.iter().zip(&self.runs[number]) {
                if runs.iter().any(Option::is_none) {
                    incomplete.insert(format!("{} on {}", policy.name, describe_point(point)));
                }
            }
        }
        incomplete.into_iter().collect()
    }

    fn row(&self, (at, point): (usize, &SimulatedPoint), policy: usize, measure: &Measure) -> Option<model::Row> {
        let (spread_a, spread_b) = (self.spread(at, 0, measure)?, self.spread(at, policy, measure)?);
        let Comparison { change, verdict } = judge::judge(measure, &spread_a, &spread_b);
        let verdict = if !self.is_enough && verdict.is_change() { Verdict::WithinNoise } else { verdict };
        let (a, b) = (spread_a.number().map(quantity), spread_b.number().map(quantity));
        (a.is_some() || b.is_some()).then(|| model::Row {
            case: describe_point(point),
            a,
            b,
            change,
            verdict,
            ..model::Row::default()
        })
    }

    fn groups(&self, policy: usize) -> Vec<Group> {
        let mut groups = Vec::new();
        for (name, measures) in measures::groups(pace(self.simulations)) {
            groups
                .push(Group { name, measures: measures.iter().map(|measure| self.compare(policy, measure)).collect() });
        }
        groups
    }

    /// Compares a policy with policy A in one measure, at each point.
    fn compare(&self, policy: usize, measure: &Measure) -> model::Measure {
        // At a set pace every policy gets the same number of requests, so more throughput is neither better nor worse.
        let is_set = measure.name == measures::THROUGHPUT.name && pace(self.simulations) == WorkPace::Set;
        let directed = measure.directed(if is_set { Direction::Neutral } else { measure.direction });
        let rows = self.points().filter_map(|point| self.row(point, policy, &directed)).collect();
        let (unit, direction) = (directed.unit.name(), directed.direction);
        model::Measure { name: directed.name, title: directed.about, unit, direction, rows, pooled: None }
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
        let least = (1..).find(|&seeds| has_rank_interval(seeds, confidence_of(comparisons))).unwrap_or(usize::MAX);
        match self.is_enough {
            true => format!("A verdict holds under each of {seeds} seeds."),
            false => format!(
                "No measure is judged better or worse with fewer than {least} seeds: set seed = {least} below [axes]."
            ),
        }
    }
}

/// Describes a point.
fn describe_point(point: &SimulatedPoint) -> String {
    let cpus = format!("{} {}", point.cpus, number::unit(point.cpus.into(), "CPUs"));
    let values = point.values.iter().map(|(key, value)| format!("{key} = {value}"));
    [cpus].into_iter().chain(values).collect::<Vec<_>>().join(", ")
}

/// Describes the changes under B, and at how many points each occurs.
fn changes(b: &str, groups: &[Group]) -> String {
    match [Verdict::Better, Verdict::Worse].map(|verdict| list_measures(groups, verdict)) {
        [better, worse] if better.is_empty() && worse.is_empty() => {
            format!("{b}: no measure is better or worse.")
        }
        [better, worse] if worse.is_empty() => format!("{b}: better: {better}."),
        [better, worse] if better.is_empty() => format!("{b}: worse: {worse}."),
        [better, worse] => format!("{b}: better: {better}. Worse: {worse}."),
    }
}

/// Lists the measures with this verdict, with the number of points that have it.
fn list_measures(groups: &[Group], verdict: Verdict) -> String {
    let mut listed = Vec::new();
    for measure in groups.iter().flat_map(|group| &group.measures) {
        let count = measure.rows.iter().filter(|row| row.verdict == verdict).count();
        let points = measure.rows.len();
        let at = if points == 1 { String::new() } else { format!(" at {count} of {points} points") };
        if count > 0 {
            listed.push(measure.name.replace('_', " ") + &at);
        }
    }
    listed.join(", ")
}
