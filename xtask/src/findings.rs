//! `cargo xtask findings`: writes the pages in `docs/findings`, by a program of its own that depends on the laboratory.

use std::path::PathBuf;

use crate::command;
use crate::error::Error;
use crate::workspace::cargo;

/// Arguments of `cargo xtask findings`.
#[derive(clap::Args)]
pub struct Args {
    /// Pages, as they are called in docs/findings, without `.md`; without any, all of them, which takes hours
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Measure next to nothing, to see that it runs; needs --out
    #[arg(long, requires = "out")]
    quick: bool,

    /// Write to DIR instead of docs/findings
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Builds the program as users would have it, and runs it.
pub fn run(args: &Args) -> Result<(), Error> {
    let mut command = cargo();
    command.args(["run", "--quiet", "--release", "--package", "freehold-findings", "--"]);
    command.args(args.quick.then_some("--quick"));
    if let Some(folder) = &args.out {
        // Cargo runs it at the workspace's root, and people name folders from where they are.
        command.arg("--out").arg(std::path::absolute(folder).unwrap_or_else(|_| folder.clone()));
    }
    command::run(command.arg("--").args(&args.names))
}
