//! What a fleet brought: for people the one model of a report, for programs everything down to the counters of each
//! host.

use std::borrow::Cow;
use std::collections::BTreeMap;

use freehold_report::formats::Document;
use freehold_report::number;
use freehold_report::report::{Detail, Report};
use serde::Serialize;
use serde::ser::{SerializeMap, SerializeStruct, Serializer};

use super::Fleet;
use super::host::{Host, HostResult};
use super::judge::{self, Estimate, Judged};
use super::measures::{self, Measure};
use super::{spread, tables, verdict};
use crate::report::assembled;
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
        self.results.iter().map(|results| measure.of(&results[policy])).collect()
    }

    /// A measure over the fleet; nothing if it is absent on all hosts.
    pub fn estimate(&self, measure: &Measure, policy: usize) -> Option<Estimate> {
        let present: Vec<f64> = self.values(measure, policy).into_iter().flatten().collect();
        Estimate::of(measure.over, &present, self.confidence)
    }

    /// How a policy stands against policy A; nothing if no host has the measure under both.
    pub fn judged(&self, measure: &Measure, policy: usize) -> Option<Judged> {
        judge::judge(measure, &self.values(measure, 0), &self.values(measure, policy), self.confidence)
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
        let drawn =
            self.fleet.plan.draws.iter().map(|draw| format!("{} from {} to {}", draw.key, draw.least, draw.most));
        let drawn: Vec<String> = drawn.collect();
        let drawn = if drawn.is_empty() {
            "Hosts differ by seed alone".to_owned()
        } else {
            format!("Each draws {}", drawn.join(", "))
        };
        format!("{}. {drawn}.", self.size_text())
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
    fn size_text(&self) -> String {
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

impl Document for FleetReport {
    /// A verdict on each policy B; what was asked stands in the first report, and the tables of all in the last.
    fn reports(&self) -> Cow<'_, [Report]> {
        let plan = &self.fleet.plan;
        let on = |policy| (vec![verdict::changes(self, policy)], verdict::groups(self, policy));
        let mut tables = tables::tables(self);
        if self.listing == Listing::Hosts {
            tables.extend(tables::hosts(self));
        }
        let shared = Report {
            subject: vec![format!("{}: {}", plan.name, plan.title), self.size_text() + "."],
            verdict: verdict::belief(self),
            tables,
            plots: spread::plots(self),
            recipe: self.recipe.rows(),
            detail: self.detail,
            ..Report::default()
        };
        Cow::Owned(assembled(plan, on, shared))
    }
}

impl Serialize for FleetReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut document = serializer.serialize_struct("FleetReport", 6)?;
        document.serialize_field("recipe", &self.recipe)?;
        document.serialize_field("plan", &self.fleet.plan)?;
        document.serialize_field("seed", &self.fleet.seed)?;
        document.serialize_field("confidence", &self.confidence)?;
        let fleet: Vec<_> = (0..self.policies()).map(|policy| OfPolicy { report: self, policy }).collect();
        document.serialize_field("fleet", &fleet)?;
        let hosts: Vec<_> = (0..self.hosts.len()).map(|host| OfHost { report: self, host }).collect();
        document.serialize_field("hosts", &hosts)?;
        document.end()
    }
}

/// The fleet under one policy, as JSON.
struct OfPolicy<'r> {
    report: &'r FleetReport,
    policy: usize,
}

/// A measure over the fleet, as JSON.
#[derive(Serialize)]
struct Entry {
    over: &'static str,
    #[serde(flatten)]
    estimate: Option<Estimate>,
    difference: Option<Estimate>,
    verdict: Option<freehold_stats::verdict::Verdict>,
}

impl Serialize for OfPolicy<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let OfPolicy { report, policy } = *self;
        let mut row = serializer.serialize_map(None)?;
        row.serialize_entry("policy", &report.fleet.plan.policies[policy].name)?;
        for measure in measures::all() {
            let judged = report.judged(measure, policy).filter(|_| policy > 0);
            let entry = Entry {
                over: measure.over.word(),
                estimate: report.estimate(measure, policy),
                difference: judged.map(|judged| judged.difference),
                verdict: judged.map(|judged| judged.verdict),
            };
            row.serialize_entry(measure.name, &entry)?;
        }
        row.end()
    }
}

/// One host, as JSON.
struct OfHost<'r> {
    report: &'r FleetReport,
    host: usize,
}

/// One host under one policy, as JSON.
struct OfRun<'r> {
    policy: &'r str,
    result: &'r HostResult,
}

impl Serialize for OfHost<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let OfHost { report, host } = *self;
        let policies = report.fleet.plan.policies.iter().map(|policy| policy.name.as_str());
        let runs = policies.zip(&report.results[host]).map(|(policy, result)| OfRun { policy, result });
        let Host { number, seed, drawn, .. } = &report.hosts[host];
        let drawn: BTreeMap<&str, u64> = drawn.iter().map(|drawn| (drawn.key.as_str(), drawn.value)).collect();
        let mut entry = serializer.serialize_map(None)?;
        entry.serialize_entry("host", number)?;
        entry.serialize_entry("seed", seed)?;
        entry.serialize_entry("drawn", &drawn)?;
        entry.serialize_entry("results", &runs.collect::<Vec<_>>())?;
        entry.end()
    }
}

impl Serialize for OfRun<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let OfRun { policy, result } = self;
        let mut run = serializer.serialize_map(None)?;
        run.serialize_entry("policy", policy)?;
        for measure in measures::all() {
            run.serialize_entry(measure.name, &measure.of(result))?;
        }
        run.serialize_entry("reserved_pages", &result.reserved_pages)?;
        run.serialize_entry("vmstat", &result.vmstat)?;
        run.end()
    }
}

fn seconds(ms: u64) -> String {
    if ms.is_multiple_of(1000) {
        format!("{} s", number::count(ms / 1000))
    } else {
        format!("{} ms", number::count(ms))
    }
}
