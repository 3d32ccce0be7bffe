//! Differences between the hosts of a fleet: keys of a plan, each with bounds between which a host draws its value.
//!
//! ```toml
//! [fleet.draw]
//! "workload.think_ns" = { least = 10_000, most = 20_000 }
//! ```
//!
//! A drawn key is an integer parameter of the workload or of the machine. Both bounds are checked in place of the key's
//! value, so a mistake is found before the first host runs. Values that hosts draw are checked in the same way. A key
//! that `--set` sets is not drawn: all hosts have the value that was set.

use serde::Deserialize;
use toml::Spanned;
use toml::de::DeValue;

use super::changes::set_all;
use super::error::{OpenError, PlanError};
use super::model::{Changes, Plan, Point};
pub use super::model::{Draw, DrawnValue};
use super::point::{is_parameter, read_point};
use super::source::{Source, Value};

/// Path of the table of draws.
const PATH: &str = "fleet.draw";

/// The table `[fleet]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FleetTable {
    #[serde(default, rename = "draw")]
    _draw: toml::Table,
}

/// A value of `[fleet.draw]`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bounds {
    least: u64,
    most: u64,
}

impl Plan {
    /// Returns the plan's first point for a host that drew these values, with the current durations of the plan.
    ///
    /// # Errors
    /// Returns an error if the plan is invalid with these values.
    pub fn on_host(&self, drawn: &[DrawnValue]) -> Result<Point, OpenError> {
        let values: Vec<String> = drawn.iter().map(|drawn| drawn.value.to_string()).collect();
        let mut source = Source::parse(&self.name, &self.text)?;
        set_all(&mut source, &self.changes)?;
        for (DrawnValue { key, .. }, text) in drawn.iter().zip(&values) {
            let span = span_of(&source, key);
            let value = DeValue::parse(text).expect("a drawn value is a number").into_inner();
            source = source.with(key, span.clone(), &Spanned::new(span, value))?;
        }
        let Point { warmup_ms, duration_ms, .. } = self.points[0];
        Ok(Point { warmup_ms, duration_ms, ..read_point(&source, None, &self.cpus)? })
    }
}

/// Reads the keys that hosts draw, and checks the plan with both bounds of each.
pub(super) fn read_draws(source: &Source<'_>, changes: &Changes, cpus: &[u16]) -> Result<Vec<Draw>, PlanError> {
    let Some(table) = source.table().get("fleet") else { return Ok(Vec::new()) };
    source.read::<FleetTable>("fleet", table.clone(), &[])?;
    let entries = entries(source).filter(|(key, _)| !changes.sets(key.get_ref()));
    entries.map(|(key, value)| read_draw(source, key, value, cpus)).collect()
}

fn read_draw(
    source: &Source<'_>,
    key: &Spanned<DeKey<'_>>,
    value: &Value<'_>,
    cpus: &[u16],
) -> Result<Draw, PlanError> {
    let (place, key) = (key.span(), key.get_ref().as_ref());
    let path = format!("{PATH}.\"{key}\"");
    if !is_parameter(key) {
        let sentence =
            "cannot be drawn; name a parameter of the workload or of the machine, as in \"workload.think_ns\"";
        return Err(source.unfit_at(place, &path, sentence));
    }
    let Bounds { least, most } = source.read(&path, value.clone(), &[])?;
    if least > most {
        return Err(source.unfit_at(place, &path, format!("has least {least} above most {most}; exchange them")));
    }
    let bounds = value.get_ref().as_table();
    for bound in ["least", "most"].iter().filter_map(|&end| bounds?.get(end)) {
        read_point(&source.with(key, place.clone(), bound)?, None, cpus)?;
    }
    Ok(Draw { key: key.to_owned(), least, most })
}

/// A key of a table.
type DeKey<'t> = std::borrow::Cow<'t, str>;

