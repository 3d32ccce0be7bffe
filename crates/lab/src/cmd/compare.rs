//! `freehold compare`: recordings through the engine under policy A and under each policy B.

use std::num::NonZeroU16;
use std::path::PathBuf;

use clap::Args;

use crate::error::Error;
use crate::output::JsonArgs;
use crate::terminal::Style;

/// Arguments of `freehold compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The recordings; without any, the two bundled ones of a real host
    #[arg(value_name = "FILE")]
    recordings: Vec<PathBuf>,

    /// Policy A, as SET[,field=value...]; `freehold policies` lists them
    #[arg(long, value_name = "NAME", default_value = "linux-6.12")]
    a: String,

    /// Policy B; may be given several times
    #[arg(long, value_name = "NAME", default_value = "freehold")]
    b: Vec<String>,

    /// Spread the recorded tasks over this many CPUs instead of the recorded ones
    #[arg(long, value_name = "N")]
    cpus: Option<NonZeroU16>,

    #[command(flatten)]
    json: JsonArgs,
}

/// Replays every recording under every policy and prints what changed.
pub fn run(_args: &CompareArgs, _style: Style) -> Result<(), Error> {
    Err(Error::Input("compare is not built yet".to_owned()))
}
