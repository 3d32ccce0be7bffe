//! Keys at the top of a plan.

use serde::Deserialize;
use toml::Spanned;
use toml::de::DeValue;

use super::error::PlanError;
use super::model::{CPUS, RIVALS, SEEDS};
use super::source::Source;

/// Keys at the top of a plan.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    pub title: String,
    pub shows: String,
    #[serde(default = "default_cpus")]
    pub cpus: Vec<u16>,
    #[serde(default = "default_a")]
    pub a: String,
    #[serde(default = "default_b")]
    pub b: Vec<String>,
    #[serde(default = "default_seeds")]
    pub seeds: u32,
    #[serde(default)]
    pub warmup_ms: u64,
    pub duration_ms: u64,
}

fn default_cpus() -> Vec<u16> {
    CPUS.to_vec()
}

fn default_a() -> String {
    freehold_policies::BASELINE.to_owned()
}

fn default_b() -> Vec<String> {
    RIVALS.map(str::to_owned).to_vec()
}

fn default_seeds() -> u32 {
    SEEDS
}

/// Tables of a plan, which are read separately.
const TABLES: [&str; 4] = ["machine", "workload", "sweep", "fleet"];

/// Reads the keys at the top of a plan.
pub(super) fn read_head(source: &Source<'_>) -> Result<Head, PlanError> {
    let mut table = source.table().clone();
    for name in TABLES {
        table.remove(name);
    }
    let head: Head = source.read("", Spanned::new(0..0, DeValue::Table(table)), &TABLES)?;
    for (key, text) in [("title", &head.title), ("shows", &head.shows)] {
        if text.trim().is_empty() {
            return Err(source.unfit(key, "is empty; describe the purpose of the plan"));
        }
    }
    Ok(head)
}
