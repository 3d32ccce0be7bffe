//! `freehold replay FILE --policy NAME`: a recording through the engine under one policy.

use std::num::NonZeroU16;
use std::path::PathBuf;

use clap::Args;

use crate::error::Error;
use crate::output::{self, JsonArgs};
use crate::progress::Progress;
use crate::recording::Recording;
use crate::report::single::ReplayReport;
use crate::terminal::Style;
use crate::{registry, replay};

/// Arguments of `freehold replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The recording
    #[arg(value_name = "FILE")]
    recording: PathBuf,

    /// The policy, as SET[,field=value...]; `freehold policies` lists them
    #[arg(long, value_name = "NAME")]
    policy: String,

    /// Spread the recorded tasks over this many CPUs instead of the recorded ones
    #[arg(long, value_name = "N")]
    cpus: Option<NonZeroU16>,

    #[command(flatten)]
    json: JsonArgs,
}

/// Replays the recording and prints what happened, and how near that is to the recorded kernel.
pub fn run(args: &ReplayArgs, style: Style) -> Result<(), Error> {
    let policy = registry::parse(&args.policy)?;
    let recording = Recording::open(&args.recording)?;
    let progress = Progress::new(format!("replaying under {}", policy.name), recording.reader.row_count());
    let mut outcome = replay::run(&replay::Request {
        recording: &args.recording,
        policy: &policy,
        cpus: args.cpus,
        progress: &progress,
    })?;
    drop(progress);
    outcome.assumptions.extend(recording.release.differences());
    let report = ReplayReport { recording: recording.facts(args.cpus), outcome };
    output::emit(&report, &args.json, style)
}
