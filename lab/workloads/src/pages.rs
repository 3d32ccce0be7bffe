//! Page sizes of a hog.

use clap::ValueEnum;

/// Page size of a hog.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Pages {
    /// Base pages only.
    Small,
    /// Transparent huge pages where possible.
    Huge,
}
