//! The option `--anonymize` of the commands that record this machine.

use clap::Args;
use freehold_trace::anonymize::Identity;

/// The option `--anonymize`, shared by the commands that record this machine.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct AnonymizeArgs {
    /// Replace names of tasks, the command, slab caches and kernel functions by numbers before the file is written
    #[arg(long)]
    anonymize: bool,
}

impl AnonymizeArgs {
    /// Returns the treatment of names when the file is written.
    pub(super) fn identity(self) -> Identity {
        if self.anonymize { Identity::Removed } else { Identity::Kept }
    }
}
