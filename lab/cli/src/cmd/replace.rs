//! Protection of existing recordings: a command that writes a recording replaces an older file only with `--force`.

use std::path::Path;

use clap::Args;

use crate::error::Error;

/// The option `--force`, shared by the commands that write a recording.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct ReplaceArgs {
    /// Replace an existing file, once the new file is complete
    #[arg(long)]
    force: bool,
}

impl ReplaceArgs {
    /// Checks that `out` may be written. Commands call this before the work starts.
    ///
    /// # Errors
    /// If the file exists and `--force` is not given. Devices and pipes are not replaced, so they are accepted here.
    pub(crate) fn check(self, out: &Path) -> Result<(), Error> {
        match out.is_file() && !self.force {
            true => Err(Error::Exists(out.to_path_buf())),
            false => Ok(()),
        }
    }
}
