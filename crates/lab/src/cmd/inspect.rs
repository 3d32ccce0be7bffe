//! `freehold inspect FILE`: what a recording contains.

use std::path::PathBuf;

use clap::Args;

use crate::error::Error;
use crate::inspect;
use crate::output::{self, JsonArgs};
use crate::terminal::Style;

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
    let inspection = inspect::inspect(&args.recording)?;
    output::emit(&inspection, &args.json, style)
}
