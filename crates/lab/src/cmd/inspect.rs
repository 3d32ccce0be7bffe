//! `freehold inspect FILE`: what a recording contains.

use std::path::PathBuf;

use clap::Args;
use freehold_measure::output::{self, JsonArgs};
use freehold_measure::terminal::Style;

use crate::error::Error;

/// Arguments of `freehold inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The recording
    #[arg(value_name = "FILE")]
    recording: PathBuf,

    #[command(flatten)]
    json: JsonArgs,
}

/// Reads the recording once and prints what it contains.
pub fn run(args: &InspectArgs, style: Style) -> Result<(), Error> {
    let inspection = freehold_inspect::inspect(&args.recording)?;
    Ok(output::emit(&inspection, &args.json, style)?)
}
