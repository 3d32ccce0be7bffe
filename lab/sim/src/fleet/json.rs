//! Reports of fleets as JSON, complete down to the counters of each host.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeStruct, Serializer};

use super::host::{Host, HostResult};
use super::judge::Estimate;
use super::measures;
use super::report::FleetReport;

impl Serialize for FleetReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut document = serializer.serialize_struct("FleetReport", 6)?;
        document.serialize_field("recipe", &self.recipe)?;
        document.serialize_field("plan", &self.fleet.plan)?;
        document.serialize_field("seed", &self.fleet.seed)?;
        document.serialize_field("confidence", &self.confidence)?;
        let fleet: Vec<_> = (0..self.policies()).map(|policy| PolicyRow { report: self, policy }).collect();
        document.serialize_field("fleet", &fleet)?;
        let hosts: Vec<_> = (0..self.hosts.len()).map(|host| HostRow { report: self, host }).collect();
        document.serialize_field("hosts", &hosts)?;
        document.end()
    }
}

/// The fleet under one policy, as JSON.
struct PolicyRow<'r> {
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

impl Serialize for PolicyRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let PolicyRow { report, policy } = *self;
        let mut row = serializer.serialize_map(None)?;
        row.serialize_entry("policy", &report.fleet.plan.policies[policy].name)?;
        for measure in measures::iter() {
            let comparison = report.judge(measure, policy).filter(|_| policy > 0);
            let entry = Entry {
                over: measure.aggregate.word(),
                estimate: report.estimate(measure, policy),
                difference: comparison.map(|comparison| comparison.difference),
                verdict: comparison.map(|comparison| comparison.verdict),
            };
            row.serialize_entry(measure.name, &entry)?;
        }
        row.end()
    }
}

/// One host, as JSON.
struct HostRow<'r> {
    report: &'r FleetReport,
    host: usize,
}

/// One host under one policy, as JSON.
struct RunRow<'r> {
    policy: &'r str,
    result: &'r HostResult,
}

impl Serialize for HostRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let HostRow { report, host } = *self;
        let policies = report.fleet.plan.policies.iter().map(|policy| policy.name.as_str());
        let runs = policies.zip(&report.results[host]).map(|(policy, result)| RunRow { policy, result });
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

impl Serialize for RunRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let RunRow { policy, result } = self;
        let mut run = serializer.serialize_map(None)?;
        run.serialize_entry("policy", policy)?;
        for measure in measures::iter() {
            run.serialize_entry(measure.name, &measure.evaluate(result))?;
        }
        run.serialize_entry("reserved_pages", &result.reserved_pages)?;
        run.serialize_entry("vmstat", &result.vmstat)?;
        run.end()
    }
}
