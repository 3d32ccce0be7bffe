//! placeholder
use crate::error::Error;
use clap::Args as ClapArgs;
#[derive(ClapArgs)]
pub struct Args {}
pub fn run(_args: &Args) -> Result<(), Error> {
    Ok(())
}
