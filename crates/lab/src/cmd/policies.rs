//! `freehold policies`: the policies by name, and how to change one.

use clap::Args;

use crate::error::Error;
use crate::output::JsonArgs;
use crate::terminal::Style;

/// Arguments of `freehold policies`.
#[derive(Debug, Args)]
pub struct PoliciesArgs {
    #[command(flatten)]
    json: JsonArgs,
}

/// Prints the registry.
pub fn run(_args: &PoliciesArgs, _style: Style) -> Result<(), Error> {
    Err(Error::Input("policies is not built yet".to_owned()))
}
