//! placeholder
use crate::error::Error;
pub fn run() -> Result<(), Error> {
    Ok(())
}
