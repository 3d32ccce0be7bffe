//! Bundled recordings of a real host. They are compiled into the program, so they are available wherever it runs.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;

use rustix::fs::{MemfdFlags, memfd_create};

/// Recording that is compiled into the program.
#[derive(Debug)]
pub struct Bundled {
    /// Path of the file in the source tree.
    pub name: &'static str,
    bytes: &'static [u8],
}

/// Includes the recording in the file of this name.
macro_rules! bundled {
    ($name:literal) => {
        Bundled { name: concat!("recordings/", $name), bytes: include_bytes!(concat!("../", $name)) }
    };
}

/// Recordings of a host at work, on which policies are compared.
pub static BUNDLED: [Bundled; 2] = [bundled!("build.parquet"), bundled!("pressure.parquet")];
/// Recordings of a server under several mallocs, which the plan `mallocs` plays.
pub static MALLOCS: [Bundled; 3] =
    [bundled!("malloc-jemalloc.parquet"), bundled!("malloc-tcmalloc.parquet"), bundled!("malloc-glibc.parquet")];

impl Bundled {
    /// Finds the recording whose name ends with a path.
    pub fn find(path: &Path) -> Option<&'static Bundled> {
        path.file_name()?;
        Bundled::iter().find(|bundled| Path::new(bundled.name).ends_with(path))
    }

    /// Iterates over all bundled recordings.
    pub fn iter() -> impl Iterator<Item = &'static Bundled> {
        BUNDLED.iter().chain(&MALLOCS)
    }

    /// Returns the recording as an open in-memory file, which takes as much memory as the recording.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub fn open(&self) -> io::Result<File> {
        let mut file = File::from(memfd_create(self.name, MemfdFlags::CLOEXEC)?);
        file.write_all(self.bytes)?;
        file.rewind()?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn bundled_recordings_are_found_by_path_suffix() {
        for (path, name) in [
            ("build.parquet", Some("recordings/build.parquet")),
            ("recordings/pressure.parquet", Some("recordings/pressure.parquet")),
            ("malloc-glibc.parquet", Some("recordings/malloc-glibc.parquet")),
            ("parquet", None),
            ("", None),
        ] {
            assert_eq!(Bundled::find(Path::new(path)).map(|bundled| bundled.name), name, "{path}");
        }
    }

    #[test]
    fn bundled_recordings_equal_the_files() {
        for bundled in Bundled::iter() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(bundled.name);
            let bytes = std::fs::read(path).expect("the tree has this recording");
            let mut unpacked = Vec::new();
            bundled.open().unwrap().read_to_end(&mut unpacked).unwrap();
            assert!(unpacked == bytes, "{}", bundled.name);
        }
    }
}
