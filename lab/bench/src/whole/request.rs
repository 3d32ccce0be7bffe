//! Request for a measurement of mallocs under whole programs.

use std::path::PathBuf;

use freehold_workloads::malloc::Table;

use super::roster::Malloc;

/// Loads, mallocs and rounds to measure.
#[derive(Clone, Debug)]
pub struct Request {
    /// Program that runs the loads.
    pub program: PathBuf,
    /// Loads; those of a table follow each other.
    pub loads: Vec<Load>,
    /// Names of loads that cannot be run here, each with the reason.
    pub left_out: Vec<(String, String)>,
    /// Share of each load that is run, in percent.
    pub percent: u32,
    /// Path of Freehold's library.
    pub library: PathBuf,
    /// Mallocs in addition to those that are found.
    pub others: Vec<Malloc>,
    /// Number of rounds.
    pub rounds: u32,
    /// Seed of the order of the runs, and of the bootstrap.
    pub seed: u64,
}

/// A load, and its place in the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// Name in tables.
    pub name: String,
    /// Arguments that follow `freehold load malloc`.
    pub arguments: Vec<String>,
    /// Table that reports the load.
    pub table: Table,
    /// Group of the load within its table; the geometric mean is over a group.
    pub group: &'static str,
}

#[cfg(test)]
impl Request {
    /// Returns a request for loads of these names in one table, for tests of reports.
    pub(super) fn planted(table: Table, names: &[&str]) -> Request {
        let load = Load { name: String::new(), arguments: Vec::new(), table, group: "" };
        Request {
            program: PathBuf::new(),
            loads: names.iter().map(|name| Load { name: (*name).to_owned(), ..load.clone() }).collect(),
            left_out: Vec::new(),
            percent: 100,
            library: PathBuf::new(),
            others: Vec::new(),
            rounds: 1,
            seed: 1,
        }
    }
}
