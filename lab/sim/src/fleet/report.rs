//! Results of a fleet, and the comparison of its policies.

use freehold_report::number;
use freehold_report::report::Detail;

use super::host::{Host, HostResult};
use super::judge::{self, Estimate, HostComparison};
use super::measures::Measure;
use super::spec::Fleet;
use crate::report::recipe::Recipe;
use crate::workload::WorkPace;

/// Results of all hosts under all policies.
#[derive(Debug)]
pub struct FleetReport {
    /// Origin of the results.
    pub recipe: Recipe,
    /// Plan, costs, number of hosts and seed.
    pub fleet: Fleet,
    /// The hosts.
    pub hosts: Vec<Host>,
    /// Results of each host, one for each policy.
    pub results: Vec<Vec<HostResult>>,
    /// Whether hosts are listed.
    pub listing: Listing,
    /// Amount of detail at a terminal.
    pub detail: Detail,
    /// Confidence of an interval.
    pub confidence: f64,
}

/// Tables about single hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listing {
    /// No tables about single hosts.
    #[default]
    Fleet,
    /// One row for each host and policy.
    Hosts,
}

impl FleetReport {
    /// Creates the report of a fleet of these hosts.
    pub fn new(fleet: Fleet, hosts: Vec<Host>, results: Vec<Vec<HostResult>>) -> FleetReport {
        let recipe = Recipe::new(&fleet.costs, &fleet.plan.policies);
        let confidence = judge::CONFIDENCE;
        FleetReport { recipe, fleet, hosts, results, listing: Listing::default(), detail: Detail::Tables, confidence }
    }

    /// Returns the report with another listing and another amount of detail at a terminal.
    pub fn shown(self, listing: Listing, detail: Detail) -> FleetReport {
        FleetReport { listing, detail, ..self }
    }

    /// Returns the report with another confidence, for one of several comparisons.
    #[must_use]
    pub fn at_confidence(self, confidence: f64) -> FleetReport {
        FleetReport { confidence, ..self }
    }

    /// Returns a measure on every host, in the order of hosts.
    pub fn values(&self, measure: &Measure, policy: usize) -> Vec<Option<f64>> {
        self.results.iter().map(|results| measure.evaluate(&results[policy])).collect()
    }

    /// Returns the estimate of a measure over the fleet; `None` if it is absent on all hosts.
    pub fn estimate(&self, measure: &Measure, policy: usize) -> Option<Estimate> {
        let present: Vec<f64> = self.values(measure, policy).into_iter().flatten().collect();
        Estimate::from_values(measure.aggregate, &present, self.confidence)
    }

    /// Compares a policy with policy A; returns `None` if no host has the measure under both.
    pub fn judge(&self, measure: &Measure, policy: usize) -> Option<HostComparison> {
        let events = self.events(measure, 0).zip(self.events(measure, policy)).map(|(a, b)| a.max(b));
        judge::judge(measure, &self.values(measure, 0), &self.values(measure, policy), events, self.confidence)
    }

    /// Returns the events behind a measure on all hosts; `None` if it does not represent events.
    fn events(&self, measure: &Measure, policy: usize) -> Option<f64> {
        let events = self.results.iter().filter_map(|results| measure.events(&results[policy]));
        events.reduce(|sum, events| sum + events)
    }

    /// Returns the number of policies.
    pub fn policies(&self) -> usize {
        self.fleet.plan.policies.len()
    }

    /// Returns the index of the policy B with this [label](Self::label).
    pub fn policy(&self, label: &str) -> Option<usize> {
        (1..self.policies()).find(|&policy| self.label(policy) == label)
    }

    /// Returns sentences on the number of hosts, their size, and the values they draw.
    pub fn hosts_text(&self) -> String {
        let draws = self.fleet.plan.draws.iter();
        let drawn: Vec<String> =
            draws.map(|draw| format!("{} from {} to {}", draw.key, draw.least, draw.most)).collect();
        let differences = match drawn.as_slice() {
            [] => "Hosts differ only by their seed".to_owned(),
            _ => format!("Drawn by each host: {}", drawn.join(", ")),
        };
        format!("{}. {differences}.", self.size_text())
    }

    /// Returns a policy's name in tables. The part that it shares with policy A is omitted.
    pub fn label(&self, policy: usize) -> &str {
        self.fleet.plan.label(policy)
    }

    /// Returns whether the workload has a fixed pace and memory never came under pressure.
    pub(super) fn is_calm(&self) -> bool {
        let mut runs = self.results.iter().flatten();
        self.fleet.plan.points[0].workload.pace() == WorkPace::Set && runs.all(|run| !run.vmstat.is_under_pressure())
    }

    /// Returns a phrase on the number of hosts, their size, and the measured time.
    pub(super) fn size_text(&self) -> String {
        let fleet = &self.fleet;
        let point = &fleet.plan.points[0];
        let pages = point.machine.machine(fleet.plan.cpus[0]).map_or(0, |machine| u64::from(machine.pages));
        format!(
            "{} of {} MiB and {} CPUs, {} of virtual time each after a warm-up of {}",
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
