//! `cargo xtask findings` and `cargo xtask oracle`: builds and runs separate programs.
//!
//! They are separate because they depend on the laboratory, and this program does not.

use std::ffi::OsString;

use crate::command;
use crate::error::Error;
use crate::workspace::{cargo_here, root};

/// Arguments of such a program, passed on unchanged; the program prints its own help.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Arguments of the program: see its `--help`
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Builds the program in `folder` with `profile`, and runs it in the caller's folder, so that relative paths are the
/// caller's.
fn run(folder: &str, profile: &str, args: &Args) -> Result<(), Error> {
    let mut command = cargo_here();
    command.args(["run", "--quiet", "--profile", profile, "--manifest-path"]);
    command.arg(root().join(folder).join("Cargo.toml"));
    command::run(command.arg("--").args(&args.arguments))
}

/// Writes the pages in `docs/findings`. Their times are measured with the profile `dist`.
///
/// # Errors
/// Returns an error if the program cannot be built, or fails.
pub(crate) fn findings(args: &Args) -> Result<(), Error> {
    run("dev/findings", "dist", args)
}

/// Compares the engine with real kernels. Builds `freehold` as users run it first, because it makes the recordings.
///
/// # Errors
/// Returns an error if a program cannot be built, or fails.
pub(crate) fn oracle(args: &Args) -> Result<(), Error> {
    let mut build = cargo_here();
    build.args(["build", "--quiet", "--release", "--manifest-path"]).arg(root().join("lab/cli/Cargo.toml"));
    command::run(&mut build)?;
    run("dev/validate", "release", args)
}
