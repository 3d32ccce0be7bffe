//! Results of a fleet, and how its policies compare.

use freehold_report::number;
use freehold_report::report::Detail;

use super::host::{Host, HostResult};
use super::judge::{self, Estimate, HostComparison};
use super::measures::Measure;
use super::spec::Fleet;
use crate::report::recipe::Recipe;
use crate::workload::WorkPace;

/// What all hosts brought under all policies.
#[derive(Debug)]
pub struct FleetReport {
    /// How it came about.
    pub recipe: Recipe,
    /// What was asked.
    pub fleet: Fleet,
    /// The hosts.
    pub hosts: Vec<Host>,
    /// What each host brought, one a policy.
    pub results: Vec<Vec<HostResult>>,
    /// Whether hosts are listed.
    pub listing: Listing,
    /// What a person at a terminal sees of it.
    pub detail: Detail,
    /// How sure an interval is.
    pub confidence: f64,
}

/// What is said of single hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listing {
    /// Nothing.
    #[default]
    Fleet,
    /// A row a host and policy.
    Hosts,
}

impl FleetReport {
    /// The report of a fleet of these hosts.
    pub fn new(fleet: Fleet, hosts: Vec<Host>, results: Vec<Vec<HostResult>>) -> FleetReport {
        let recipe = Recipe::new(&fleet.costs, &fleet.plan.policies);
        let confidence = judge::CONFIDENCE;
        FleetReport { recipe, fleet, hosts, results, listing: Listing::default(), detail: Detail::Tables, confidence }
    }

    /// The same with another word on single hosts, and so much to be seen at a terminal.
    pub fn shown(self, listing: Listing, detail: Detail) -> FleetReport {
        FleetReport { listing, detail, ..self }
    }

    /// The same where this is one of several comparisons, each of which has to be so sure.
    #[must_use]
    pub fn at_confidence(self, confidence: f64) -> FleetReport {
        FleetReport { confidence, ..self }
    }

    /// A measure on every host, in their order.
    pub fn values(&self, measure: &Measure, policy: usize) -> Vec<Option<f64>> {
        self.results.iter().map(|results| measure.evaluate(&results[policy])).collect()
    }

    /// A measure over the fleet; nothing if it is absent on all hosts.
    pub fn estimate(&self, measure: &Measure, policy: usize) -> Option<Estimate> {
        let present: Vec<f64> = self.values(measure, policy).into_iter().flatten().collect();
        Estimate::from_values(measure.aggregate, &present, self.confidence)
    }

    /// How a policy stands against policy A; nothing if no host has the measure under both.
    pub fn judge(&self, measure: &Measure, policy: usize) -> Option<HostComparison> {
        let events = self.events(measure, 0).zip(self.events(measure, policy)).map(|(a, b)| a.max(b));
        judge::judge(measure, &self.values(measure, 0), &self.values(measure, policy), events, self.confidence)
    }

    /// Returns the events behind a measure on all hosts; `None` if it does not stand for events.
    fn events(&self, measure: &Measure, policy: usize) -> Option<f64> {
        let events = self.results.iter().filter_map(|results| measure.events(&results[policy]));
        events.reduce(|sum, events| sum + events)
    }

    /// How many policies there are.
    pub fn policies(&self) -> usize {
        self.fleet.plan.policies.len()
    }

    /// The policy that differs from policy A by this.
    pub fn policy(&self, label: &str) -> Option<usize> {
        (1..self.policies()).find(|&policy| self.label(policy) == label)
    }

    /// How many hosts, how large, and what they draw, in sentences.
    pub fn hosts_text(&self) -> String {
        let draws = self.fleet.plan.draws.iter();
        let drawn: Vec<String> =
            draws.map(|draw| format!("{} from {} to {}", draw.key, draw.least, draw.most)).collect();
        let differences = match drawn.as_slice() {
            [] => "Hosts differ by seed alone".to_owned(),
            _ => format!("Each draws {}", drawn.join(", ")),
        };
        format!("{}. {differences}.", self.size_text())
    }

    /// A policy's name in tables: without policy A's, where it only changes that one.
    pub fn label(&self, policy: usize) -> &str {
        self.fleet.plan.label(policy)
    }

    /// Whether memory was to fill, and never did.
    pub(super) fn is_calm(&self) -> bool {
        let mut runs = self.results.iter().flatten();
        self.fleet.plan.points[0].workload.pace() == WorkPace::Set && runs.all(|run| !run.vmstat.is_under_pressure())
    }

    /// How many hosts, how large, for how long.
    pub(super) fn size_text(&self) -> String {
        let fleet = &self.fleet;
        let point = &fleet.plan.points[0];
        let pages = point.machine.machine(fleet.plan.cpus[0]).map_or(0, |machine| u64::from(machine.pages));
        format!(
            "{} of {} MiB and {} CPUs, {} of virtual time each after {} that do not count",
            format_args!("{} {}", number::count(fleet.hosts.into()), number::unit(fleet.hosts.into(), "hosts")),
            number::count(pages >> 8),
            fleet.plan.cpus[0],
            seconds(point.duration_ms),
            seconds(point.warmup_ms),
        )
    }
}

fn seconds(ms: u64) -> String {
    if ms.is_multiple_of(1000) {
        format!("{} s", number::count(ms / 1000))
    } else {
        format!("{} ms", number::count(ms))
    }
}
