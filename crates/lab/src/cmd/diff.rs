//! `freehold diff REC1 REC2`: two recordings of real machines side by side.

use std::path::PathBuf;

use clap::Args;
use freehold_inspect::{diff, inspect};
use freehold_measure::formats::Formats;
use freehold_measure::terminal::Style;

use crate::error::Error;

/// Arguments of `freehold diff`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  freehold diff before.parquet after.parquet\n  \
                        freehold diff before.parquet after.parquet --markdown diff.md")]
pub struct DiffArgs {
    /// The first recording
    #[arg(value_name = "REC1")]
    first: PathBuf,

    /// The second recording
    #[arg(value_name = "REC2")]
    second: PathBuf,

    #[command(flatten)]
    formats: Formats,
}

/// Reads both recordings and prints them side by side.
pub fn run(args: &DiffArgs, style: Style) -> Result<(), Error> {
    args.formats.try_all([args.first.as_path(), &args.second])?;
    let first = inspect(&args.first)?;
    let second = inspect(&args.second)?;
    Ok(args.formats.emit(&diff::differ(&first, &second), style)?)
}
