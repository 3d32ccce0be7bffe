//! `freehold record`: this machine's page events while a command runs.

use clap::Args;

use crate::error::Error;

/// Arguments of `freehold record`.
#[derive(Debug, Args)]
pub struct RecordArgs {}

/// Records.
pub fn run(_args: RecordArgs) -> Result<(), Error> {
    Err(Error::Input("record is not built yet".to_owned()))
}
