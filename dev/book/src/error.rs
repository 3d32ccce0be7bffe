//! Errors of building the book, each with a message of one sentence.

use std::io;
use std::path::{Path, PathBuf};

use mdbook_driver::errors::Error as BuilderError;

/// Reason for which the book was not built, or is faulty.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// mdBook refuses the book. The error is a chain of reasons, outermost first.
    #[error("cannot build the book: {0:#}")]
    Builder(BuilderError),
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The book was built, and some of its links are dead.
    #[error("{count} of {links} links have no target; see the list above")]
    DeadLinks {
        /// Number of dead links.
        count: usize,
        /// Number of all links.
        links: usize,
    },
}

/// Returns a function that turns an I/O error about `path` into an [`Error::File`], for `map_err`.
pub(crate) fn on_file(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { path, source }
}
