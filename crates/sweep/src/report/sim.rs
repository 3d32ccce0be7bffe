//! Simulated runs: at each point a B is held against A seed by seed, as in a simulation of its own. As many verdicts
//! take more seeds than one.

use std::collections::{BTreeSet, HashMap};

use freehold_measure::number;
use freehold_measure::report::pool::confidence_of;
use freehold_measure::report::{self as model, Caveats, Group, Line};
use freehold_measure::stats::has_rank;
use freehold_measure::verdict::{Direction, Verdict};
use freehold_sim::measures::quantity;
use freehold_sim::report::judge::{self, Judged as OfSeeds};
use freehold_sim::report::measures::{self, Measure, Spread};
use freehold_sim::workload::WorkPace;

use super::{Judged, Part, Terms};
use crate::outcome::MEASURE;
use crate::plan::{SimulatedPoint, Simulations};
use crate::task::{POLICY, SEED};

/// What was measured in each run: by policy and place, then by seed and measure.
type Found<'p> = HashMap<(&'p str, Vec<(&'p str, &'p str)>), HashMap<(u64, &'p str), f64>>;

/// Judges every B by A.
pub fn judge(simulations: &Simulations, parts: &[Part], terms: Terms) -> Judged {
    let found = found(parts);
    let policies = simulations.points.first().map_or(0, |point| point.plan.policies.len());
    let comparisons = simulations.points.len() * policies.saturating_sub(1);
    let runs = Runs { simulations, found, is_enough: has_rank(simulations.seeds as usize, confidence_of(comparisons)) };
    let verdicts = (1..policies).filter_map(|policy| runs.report(policy, comparisons, terms)).collect();
    Judged { comparisons, incomplete: runs.incomplete(), verdicts }
}

fn found(parts: &[Part]) -> Found<'_> {
    let mut found = Found::new();
    for part in parts {
        let labels = part.header.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let place = labels.filter(|(key, _)| ![POLICY, SEED].contains(key)).collect();
        let seed = part.header.label(SEED).and_then(|seed| seed.parse().ok()).unwrap_or(0);
        let of_place = found.entry((part.header.label(POLICY).unwrap_or_default(), place)).or_default();
        // A run without a number for some measure was run all the same.
        of_place.insert((seed, ""), 0.0);
        let measures = part.rows.iter().filter(|row| row.section == MEASURE);
        of_place.extend(measures.filter_map(|row| Some(((seed, row.measure.as_str()), row.value?))));
    }
    found
}

/// All runs.
struct Runs<'p> {
    simulations: &'p Simulations,
    found: Found<'p>,
    /// Whether there are seeds enough to decide anything.
    is_enough: bool,
}

impl Runs<'_> {
    fn of(&self, point: &SimulatedPoint, policy: usize) -> Option<&HashMap<(u64, &str), f64>> {
        let cpus = point.cpus.to_string();
        let mut place = vec![("cpus", cpus.as_str())];
        place.extend(point.values.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        let name = point.plan.policies[policy].name.as_str();
        self.found.iter().find(|((policy, there), _)| *policy == name && *there == place).map(|(_, runs)| runs)
    }

    /// Whether all seeds were run under this policy.
    fn is_whole(&self, point: &SimulatedPoint, policy: usize) -> bool {
        let runs = self.of(point, policy);
        (1..=u64::from(self.simulations.seeds)).all(|seed| runs.is_some_and(|runs| runs.contains_key(&(seed, ""))))
    }

    fn spread(&self, point: &SimulatedPoint, policy: usize, measure: &Measure) -> Option<Spread> {
        let runs = self.of(point, policy).filter(|_| self.is_whole(point, policy))?;
        let of_seed = |seed| runs.get(&(seed, measure.name)).copied().unwrap_or(f64::NAN);
        Some(Spread::of_values((1..=u64::from(self.simulations.seeds)).map(of_seed).collect()))
    }

    fn incomplete(&self) -> Vec<String> {
        let places = self.simulations.points.iter().flat_map(|point| {
            let policies = (0..point.plan.policies.len()).filter(|&policy| !self.is_whole(point, policy));
            policies.map(|policy| format!("{} on {}", point.plan.policies[policy].name, of(point)))
        });
        places.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn line(&self, point: &SimulatedPoint, policy: usize, measure: &Measure) -> Option<Line> {
        let [a, b] = [0, policy].map(|policy| self.spread(point, policy, measure));
        let (a, b) = (a?, b?);
        let OfSeeds { change, verdict } = judge::judge(measure, &a, &b);
        let is_open = !self.is_enough && matches!(verdict, Verdict::Better | Verdict::Worse);
        let verdict = Some(if is_open { Verdict::Undecided } else { verdict });
        let [a, b] = [a, b].map(|spread| spread.number().map(quantity));
        (a.is_some() || b.is_some()).then(|| Line { of: of(point), a, b, change, verdict, ..Line::default() })
    }

    fn groups(&self, policy: usize) -> Vec<Group> {
        let pace = self.simulations.points[0].plan.points[0].workload.pace();
        let measure = |measure: &Measure| {
            // As much is asked for under every policy: more of it is neither good nor bad.
            let is_set = measure.name == measures::THROUGHPUT.name && pace == WorkPace::Set;
            let measure = measure.directed(if is_set { Direction::Neutral } else { measure.direction });
            let lines = self.simulations.points.iter().filter_map(|point| self.line(point, policy, &measure));
            let (lines, unit) = (lines.collect(), measure.unit.name());
            model::Measure { name: measure.name, unit, direction: measure.direction, lines, pooled: None }
        };
        let group = |(name, all): measures::Group| Group { name, measures: all.iter().map(measure).collect() };
        measures::groups(pace).map(group).collect()
    }

    fn report(&self, policy: usize, comparisons: usize, terms: Terms) -> Option<model::Report> {
        let groups = self.groups(policy);
        let is_there = groups.iter().flat_map(|group| &group.measures).any(|measure| !measure.lines.is_empty());
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
            let many = measure.lines.iter().filter(|line| line.verdict == Some(verdict)).count();
            let all = measure.lines.len();
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
