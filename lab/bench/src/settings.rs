//! Settings of a measurement: effort, margin, number of runs, time, and CPUs.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::decide::Margin;
use super::subject::Effort;

/// How a benchmark measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Two sides at a time, until the verdict is clear.
    Comparisons,
    /// Everybody at once, for so long.
    Contest,
}

/// How everything is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How much is measured.
    pub effort: Effort,
    /// What counts as no difference.
    pub margin: Margin,
    /// Most runs of a comparison.
    pub runs_max: usize,
    /// Most time for a comparison.
    pub time: Duration,
    /// Seed of the order of samples and of the bootstrap.
    pub seed: u64,
    /// The CPU that this thread is pinned to.
    pub cpu: u16,
    /// The CPU of a second thread, where a case has one and this process may use another CPU.
    pub partner: Option<u16>,
    /// Where the program with other allocators is, if not where it is looked for.
    pub peers: Option<PathBuf>,
    /// Where programs with mallocs are, if not where they are looked for.
    pub mallocs: Vec<PathBuf>,
}
