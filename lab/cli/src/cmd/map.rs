//! `freehold map FILE`: shows memory under a policy at one moment, pageblock by pageblock, or the frames of one
//! pageblock.
//!
//! This is the terminal's counterpart of the map in a page. The page has the frames of the blocks that differ most;
//! this command shows those of any block at any moment. `freehold inspect --map` prints the recorded kernel's memory.

use std::borrow::Cow;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use freehold_replay::report::view::{CourseView, PolicyCourse};
use freehold_replay::{Conditions, PreparedReplay, Watch};
use freehold_report::formats::{Document, Formats};
use freehold_report::origin;
use freehold_report::progress::Progress;
use freehold_report::report::Report;
use freehold_report::report::map::{MemoryMap, terminal};
use freehold_report::terminal::Style;
use freehold_trace::recording::Recording;
use serde::{Serialize, Serializer};

use super::reclaim::ReclaimArgs;
use super::{SpreadArgs, help_with_settings, parse_settings};
use crate::error::Error;

/// Arguments of `freehold map`.
#[derive(Debug, Args)]
#[command(after_help = help_with_settings("Examples:\n  freehold map recording.parquet --policy freehold\n  \
                        freehold map recording.parquet --at 1.5s --block 2377\n  \
                        freehold map recording.parquet --html map.html"))]
pub struct MapArgs {
    /// Recording
    #[arg(value_name = "FILE")]
    recording: PathBuf,

    /// Policy, as SET[,field=value...] [default: the rules nearest to the recorded kernel]
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,

    /// Time since the start of the recording, for example 1.5s or 300ms [default: the end]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    at: Option<u64>,

    /// Print only the frames of pageblock N of the map
    #[arg(long, value_name = "N")]
    block: Option<usize>,

    /// Kernel setting instead of the recorded one, such as vm.min_free_kbytes=65536; may be repeated
    #[arg(long = "setting", value_name = "NAME=VALUE")]
    settings: Vec<String>,

    #[command(flatten)]
    spread: SpreadArgs,

    #[command(flatten)]
    reclaim: ReclaimArgs,

    #[command(flatten)]
    formats: Formats,
}

/// Replays the recording until the given moment, and prints the state of memory at that moment.
pub(crate) fn run(args: &MapArgs, style: Style) -> Result<(), Error> {
    args.formats.try_all([args.recording.as_path()])?;
    let recording = Recording::open(&args.recording)?;
    let rules = args.policy.as_deref().unwrap_or(recording.release.rules());
    let policy = freehold_policies::parse(rules)?;
    let prepared = PreparedReplay::new(&recording.reader, args.reclaim.reclaim)?;
    let watch = Watch::Moment { time: args.at.unwrap_or(u64::MAX), block: args.block };
    let progress = Progress::new(format!("replaying under {}", policy.name), recording.reader.row_count());
    let settings = parse_settings(&args.settings)?;
    let conditions = Conditions { cpus: args.spread.cpus, pacing: args.reclaim.pacing, watch, settings: &settings };
    let mut outcome = prepared.replay(&policy.name, policy.policy, conditions, |events| progress.advance(events))?;
    drop(progress);
    let file = recording.facts(args.spread.cpus).file;
    outcome.course.set_command(|| command(&file, &policy.name, args.reclaim, &conditions));
    let sides = [PolicyCourse { name: &policy.name, course: &outcome.course }];
    let map = CourseView { recording: &file, sides: &sides }.map().expect("`Watch::Moment` records a map");
    Ok(args.formats.emit(&Printed::new(map, args.block)?, style)?)
}

/// Returns the command that prints a map of the same replay. It contains `{time}` in place of the moment.
pub(crate) fn command(file: &str, policy: &str, reclaim: ReclaimArgs, conditions: &Conditions<'_>) -> String {
    let mut words = vec!["map".to_owned(), file.to_owned(), "--policy".to_owned(), policy.to_owned()];
    words.extend(conditions.cpus.map(|cpus| format!("--cpus={cpus}")));
    words.extend(conditions.settings.iter().map(|setting| format!("--setting={setting}")));
    let named = [("--reclaim", value_name(reclaim.reclaim)), ("--pace", value_name(reclaim.pacing))];
    words.extend(named.into_iter().filter_map(|(option, value)| Some(format!("{option}={}", value?))));
    words.extend(["--at".to_owned(), "{time}".to_owned()]);
    origin::command_of(words.iter().map(String::as_str))
}

/// Returns the name of an option's value; `None` if it is the default.
fn value_name<V: ValueEnum + Default + PartialEq>(value: V) -> Option<String> {
    let is_usual = value == V::default();
    value.to_possible_value().filter(|_| !is_usual).map(|value| value.get_name().to_owned())
}

/// A map for printing: all of it, or one block.
#[derive(Debug)]
pub(crate) struct Printed {
    map: MemoryMap,
    block: Option<usize>,
}

impl Printed {
    /// Returns the whole map, or the frames of one block.
    ///
    /// # Errors
    /// If there is no such block.
    pub(crate) fn new(map: MemoryMap, block: Option<usize>) -> Result<Printed, Error> {
        match block.filter(|&block| map.first_frame(block).is_none()) {
            None => Ok(Printed { map, block }),
            Some(block) => Err(Error::Input(format!(
                "there is no pageblock {block} in {}; give a number from 0 to {}",
                map.of,
                map.len().saturating_sub(1)
            ))),
        }
    }
}

impl Serialize for Printed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Block<'m> {
            #[serde(flatten)]
            map: &'m MemoryMap,
            block: usize,
            first_frame: Option<u64>,
            frames: Vec<&'m [freehold_report::report::map::frames::Run]>,
        }
        let Some(block) = self.block else { return self.map.serialize(serializer) };
        let frames = self.map.sides.iter().map(|side| side.frames.get(block as u32).unwrap_or_default());
        let first_frame = self.map.first_frame(block);
        Block { map: &self.map, block, first_frame, frames: frames.collect() }.serialize(serializer)
    }
}

impl Document for Printed {
    fn reports(&self) -> Cow<'_, [Report]> {
        let subject = vec![self.map.title()];
        Cow::Owned(vec![Report { subject, maps: vec![self.map.clone()], ..Report::default() }])
    }

    fn text(&self, style: Style) -> String {
        let mut parts = Vec::new();
        for side in &self.map.sides {
            match self.block {
                Some(block) => parts.extend(terminal::block(&self.map, side, block)),
                None => parts
                    .extend((0..self.map.moments.len()).map(|moment| terminal::moment(&self.map, side, moment, style))),
            }
        }
        if self.block.is_none() {
            parts.push(terminal::legend(&self.map, style));
        }
        parts.join("\n")
    }
}

/// Parses a time since the start of the recording, and returns nanoseconds. A number without a unit is in seconds.
fn parse_time(text: &str) -> Result<u64, String> {
    let units = [("ms", 1e6), ("us", 1e3), ("ns", 1.0), ("s", 1e9), ("", 1e9)];
    let parsed = units.iter().find_map(|(unit, ns)| Some(text.strip_suffix(unit)?.trim().parse::<f64>().ok()? * ns));
    let valid = parsed.filter(|ns| ns.is_finite() && *ns >= 0.0);
    valid.map(|ns| ns as u64).ok_or_else(|| format!("`{text}` is not a time; write it like 1.5s or 300ms"))
}
