//! The bundled recordings of a real host, and where they lie.

use std::path::{Path, PathBuf};

/// Those that are compared by default.
const BUNDLED: [&str; 2] = ["recordings/build.parquet", "recordings/pressure.parquet"];

/// They are in no place where they are looked for.
#[derive(Debug, thiserror::Error)]
#[error(
    "the bundled recordings are not here; name a file that `freehold record` made, or run in the source tree of freehold"
)]
pub struct NotHere;

/// The bundled recordings: below the current folder, or in the source tree that this program was built from.
///
/// # Errors
/// When one of them is in neither place.
pub fn bundled() -> Result<Vec<PathBuf>, NotHere> {
    let source_tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    BUNDLED.iter().map(|name| find(name, &source_tree)).collect()
}

fn find(name: &str, source_tree: &Path) -> Result<PathBuf, NotHere> {
    let here = PathBuf::from(name);
    if here.is_file() { Ok(here) } else { source_tree.join(name).canonicalize().map_err(|_| NotHere) }
}
