//! Sizes of pages that a hog asks for.

use clap::ValueEnum;

/// What pages a hog asks for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Pages {
    /// Base pages only.
    Small,
    /// Transparent huge pages where possible.
    Huge,
}
