//! How often predictions came true, by what was changed: the suite's own count, carried by the program.
//!
//! `cargo xtask oracle --prediction --track-record FILE` writes the file that is compiled in here, from the same rows
//! as docs/fidelity.md. A setting that is not in it was never tried.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The file.
const FILE: &str = include_str!("track-record.json");

/// What predictions about one kind of change came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predictions {
    /// Pairs of kernels, one as recorded and one with the change.
    pub pairs: u32,
    /// Rows in which the kernels decide a direction.
    pub decided: u32,
    /// Those of them in which it was predicted.
    pub right: u32,
    /// Rows in which the kernels' change has an interval.
    pub with_interval: u32,
    /// Those of them in which the predicted size lies within it.
    pub within: u32,
}

/// What all predictions came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrackRecord {
    /// About another kernel.
    pub kernels: Predictions,
    /// About another value of a setting, by its name.
    pub settings: BTreeMap<String, Predictions>,
}

impl TrackRecord {
    /// That of the suite in docs/fidelity.md.
    pub fn load() -> TrackRecord {
        serde_json::from_str(FILE).expect("a test holds the file to its shape")
    }

    /// What predictions about a setting came to; nothing if there was none.
    pub fn setting(&self, setting: &str) -> Option<Predictions> {
        self.settings.get(setting).copied()
    }

    /// The text of the file.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers by name are plain data") + "\n"
    }
}

impl Predictions {
    /// Adds a pair's rows.
    pub fn add(&mut self, pair: Predictions) {
        self.pairs += pair.pairs;
        self.decided += pair.decided;
        self.right += pair.right;
        self.with_interval += pair.with_interval;
        self.within += pair.within;
    }

    /// In words that fit a table.
    pub fn in_short(self) -> String {
        let Predictions { decided, right, with_interval, within, .. } = self;
        let sizes = format!("size {within} of {with_interval}");
        if decided == 0 {
            format!("no direction decided, {sizes}")
        } else {
            format!("direction {right} of {decided}, {sizes}")
        }
    }

    /// Whether more directions came true than not.
    pub fn is_mostly_right(self) -> bool {
        2 * self.right > self.decided
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::settings;
    use super::*;

    #[test]
    fn the_file_has_its_shape() {
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
    fn the_page_says_the_same() {
        let page = include_str!("../../../../docs/fidelity.md");
        let record = TrackRecord::load();
        let mut settings = Predictions::default();
        record.settings.values().for_each(|predictions| settings.add(*predictions));
        for (name, of) in [("another kernel", record.kernels), ("another setting", settings)] {
            let row = page.lines().find(|line| line.starts_with(&format!("| {name} |"))).unwrap();
            let words = row.trim_matches('|').split('|').map(|cell| cell.split_whitespace().next());
            let cells: Vec<Option<u32>> = words.map(|word| word?.parse().ok()).collect();
            let told = [cells[1], cells[2], cells[3], cells[5], cells[6]].map(Option::unwrap_or_default);
            let file = [of.pairs, of.decided, of.right, of.with_interval, of.within];
            assert_eq!(
                told, file,
                "{row}: write both in one run: cargo xtask oracle --suite --prediction --out ... --track-record ..."
            );
        }
    }

    #[test]
    fn few_words_tell_how_often_it_came_true() {
        let some = Predictions { pairs: 1, decided: 3, right: 2, with_interval: 9, within: 8 };
        assert_eq!(some.in_short(), "direction 2 of 3, size 8 of 9");
        assert!(some.is_mostly_right());
        let open = Predictions { decided: 0, right: 0, ..some };
        assert_eq!(open.in_short(), "no direction decided, size 8 of 9");
        assert!(!open.is_mostly_right());
    }
}
