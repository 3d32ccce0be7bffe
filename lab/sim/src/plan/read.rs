//! Conversion of the tables of a source to a plan, with checks of required keys, optional keys and values.

use freehold_policies::NamedPolicy;
use serde::Deserialize;
use toml::Spanned;
use toml::de::DeValue;

use super::draws;
use super::error::PlanError;
use super::head::{Head, read_head};
use super::model::{Changes, Outline, Plan, Point};
use super::point::{is_parameter, read_point};
use super::source::{Source, Value};
use crate::CPUS_MAX;

/// Maximum number of seeds of a plan.
const SEEDS_MAX: u32 = 1000;

/// The table `[sweep]`: a parameter that takes one value after the other.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SweepKey {
    key: Spanned<String>,
    #[serde(rename = "values")]
    _values: Vec<toml::Value>,
}

/// Reads the whole plan, except its name, text and changes, which the caller fills in.
pub(super) fn read_plan(source: &Source<'_>, changes: &Changes) -> Result<Plan, PlanError> {
    let head = read_head(source)?;
    let cpus = if changes.cpus.is_empty() { read_cpus(source, &head)? } else { sorted(&changes.cpus) };
    let seeds = changes.seeds.unwrap_or(head.seeds);
    if !(1..=SEEDS_MAX).contains(&seeds) {
        return Err(source.unfit("seeds", format!("is {seeds}; give a number of runs from 1 to {SEEDS_MAX}")));
    }
    let (swept, sources) = read_sweep(source)?;
    let points: Result<Vec<Point>, PlanError> =
        sources.iter().map(|(value, source)| read_point(source, value.clone(), &cpus)).collect();
    let policies = read_policies(source, &head, changes)?;
    let draws = draws::read_draws(source, changes, &cpus)?;
    let (title, shows) = (head.title, head.shows.trim().to_owned());
    Ok(Plan {
        name: String::new(),
        title,
        shows,
        cpus,
        policies,
        seeds,
        swept,
        points: points?,
        draws,
        text: String::new(),
        changes: Vec::new(),
    })
}

/// Reads the outline of a plan.
pub(super) fn read_outline(source: &Source<'_>) -> Result<Outline, PlanError> {
    let head = read_head(source)?;
    Ok(Outline { title: head.title, shows: head.shows.trim().to_owned(), cpus: head.cpus })
}

fn read_cpus(source: &Source<'_>, head: &Head) -> Result<Vec<u16>, PlanError> {
    let range = format!("give numbers of CPUs from 1 to {CPUS_MAX}");
    match head.cpus.iter().find(|cpus| !(1..=CPUS_MAX).contains(cpus)) {
        Some(0) => Err(source.unfit("cpus", format!("contains 0; {range}"))),
        Some(many) => Err(source.unfit("cpus", format!("contains {many}, which is too many; {range}"))),
        None if head.cpus.is_empty() => Err(source.unfit("cpus", format!("is empty; {range}"))),
        None => Ok(sorted(&head.cpus)),
    }
}

/// Returns the numbers in ascending order, without duplicates.
fn sorted(cpus: &[u16]) -> Vec<u16> {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
}

/// Reads policy A, and the policies B without duplicates.
fn read_policies(source: &Source<'_>, head: &Head, changes: &Changes) -> Result<Vec<NamedPolicy>, PlanError> {
    let rivals = if changes.b.is_empty() { &head.b } else { &changes.b };
    let mut policies = vec![parse_policy(source, "a", changes.a.as_ref().unwrap_or(&head.a))?];
    for name in rivals {
        let rival = parse_policy(source, "b", name)?;
        if policies.iter().all(|policy| policy.name != rival.name) {
            policies.push(rival);
        }
    }
    Ok(policies)
}

/// Parses the name of a policy that is the value of this key.
fn parse_policy(source: &Source<'_>, key: &str, name: &str) -> Result<NamedPolicy, PlanError> {
    freehold_policies::parse(name).map_err(|error| source.unfit(key, format!("is not a policy: {error}")))
}

/// The swept key, and the plan with each of its values in place.
type SweepSources<'t> = (Option<String>, Vec<(Option<String>, Source<'t>)>);

fn read_sweep<'t>(source: &Source<'t>) -> Result<SweepSources<'t>, PlanError> {
    let Some(table) = source.table().get("sweep") else { return Ok((None, vec![(None, source.clone())])) };
    let SweepKey { key, .. } = source.read("sweep", table.clone(), &[])?;
    let place = key.span();
    let key = key.into_inner();
    if !is_parameter(&key) {
        let sentence =
            format!("cannot be `{key}`; name a parameter of the workload or of the machine, as in `workload.think_ns`");
        return Err(source.unfit("sweep.key", sentence));
    }
    let values = table.get_ref().get("values").and_then(|values| values.get_ref().as_array());
    let values: Vec<&Value<'t>> = values.into_iter().flatten().collect();
    if values.is_empty() {
        return Err(source.unfit("sweep.values", "is empty; give a list of values for the key"));
    }
    let mut sources = Vec::with_capacity(values.len());
    for value in values {
        sources.push((Some(value_text(value.get_ref())), source.with(&key, place.clone(), value)?));
    }
    Ok((Some(key), sources))
}

/// Formats a value without quotes.
fn value_text(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) | DeValue::Table(_) => "...".to_owned(),
    }
}
