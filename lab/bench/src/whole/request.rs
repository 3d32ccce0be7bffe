//! What is to be measured of mallocs under whole programs.

use std::path::PathBuf;

use freehold_workloads::malloc::Table;

use super::roster::Malloc;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Request {
    /// The program that makes the loads.
    pub program: PathBuf,
    /// The loads, those of a table one after the other.
    pub loads: Vec<Load>,
    /// Names of loads that cannot be made here, each with the program that is missing.
    pub left_out: Vec<(String, String)>,
    /// What of each load is done, in percent.
    pub percent: u32,
    /// Freehold's library.
    pub library: PathBuf,
    /// Other mallocs than those that are found.
    pub others: Vec<Malloc>,
    /// How often everything is measured.
    pub rounds: u32,
    /// Seed of the order, and of the bootstrap.
    pub seed: u64,
}

/// A load, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// Its name in tables.
    pub name: String,
    /// What makes it, behind `freehold load malloc`.
    pub arguments: Vec<String>,
    /// What is asked of it.
    pub table: Table,
    /// What it has one mean with, of its table.
    pub group: &'static str,
}
