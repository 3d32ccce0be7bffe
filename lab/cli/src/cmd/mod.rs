//! One file a command: its arguments, and how it is answered.

pub mod advise;
pub mod age;
pub mod apply;
pub mod bench;
pub mod boot;
pub mod calibrate;
pub mod compare;
pub mod completions;
pub mod diff;
#[cfg(feature = "disasm")]
pub mod disasm;
pub mod events;
pub mod export;
pub mod fleet;
mod flight;
pub mod guest;
pub mod heap;
pub mod import;
pub mod inspect;
pub mod man;
pub mod map;
pub mod policies;
pub mod record;
mod recorded;
pub mod replay;
pub mod run;
pub mod sim;
pub mod snapshot;
pub mod sweep;

use std::num::NonZeroU16;

use clap::Args;
use clap::builder::RangedI64ValueParser;
use freehold_replay::Setting;
use freehold_sim::plan::{Bytes, BytesError};
use freehold_sim::start::age::AGE_MAX;

use crate::error::Error;

/// Most CPUs that a replay can have.
const CPUS_MAX: u16 = 512;

/// The option `--cpus`, shared by the commands that replay.
#[derive(Clone, Copy, Debug, Args)]
pub struct SpreadArgs {
    /// Spread the recorded tasks over N CPUs (1 to 512) instead of leaving each event on its recorded CPU
    #[arg(long, value_name = "N", value_parser = parse_cpus)]
    pub cpus: Option<NonZeroU16>,
}

/// Refuses what is given twice: it would count twice, or one of the two not at all.
fn expect_each_once<T: PartialEq>(what: &str, given: impl IntoIterator<Item = T>) -> Result<(), Error> {
    let given: Vec<T> = given.into_iter().collect();
    match (1..given.len()).any(|at| given[..at].contains(&given[at])) {
        true => Err(Error::Input(format!("the same {what} is given twice; give each once"))),
        false => Ok(()),
    }
}

/// A margin that was given in percent, as a share.
fn margin(percent: f64) -> Result<f64, Error> {
    let share = percent / 100.0;
    if (0.0..1.0).contains(&share) {
        return Ok(share);
    }
    Err(Error::Input(format!("the margin cannot be {percent} %; give a percentage from 0 to below 100")))
}

/// The settings that were given, each once.
fn parse_settings(given: &[String]) -> Result<Vec<Setting>, Error> {
    let settings = given.iter().map(|text| text.parse().map_err(Error::Input));
    let settings: Vec<Setting> = settings.collect::<Result<_, _>>()?;
    expect_each_once("setting", settings.iter().map(Setting::name))?;
    Ok(settings)
}

/// Settings as they were written.
fn in_words(settings: &[Setting]) -> Vec<String> {
    settings.iter().map(Setting::to_string).collect()
}

/// A size of memory, as it was typed.
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
