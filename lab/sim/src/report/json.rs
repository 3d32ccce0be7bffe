//! Reports of simulations as JSON.

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeStruct, Serializer};

use super::measures::{self, Spread};
use super::model::SimReport;
use crate::sweep::Cell;

impl Serialize for SimReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.serialize_with(serializer, JsonDetail::Measures)
    }
}

/// Amount of detail on each run in the JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonDetail {
    /// Measures only.
    Measures,
    /// Measures, and the counters of `/proc/vmstat`.
    Counters,
}

impl SimReport {
    pub(super) fn serialize_with<S: Serializer>(&self, serializer: S, detail: JsonDetail) -> Result<S::Ok, S::Error> {
        let mut document = serializer.serialize_struct("SimReport", 3)?;
        document.serialize_field("recipe", &self.recipe)?;
        document.serialize_field("plan", &self.plan)?;
        let rows: Vec<Row<'_>> = self.cells.iter().map(|cell| Row { report: self, cell, detail }).collect();
        document.serialize_field("results", &rows)?;
        document.end()
    }
}

/// One cell as JSON.
struct Row<'r> {
    report: &'r SimReport,
    cell: &'r Cell,
    detail: JsonDetail,
}

/// One measure of a cell as JSON.
#[derive(Serialize)]
struct Entry {
    #[serde(flatten)]
    spread: Spread,
    change: Option<f64>,
    verdict: Option<freehold_stats::verdict::Verdict>,
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Cell { point, cpus, policy, .. } = *self.cell;
        let plan = &self.report.plan;
        let mut row = serializer.serialize_map(None)?;
        row.serialize_entry("swept_value", &plan.points[point].value)?;
        row.serialize_entry("cpus", &cpus)?;
        row.serialize_entry("policy", &plan.policies[policy].name)?;
        for measure in measures::groups(self.report.pace()).flat_map(|(_, measures)| measures) {
            let comparison = self.report.judge(measure, point, cpus, policy).filter(|_| policy > 0);
            let entry = Entry {
                spread: Spread::over_runs(measure, &self.cell.outcomes),
                change: comparison.and_then(|comparison| comparison.change),
                verdict: comparison.map(|comparison| comparison.verdict),
            };
            row.serialize_entry(measure.name, &entry)?;
        }
        if self.detail == JsonDetail::Counters {
            let by_seed: Vec<_> = self.cell.outcomes.iter().map(|run| &run.vmstat).collect();
            row.serialize_entry("vmstat_by_seed", &by_seed)?;
        }
        row.end()
    }
}
