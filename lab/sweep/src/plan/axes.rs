//! Axes of a plan: each key, with its list of values.

use std::collections::HashSet;
use std::num::NonZeroU16;

use freehold_replay::Setting;
use freehold_sim::CPUS_MAX;
use freehold_sim::plan::error::PlanError;
use freehold_sim::plan::source::{Source, Value};

use super::model::{RECORDED, cpus_label, setting_label};

/// Table of axes.
pub(super) const AXES: &str = "axes";
/// Axis of settings of the recorded kernel.
pub(super) const SETTING: &str = "setting";
/// Axis of numbers of CPUs.
pub(super) const CPUS: &str = "cpus";
/// Axis of seeds, given as their number.
pub(super) const SEED: &str = "seed";
/// Axis of hosts of a fleet, given as their number.
pub(super) const HOST: &str = "host";

/// One axis.
#[derive(Debug)]
pub(super) struct Axis<'s, 't> {
    source: &'s Source<'t>,
    /// Key of the axis.
    pub key: String,
    place: std::ops::Range<usize>,
    value: Value<'t>,
}

/// Reads all axes, in the order of their keys.
pub(super) fn read_axes<'s, 't>(source: &'s Source<'t>) -> Result<Vec<Axis<'s, 't>>, PlanError> {
    let Some((key, value)) = source.table().get_key_value(AXES) else { return Ok(Vec::new()) };
    let Some(table) = value.get_ref().as_table() else {
        return Err(source.unfit_at(key.span(), AXES, "is not a table; write [axes], and a line for each axis"));
    };
    let axes = table.iter().map(|(key, value)| Axis {
        source,
        key: key.get_ref().to_string(),
        place: key.span(),
        value: value.clone(),
    });
    Ok(axes.collect())
}

impl Axis<'_, '_> {
    /// Returns an error about this axis. The sentence follows the key.
    pub(super) fn unfit(&self, sentence: impl Into<String>) -> PlanError {
        self.source.unfit_at(self.place.clone(), &self.path(), sentence)
    }

    fn path(&self) -> String {
        format!("{AXES}.{}", self.key)
    }

    /// Returns the value of an axis that is a number of things, which are numbered from 1.
    pub(super) fn count(&self, most: u32) -> Result<u32, PlanError> {
        let count = self.value.get_ref().as_integer().and_then(|number| number.as_str().parse().ok());
        count
            .filter(|count| (1..=most).contains(count))
            .ok_or_else(|| self.unfit(format!("is not a valid number of values; give a number from 1 to {most}")))
    }

    /// Refuses a table, which is the result of a path that was not quoted.
    pub(super) fn expect_no_table(&self) -> Result<(), PlanError> {
        if self.value.get_ref().is_table() {
            return Err(
                self.unfit("is a table; write the whole path of a key in quotes, as in \"machine.age\" = [0, 60]")
            );
        }
        Ok(())
    }

    /// Returns the values as they are written. A repeated value is an error.
    pub(super) fn values(&self) -> Result<Vec<String>, PlanError> {
        self.expect_distinct(self.value_texts()?, Clone::clone)
    }

    fn value_texts(&self) -> Result<Vec<String>, PlanError> {
        self.expect_no_table()?;
        let values: Vec<toml::Value> = self.source.read(&self.path(), self.value.clone(), &[])?;
        let texts = values.iter().map(|value| match value {
            toml::Value::String(text) => Ok(text.clone()),
            toml::Value::Array(_) | toml::Value::Table(_) => {
                Err(self.unfit("takes numbers and words; remove the lists and tables in it"))
            }
            other => Ok(other.to_string()),
        });
        let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
        match texts.is_empty() {
            true => Err(self.unfit("is empty; give a list of values, or remove it")),
            false => Ok(texts),
        }
    }

    /// Returns the values if they are distinct. Values are compared by their labels, independent of how they were
    /// written.
    fn expect_distinct<V>(&self, values: Vec<V>, label: impl Fn(&V) -> String) -> Result<Vec<V>, PlanError> {
        let mut seen = HashSet::new();
        match values.iter().map(label).find(|label| !seen.insert(label.clone())) {
            Some(again) => Err(self.unfit(format!("contains {again} twice; give each value once"))),
            None => Ok(values),
        }
    }

    /// Returns the settings of each point. Several settings at one point are separated by commas.
    pub(super) fn settings(&self) -> Result<Vec<Vec<Setting>>, PlanError> {
        let texts = self.value_texts()?;
        let points = texts.iter().map(|text| match text.as_str() {
            RECORDED => Ok(Vec::new()),
            several => self.parse_settings(several),
        });
        let values = points.collect::<Result<_, _>>()?;
        self.expect_distinct(values, |settings| setting_label(settings))
    }

    /// Parses the settings of a point, and sorts them by name.
    fn parse_settings(&self, text: &str) -> Result<Vec<Setting>, PlanError> {
        let parsed = text.split(',').map(|setting| {
            let setting = setting.trim();
            setting.parse().map_err(|sentence: String| self.unfit(format!("contains `{setting}`: {sentence}")))
        });
        let mut settings: Vec<Setting> = parsed.collect::<Result<_, _>>()?;
        settings.sort_by_key(Setting::name);
        match settings.windows(2).any(|two| two[0].name() == two[1].name()) {
            true => Err(self.unfit(format!("contains `{text}`, which sets one setting twice; set it once"))),
            false => Ok(settings),
        }
    }

    /// Returns the numbers of CPUs.
    pub(super) fn cpus(&self) -> Result<Vec<NonZeroU16>, PlanError> {
        let values = self.value_texts()?.iter().map(|value| self.parse_cpus(value, "")).collect::<Result<_, _>>()?;
        self.expect_distinct(values, NonZeroU16::to_string)
    }

    /// Returns the numbers of CPUs, with `None` for the recorded CPUs.
    pub(super) fn cpus_or_recorded(&self) -> Result<Vec<Option<NonZeroU16>>, PlanError> {
        let texts = self.value_texts()?;
        let points = texts.iter().map(|text| match text.as_str() {
            RECORDED => Ok(None),
            number => self.parse_cpus(number, " or `recorded`").map(Some),
        });
        let values = points.collect::<Result<_, _>>()?;
        self.expect_distinct(values, |cpus| cpus_label(*cpus))
    }

    fn parse_cpus(&self, value: &str, or: &str) -> Result<NonZeroU16, PlanError> {
        let cpus = value.parse().ok().filter(|cpus: &NonZeroU16| cpus.get() <= CPUS_MAX);
        cpus.ok_or_else(|| self.unfit(format!("contains {value}; give numbers of CPUs from 1 to {CPUS_MAX}{or}")))
    }
}
