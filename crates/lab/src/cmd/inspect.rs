//! `freehold inspect FILE`: what a recording contains.

use std::path::PathBuf;

use clap::Args;
use freehold_measure::formats::Formats;
use freehold_measure::terminal::Style;

use crate::error::Error;

/// Arguments of `freehold inspect`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  freehold inspect recording.parquet\n  \
                        freehold inspect recording.parquet --csv tables.csv")]
pub struct InspectArgs {
    /// The recording
    #[arg(value_name = "FILE")]
    recording: PathBuf,

    #[command(flatten)]
    formats: Formats,
}

/// Reads the recording once and prints what it contains.
pub fn run(args: &InspectArgs, style: Style) -> Result<(), Error> {
    args.formats.try_all([args.recording.as_path()])?;
    let inspection = freehold_inspect::inspect(&args.recording)?;
    Ok(args.formats.emit(&inspection, style)?)
}
