//! The commands, one file each: their arguments and their execution.

pub(crate) mod advise;
pub(crate) mod age;
mod anonymize;
pub(crate) mod apply;
pub(crate) mod bench;
pub(crate) mod boot;
pub(crate) mod calibrate;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod diff;
#[cfg(feature = "disasm")]
pub(crate) mod disasm;
pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod fleet;
mod flight;
pub(crate) mod guest;
pub(crate) mod heap;
pub(crate) mod import;
mod inputs;
pub(crate) mod inspect;
pub(crate) mod man;
pub(crate) mod map;
pub(crate) mod policies;
pub(crate) mod reclaim;
pub(crate) mod record;
mod recorded;
mod replace;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod sim;
pub(crate) mod snapshot;
pub(crate) mod sweep;

use std::num::NonZeroU16;

use clap::Args;
use clap::builder::RangedI64ValueParser;
use freehold_replay::{SETTINGS, Setting};
use freehold_sim::plan::{Bytes, BytesError};
use freehold_sim::start::age::AGE_MAX;

use crate::error::Error;

/// Maximum CPUs of a replay or of a simulated machine.
const CPUS_MAX: u16 = 512;

/// The option `--cpus`, shared by the commands that replay.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct SpreadArgs {
    /// Spread the recorded tasks over N CPUs (1 to 512) instead of leaving each event on its recorded CPU
    #[arg(long, value_name = "N", value_parser = parse_cpus)]
    pub cpus: Option<NonZeroU16>,
}

/// Refuses duplicates: a duplicate would be counted twice, or one of the two would be ignored.
fn expect_each_once<T: PartialEq>(what: &str, given: impl IntoIterator<Item = T>) -> Result<(), Error> {
    let given: Vec<T> = given.into_iter().collect();
    match (1..given.len()).any(|at| given[..at].contains(&given[at])) {
        true => Err(Error::Input(format!("the same {what} is given twice; give each once"))),
        false => Ok(()),
    }
}

/// Converts a margin from percent into a share. Returns an error unless it is at least 0 % and less than 100 %.
fn margin(percent: f64) -> Result<f64, Error> {
    let share = percent / 100.0;
    if (0.0..1.0).contains(&share) {
        return Ok(share);
    }
    Err(Error::Input(format!("the margin cannot be {percent} %; give a percentage from 0 to less than 100")))
}

/// Parses settings, each of which may be given once.
fn parse_settings(given: &[String]) -> Result<Vec<Setting>, Error> {
    let settings = given.iter().map(|text| text.parse().map_err(Error::Input));
    let settings: Vec<Setting> = settings.collect::<Result<_, _>>()?;
    expect_each_once("setting", settings.iter().map(Setting::name))?;
    Ok(settings)
}

/// Returns the end of a help text: its examples, and the settings that a replay can change.
fn help_with_settings(examples: &str) -> String {
    let rows = SETTINGS.iter().map(|known| format!("  {:<34}{}", known.name, known.accepted()));
    let rows: Vec<String> = rows.collect();
    format!("Settings (docs/commands.md has their effects):\n{}\n\n{examples}", rows.join("\n"))
}

/// Formats settings as they are written on the command line.
fn in_words(settings: &[Setting]) -> Vec<String> {
    settings.iter().map(Setting::to_string).collect()
}

/// Checks that a text is a size of memory, and returns the text unchanged.
fn parse_memory(text: &str) -> Result<String, BytesError> {
    text.parse().map(|_: Bytes| text.to_owned())
}

fn parse_age() -> RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(0..=AGE_MAX.into())
}

fn parse_cpus(text: &str) -> Result<NonZeroU16, String> {
    let cpus = text.parse().ok().filter(|cpus: &NonZeroU16| cpus.get() <= CPUS_MAX);
    cpus.ok_or_else(|| format!("give a number of CPUs from 1 to {CPUS_MAX}"))
}