/// Returns the keys and bounds of `[fleet.draw]`.
fn entries<'s, 't>(source: &'s Source<'t>) -> impl Iterator<Item = (&'s Spanned<DeKey<'t>>, &'s Value<'t>)> {
    let fleet = source.table().get("fleet").and_then(|fleet| fleet.get_ref().as_table());
    let draw = fleet.and_then(|fleet| fleet.get("draw")).and_then(|draw| draw.get_ref().as_table());
    draw.into_iter().flatten()
}

/// Returns the location in the plan's text where a key is drawn.
fn span_of(source: &Source<'_>, key: &str) -> std::ops::Range<usize> {
    let found = entries(source).find(|(name, _)| name.get_ref() == key);
    found.map_or(0..0, |(name, _)| name.span())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;

    const RIGHT: &str = "\
title = 'A fleet'
shows = 'Nothing much.'
cpus = [2]
duration_ms = 5
[machine]
memory = '64 MiB'
[workload]
kind = 'steady'
[fleet.draw]
'workload.think_ns' = { least = 100, most = 200 }
'workload.blocks_per_cpu' = { least = 10, most = 1000 }
";

    fn parse(text: &str, set: &[&str]) -> Result<Plan, String> {
        let set = set.iter().map(|&change| change.to_owned()).collect();
        Plan::parse("my.toml", text, &Changes { set, ..Changes::default() }).map_err(|error| error.to_string())
    }

    fn drawn(key: &str, value: u64) -> DrawnValue {
        DrawnValue { key: key.to_owned(), value }
    }

    #[test]
    fn host_uses_drawn_and_planned_values() {
        let mut plan = parse(RIGHT, &["machine.memory=128 MiB"]).unwrap();
        plan.points[0].duration_ms = 3;
        let keys: Vec<_> = plan.draws.iter().map(|draw| (draw.key.as_str(), draw.least, draw.most)).collect();
        assert_eq!(keys, [("workload.blocks_per_cpu", 10, 1000), ("workload.think_ns", 100, 200)]);
        let host = plan.on_host(&[drawn("workload.think_ns", 123), drawn("workload.blocks_per_cpu", 45)]).unwrap();
        let Workload::Steady(steady) = &host.workload else { panic!("another workload") };
        assert_eq!((steady.think_ns, steady.blocks_per_cpu), (123, 45));
        assert_eq!((host.machine.memory.unwrap().to_string(), host.duration_ms), ("128 MiB".to_owned(), 3));
    }

    #[test]
    fn explicitly_set_values_are_not_drawn() {
        let plan = parse(RIGHT, &["workload.think_ns = 7"]).unwrap();
        assert_eq!(plan.draws.iter().map(|draw| draw.key.as_str()).collect::<Vec<_>>(), ["workload.blocks_per_cpu"]);
    }

    #[test]
    fn draw_mistakes_are_reported_before_a_run() {
        for (from, to, place, says) in [
            ("'workload.think_ns'", "'workload.thnik_ns'", "my.toml:10: `workload.thnik_ns`", "`think_ns` is meant"),
            ("'workload.think_ns'", "seeds", "my.toml:10: `fleet.draw.\"seeds\"`", "name a parameter"),
            ("least = 100,", "", "my.toml:10: `fleet.draw.workload.think_ns` lacks `least`", "add it"),
            ("least = 100", "least = 'few'", "my.toml:10: `fleet.draw.workload.think_ns.least`", "a whole number"),
            ("least = 100,", "least = 300,", "my.toml:10: `fleet.draw.\"workload.think_ns\"`", "exchange them"),
            ("most = 1000 }", "most = 100000 }", "my.toml:6: `machine.memory`", "the workload uses"),
            ("[fleet.draw]", "[fleet.drawn]", "my.toml:9: `fleet.drawn`", "perhaps `draw` is meant"),
        ] {
            assert!(RIGHT.contains(from), "{from}");
            let error = parse(&RIGHT.replace(from, to), &[]).expect_err(to);
            assert!(error.starts_with(place) && error.contains(says), "{to}: {error}");
            assert!(!error.contains('\n') && !error.ends_with('.'), "{to}: {error}");
        }
    }
}
