//! Fleets: hosts decide together, at each point and under each seed, as in a fleet of its own.

use std::collections::{BTreeSet, HashMap};

use freehold_report::formats::Document;
use freehold_report::report::pool::confidence_of;
use freehold_report::report::{self as model};
use freehold_sim::costs::Costs;
use freehold_sim::fleet::Fleet;
use freehold_sim::fleet::host::{Host, HostResult};
use freehold_sim::fleet::report::{FleetReport, Listing};

use super::{Judged, Terms};
use crate::error::Error;
use crate::part::{Header, Row};
use crate::plan::{SimulatedPoint, Simulations};
use crate::simulating::host_of;
use crate::task::{CPUS, HOST, POLICY, SEED};

/// Hosts by policy, place, seed and number.
type Found = HashMap<(String, Vec<(String, String)>), HostResult>;

/// What is known of all hosts.
pub struct Told<'p> {
    simulations: &'p Simulations,
    hosts: u32,
    found: Found,
}

impl<'p> Told<'p> {
    /// Of no host yet.
    pub fn nothing(simulations: &'p Simulations, hosts: u32) -> Told<'p> {
        Told { simulations, hosts, found: Found::new() }
    }

    /// Takes in a host; nothing if these rows tell of none.
    pub fn add(&mut self, header: Header, rows: &[Row]) -> Option<()> {
        let policy = header.label(POLICY)?.to_owned();
        let labels = header.labels.into_iter().filter(|(key, _)| key != POLICY).collect();
        self.found.insert((policy, labels), host_of(rows)?);
        Some(())
    }

    /// Judges every B by A.
    pub fn judge(&self, terms: Terms) -> Result<Judged, Error> {
        let Told { simulations, hosts, found } = self;
        let fleets = || {
            simulations
                .points
                .iter()
                .flat_map(|point| (1..=u64::from(simulations.seeds)).map(move |seed| (point, seed)))
        };
        let comparisons = fleets().map(|(point, _)| point.plan.policies.len() - 1).sum();
        let (mut incomplete, mut verdicts) = (BTreeSet::new(), Vec::new());
        let several = fleets().count() > 1;
        for (point, seed) in fleets() {
            let about = several.then(|| about(point, simulations.seeds, seed));
            let (complete, missing): (Vec<u32>, Vec<u32>) =
                (1..=*hosts).partition(|&host| of_host(found, point, seed, host).is_some());
            incomplete.extend(missing.iter().map(|host| format!("host {host} of seed {seed}")));
            if complete.is_empty() {
                continue;
            }
            let drawn =
                complete.iter().map(|&host| Host::draw(&point.plan, seed, host)).collect::<Result<Vec<_>, _>>()?;
            let results = complete.iter().filter_map(|&host| of_host(found, point, seed, host)).collect();
            let fleet =
                Fleet { plan: point.plan.clone(), costs: Costs::reference(), hosts: complete.len() as u32, seed };
            let report = FleetReport::new(fleet, drawn, results).at_confidence(confidence_of(comparisons));
            let report = report.shown(Listing::Fleet, of_simulations(terms.detail));
            verdicts.extend(report.reports().iter().cloned().map(|mut report| {
                report.subject.splice(0..0, about.clone());
                report
            }));
        }
        Ok(Judged { comparisons, incomplete: incomplete.into_iter().collect(), verdicts })
    }
}

/// Simulations show their tables where replays show what differs.
pub fn of_simulations(detail: model::Detail) -> model::Detail {
    if detail == model::Detail::Differences { model::Detail::Tables } else { detail }
}

/// Where a run is, in words.
fn about(point: &SimulatedPoint, seeds: u32, seed: u64) -> String {
    let values = point.values.iter().map(|(key, value)| format!("{key} = {value}"));
    let seed = (seeds > 1).then(|| format!("seed {seed}"));
    [format!("{} CPUs", point.cpus)].into_iter().chain(values).chain(seed).collect::<Vec<_>>().join("; ")
}

/// A host under every policy; nothing if one is missing.
fn of_host(found: &Found, point: &SimulatedPoint, seed: u64, host: u32) -> Option<Vec<HostResult>> {
    let mut labels = vec![(CPUS.to_owned(), point.cpus.to_string())];
    labels.extend(point.values.iter().cloned());
    labels.extend([(SEED.to_owned(), seed.to_string()), (HOST.to_owned(), host.to_string())]);
    let policies = point.plan.policies.iter();
    policies.map(|policy| found.get(&(policy.name.clone(), labels.clone())).cloned()).collect()
}
