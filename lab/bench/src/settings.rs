//! Settings of a benchmark: effort, margin, number of runs, time, seed and CPUs.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::decide::Margin;
use super::subject::Effort;

/// Method of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Two sides at a time, until the verdict is clear.
    Comparisons,
    /// All contestants in each run, for a number of runs and a time that are fixed beforehand.
    Contest,
}

/// Settings that apply to all benchmarks of a call.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Amount of measuring.
    pub effort: Effort,
    /// Largest difference that counts as no difference.
    pub margin: Margin,
    /// Maximum runs of a comparison.
    pub runs_max: usize,
    /// Maximum time for a comparison.
    pub time: Duration,
    /// Seed of the order of samples and of the bootstrap.
    pub seed: u64,
    /// CPU that this thread is pinned to.
    pub cpu: u16,
    /// CPU of a second thread, for cases that have one; `None` if this process may use one CPU only.
    pub partner: Option<u16>,
    /// Path of the program with other page-frame allocators, instead of the default path.
    pub peers: Option<PathBuf>,
    /// Paths of programs with mallocs, instead of the default paths.
    pub mallocs: Vec<PathBuf>,
}
