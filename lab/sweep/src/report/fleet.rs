//! Verdicts on fleets: the hosts of each point and seed are judged together, as by `freehold fleet`.

use std::collections::{BTreeSet, HashMap};

use freehold_report::formats::Document;
use freehold_report::report::pool::confidence_of;
use freehold_report::report::{self as model};
use freehold_sim::costs::Costs;
use freehold_sim::fleet::Fleet;
use freehold_sim::fleet::host::{Host, HostResult};
use freehold_sim::fleet::report::{FleetReport, Listing};

use super::terms::{Terms, Verdicts};
use crate::error::Error;
use crate::part::{Header, Row};
use crate::plan::{SimulatedPoint, Simulations};
use crate::simulating::host_from_rows;
use crate::task::{CPUS, HOST, POLICY, SEED};

/// Results of hosts, by policy and by the labels of point, seed and host.
type HostsByLabels = HashMap<(String, Vec<(String, String)>), HostResult>;

/// Results of all hosts.
pub(super) struct HostResults<'p> {
    simulations: &'p Simulations,
    hosts: u32,
    hosts_by_labels: HostsByLabels,
}

impl<'p> HostResults<'p> {
    /// Creates results without hosts.
    pub(super) fn new(simulations: &'p Simulations, hosts: u32) -> HostResults<'p> {
        HostResults { simulations, hosts, hosts_by_labels: HostsByLabels::new() }
    }

    /// Adds a host; returns `None` if the rows are not a complete host.
    pub(super) fn add(&mut self, header: Header, rows: &[Row]) -> Option<()> {
        let policy = header.label(POLICY)?.to_owned();
        let labels = header.labels.into_iter().filter(|(key, _)| key != POLICY).collect();
        self.hosts_by_labels.insert((policy, labels), host_from_rows(rows)?);
        Some(())
    }

    /// Compares every policy B with A.
    pub(super) fn judge(&self, terms: Terms) -> Result<Verdicts, Error> {
        let HostResults { simulations, hosts, hosts_by_labels } = self;
        let points = simulations.points.iter();
        let fleets: Vec<(&SimulatedPoint, u64)> =
            points.flat_map(|point| (1..=u64::from(simulations.seeds)).map(move |seed| (point, seed))).collect();
        let comparisons = fleets.iter().map(|(point, _)| point.plan.policies.len() - 1).sum();
        let (mut incomplete, mut reports) = (BTreeSet::new(), Vec::new());
        for &(point, seed) in &fleets {
            let (mut drawn, mut results) = (Vec::new(), Vec::new());
            for number in 1..=*hosts {
                match results_of_host(hosts_by_labels, point, seed, number) {
                    Some(result) => {
                        results.push(result);
                        drawn.push(Host::draw(&point.plan, seed, number)?);
                    }
                    None => _ = incomplete.insert(format!("host {number} of seed {seed}")),
                }
            }
            if drawn.is_empty() {
                continue;
            }
            let fleet = Fleet { plan: point.plan.clone(), costs: Costs::reference(), hosts: drawn.len() as u32, seed };
            let fleet_report = FleetReport::new(fleet, drawn, results)
                .at_confidence(confidence_of(comparisons))
                .shown(Listing::Fleet, simulation_detail(terms.detail));
            let about = (fleets.len() > 1).then(|| describe_fleet(point, simulations.seeds, seed));
            for shared in fleet_report.reports().iter() {
                let mut report = shared.clone();
                report.subject.splice(0..0, about.clone());
                reports.push(report);
            }
        }
        Ok(Verdicts { comparisons, incomplete: incomplete.into_iter().collect(), reports })
    }
}

/// Converts the detail of replays to that of simulations, which show their tables instead of the rows that differ.
pub(super) fn simulation_detail(detail: model::Detail) -> model::Detail {
    if detail == model::Detail::Differences { model::Detail::Tables } else { detail }
}

/// Describes the point and the seed of a fleet.
fn describe_fleet(point: &SimulatedPoint, seeds: u32, seed: u64) -> String {
    let values = point.values.iter().map(|(key, value)| format!("{key} = {value}"));
    let seed_text = (seeds > 1).then(|| format!("seed {seed}"));
    [format!("{} CPUs", point.cpus)].into_iter().chain(values).chain(seed_text).collect::<Vec<_>>().join("; ")
}

/// Returns the results of a host under every policy; `None` if a result is missing.
fn results_of_host(hosts: &HostsByLabels, point: &SimulatedPoint, seed: u64, host: u32) -> Option<Vec<HostResult>> {
    let mut labels = vec![(CPUS.to_owned(), point.cpus.to_string())];
    labels.extend(point.values.iter().cloned());
    labels.extend([(SEED.to_owned(), seed.to_string()), (HOST.to_owned(), host.to_string())]);
    let policies = point.plan.policies.iter();
    policies.map(|policy| hosts.get(&(policy.name.clone(), labels.clone())).cloned()).collect()
}
