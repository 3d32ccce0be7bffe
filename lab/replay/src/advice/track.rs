//! Track record of earlier predictions, by the changed setting, counted by the suite and compiled into the program.
//!
//! `cargo xtask oracle --prediction --track-record FILE` writes the included file, from the same rows as the tables of
//! docs/fidelity.md. A setting that is not in the file was never predicted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::report::metrics::Metric;

/// Text of the file.
const FILE: &str = include_str!("track-record.json");

/// Counts of earlier predictions about one kind of change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predictions {
    /// Pairs of kernels, one as recorded and one with the change.
    pub pairs: u32,
    /// Rows in which the kernels decide a direction.
    pub decided: u32,
    /// Rows of these in which the direction was predicted.
    pub right: u32,
    /// Rows in which the kernels' change has an interval.
    pub with_interval: u32,
    /// Rows of these in which the predicted size is within the interval.
    pub within: u32,
}

/// Counts of all earlier predictions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrackRecord {
    /// Predictions about another kernel.
    pub kernels: Predictions,
    /// Predictions about another value of a setting, by the setting's name.
    pub settings: BTreeMap<String, Predictions>,
    /// Directions by setting and by metric.
    pub concerns: BTreeMap<String, BTreeMap<String, Directions>>,
}

/// Predicted directions of one metric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Directions {
    /// Rows in which the kernels decide a direction.
    pub decided: u32,
    /// Rows of these in which the direction was predicted.
    pub right: u32,
}

impl TrackRecord {
    /// Returns the track record of the suite in docs/fidelity.md.
    pub fn load() -> TrackRecord {
        serde_json::from_str(FILE).expect("a test holds the file to its shape")
    }

    /// Returns the predictions about a setting; `None` if there were none.
    pub fn setting(&self, setting: &str) -> Option<Predictions> {
        self.settings.get(setting).copied()
    }

    /// Returns whether at least one direction of a metric under another value of a setting was decided before, and all
    /// decided directions were predicted.
    pub fn is_right(&self, setting: &str, metric: &str) -> bool {
        let directions = self.concerns.get(setting).and_then(|metrics| metrics.get(metric));
        directions.is_some_and(|directions| directions.decided > 0 && directions.right == directions.decided)
    }

    /// Returns the text of the file.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers by name are plain data") + "\n"
    }
}

/// Returns the metric of a row of the suite; `None` for rows that advice does not use.
pub fn metric_of_row(row: &str) -> Option<&'static str> {
    let metric = match row {
        "failed requests" => Metric::FailedAllocations,
        "direct reclaims" => Metric::AllocStalls,
        "direct compactions" => Metric::CompactStalls,
        "huge pages served" => Metric::HugePagesServed,
        "pages that kswapd scanned" | "pages that requests scanned" => Metric::PagesScanned,
        "blocks taken" | "blocks drained" => Metric::ZoneLockAcquisitions,
        _ => return None,
    };
    Some(metric.name())
}

impl Predictions {
    /// Adds these counts, of a pair of kernels or of several pairs.
    pub fn add(&mut self, pair: Predictions) {
        self.pairs += pair.pairs;
        self.decided += pair.decided;
        self.right += pair.right;
        self.with_interval += pair.with_interval;
        self.within += pair.within;
    }

    /// Formats the counts in a few words, for a table.
    pub fn in_short(self) -> String {
        let Predictions { decided, right, with_interval, within, .. } = self;
        let sizes = format!("size {within} of {with_interval}");
        if decided == 0 {
            format!("no direction decided, {sizes}")
        } else {
            format!("direction {right} of {decided}, {sizes}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::settings;
    use super::*;

    #[test]
    fn track_record_file_round_trips() {
        let record = TrackRecord::load();
        assert_eq!(record.to_json(), FILE, "as the oracle writes it");
        assert!(!record.settings.is_empty());
        for (name, predictions) in &record.settings {
            assert!(settings::names().any(|known| known == name), "{name}");
            assert!(predictions.pairs > 0, "{name}");
        }
        for predictions in record.settings.values().chain([&record.kernels]) {
            assert!(predictions.right <= predictions.decided && predictions.within <= predictions.with_interval);
        }
    }

    /// One run of the oracle writes both.
    #[test]
    fn table_of_scores_has_the_same_counts() {
        let scores = include_str!("../../../../docs/findings/data/fidelity/scores.csv");
        let record = TrackRecord::load();
        let mut settings = Predictions::default();
        record.settings.values().for_each(|predictions| settings.add(*predictions));
        for (name, of) in [("another kernel", record.kernels), ("another setting", settings)] {
            let row = scores.lines().find(|line| line.starts_with(&format!("{name},"))).unwrap();
            let words = row.split(',').map(|cell| cell.split_whitespace().next());
            let cells: Vec<Option<u32>> = words.map(|word| word?.parse().ok()).collect();
            let table = [cells[1], cells[2], cells[3], cells[5], cells[6]].map(Option::unwrap_or_default);
            let file = [of.pairs, of.decided, of.right, of.with_interval, of.within];
            assert_eq!(
                table, file,
                "{row}: write both in one run: cargo xtask oracle --suite --prediction --out ... --track-record ..."
            );
        }
    }

    /// Each row of the table is about one metric or a part of one.
    #[test]
    fn directions_by_metric_are_those_of_the_table() {
        let table = include_str!("../../../../docs/findings/data/fidelity/predictions.csv");
        let rows = table.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
        let mut counted: BTreeMap<String, BTreeMap<String, Directions>> = BTreeMap::new();
        for cells in rows.filter(|cells| cells[2].contains('=')) {
            assert_eq!(cells.len(), 9, "no cell has a comma");
            let setting = cells[2].split('=').next().unwrap().to_owned();
            if let Some(metric) = metric_of_row(cells[3]).filter(|_| cells[7] != "open") {
                let directions = counted.entry(setting).or_default().entry(metric.to_owned()).or_default();
                directions.decided += 1;
                directions.right += u32::from(cells[7] == "right");
            }
        }
        assert_eq!(TrackRecord::load().concerns, counted);
    }

    #[test]
    fn track_record_summary_is_formatted() {
        let some = Predictions { pairs: 1, decided: 3, right: 2, with_interval: 9, within: 8 };
        assert_eq!(some.in_short(), "direction 2 of 3, size 8 of 9");
        let open = Predictions { decided: 0, right: 0, ..some };
        assert_eq!(open.in_short(), "no direction decided, size 8 of 9");
    }
}
