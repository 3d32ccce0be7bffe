//! `freehold man DIRECTORY`: the manual pages, one a command, for packagers.

use std::path::PathBuf;

use clap::{Args, CommandFactory};
use freehold_measure::output::OutputError;

use crate::cli::Cli;
use crate::error::Error;

/// Arguments of `freehold man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The directory that receives the pages; it must exist
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// Writes `freehold.1`, `freehold-compare.1`, ... into the directory.
pub fn run(args: &ManArgs) -> Result<(), Error> {
    clap_mangen::generate_to(Cli::command(), &args.directory)
        .map_err(|source| OutputError::Write { path: args.directory.clone(), source }.into())
}
