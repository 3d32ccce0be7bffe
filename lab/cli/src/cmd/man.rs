//! `freehold man DIRECTORY`: writes the manual pages, one per command, for packagers.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Command};
use freehold_report::output::OutputError;

use crate::error::Error;

/// Arguments of `freehold man`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  freehold man man1 && man man1/freehold-compare.1")]
pub struct ManArgs {
    /// Directory for the pages; it is created if it does not exist
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// Writes `freehold.1`, `freehold-compare.1`, ... into the directory.
pub(crate) fn run(args: &ManArgs, command: Command) -> Result<(), Error> {
    fs::create_dir_all(&args.directory)
        .and_then(|()| clap_mangen::generate_to(command, &args.directory))
        .map_err(|source| OutputError::Write { path: args.directory.clone(), source }.into())
}
