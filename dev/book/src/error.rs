//! What can go wrong with the book, as one sentence.

use std::io;
use std::path::{Path, PathBuf};

use mdbook_driver::errors::Error as BuilderError;

/// Why there is no book, or none to trust.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// mdBook refuses the book. It gives a chain of reasons, the outermost first.
    #[error("the book cannot be built: {0:#}")]
    Builder(BuilderError),
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The book was built, and some of its links are dead.
    #[error("{count} of {links} links lead nowhere; they stand above")]
    DeadLinks {
        /// How many are dead.
        count: usize,
        /// How many there are.
        links: usize,
    },
}

/// Turns an I/O error about `path` into ours; for `map_err`.
pub(crate) fn on_file(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { path, source }
}
