//! `cargo xtask findings`: writes the pages in `docs/findings`, by a program of its own that depends on the laboratory.

use std::ffi::OsString;

use crate::command;
use crate::error::Error;
use crate::workspace::{cargo_here, root};

/// Arguments of `cargo xtask findings`: the program has them, and their help.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// What the program is given: see `cargo xtask findings --help`
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Builds the program as users would have it, and runs it where we were called, from where people name folders.
pub fn run(args: &Args) -> Result<(), Error> {
    let mut command = cargo_here();
    command.args(["run", "--quiet", "--release", "--manifest-path"]).arg(root().join("crates/findings/Cargo.toml"));
    command::run(command.arg("--").args(&args.arguments))
}
