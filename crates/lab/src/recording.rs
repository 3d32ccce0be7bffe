//! Recordings as files that commands are given: opening one, and finding the bundled ones.

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use freehold_trace::Reader;

use crate::error::Error;
use crate::kernel::Release;
use crate::report::comparison::RecordingFacts;

/// The bundled recordings of a real host.
const BUNDLED: [&str; 2] = ["recordings/build.parquet", "recordings/pressure.parquet"];

/// An open recording of a known kernel.
pub struct Recording {
    /// The file as it was named.
    pub path: PathBuf,
    /// Its reader.
    pub reader: Reader,
    /// The recorded kernel.
    pub release: Release,
}

impl Recording {
    /// Opens a recording.
    ///
    /// # Errors
    /// When the file is no readable recording, or of a kernel that is not known.
    pub fn open(path: &Path) -> Result<Recording, Error> {
        let reader = Reader::open(path)?;
        let release = Release::parse(&reader.facts().kernel_release);
        let release = release.ok_or_else(|| Error::UnknownKernel {
            path: path.to_path_buf(),
            release: reader.facts().kernel_release.clone(),
        })?;
        Ok(Recording { path: path.to_path_buf(), reader, release })
    }

    /// The recording in short, as it will be replayed on `cpus` CPUs or on its own.
    pub fn facts(&self, cpus: Option<NonZeroU16>) -> RecordingFacts {
        let facts = self.reader.facts();
        RecordingFacts {
            file: self.path.display().to_string(),
            kernel_release: facts.kernel_release.clone(),
            cpus: facts.cpus,
            replay_cpus: cpus.map_or(facts.cpus, NonZeroU16::get),
            duration_seconds: facts.duration as f64 / 1e9,
            rows: self.reader.row_count(),
        }
    }
}

/// The bundled recordings: below the current folder, or in the source tree that this program was built from.
///
/// # Errors
/// When one of them is in neither place.
pub fn bundled() -> Result<Vec<PathBuf>, Error> {
    let source_tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    BUNDLED.iter().map(|name| find(name, &source_tree)).collect()
}

fn find(name: &str, source_tree: &Path) -> Result<PathBuf, Error> {
    let here = PathBuf::from(name);
    if here.is_file() {
        return Ok(here);
    }
    let there = source_tree.join(name).canonicalize();
    there.map_err(|_| {
        let sentence = "the bundled recordings are not here; name a file that `freehold record` made, or run in the \
                        source tree of freehold";
        Error::Input(sentence.to_owned())
    })
}
