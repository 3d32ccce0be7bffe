//! `freehold diff REC1 REC2`: two recordings of real machines side by side.

use std::path::PathBuf;

use clap::Args;

use crate::error::Error;
use crate::output::JsonArgs;
use crate::terminal::Style;

/// Arguments of `freehold diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The first recording
    #[arg(value_name = "REC1")]
    first: PathBuf,

    /// The second recording
    #[arg(value_name = "REC2")]
    second: PathBuf,

    #[command(flatten)]
    json: JsonArgs,
}

/// Reads both recordings and prints them side by side.
pub fn run(_args: &DiffArgs, _style: Style) -> Result<(), Error> {
    Err(Error::Input("diff is not built yet".to_owned()))
}
