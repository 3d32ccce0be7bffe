//! `freehold replay FILE --policy NAME`: a recording through the engine under one policy.

use std::num::NonZeroU16;
use std::path::PathBuf;

use clap::Args;

use crate::error::Error;
use crate::output::JsonArgs;
use crate::terminal::Style;

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
pub fn run(_args: &ReplayArgs, _style: Style) -> Result<(), Error> {
    Err(Error::Input("replay is not built yet".to_owned()))
}
