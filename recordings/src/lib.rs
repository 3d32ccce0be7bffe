//! The bundled recordings of a real host. They are part of the program, so it has them wherever it runs.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;

use rustix::fs::{MemfdFlags, memfd_create};

/// A recording that the program carries.
#[derive(Debug)]
pub struct Bundled {
    /// Its file in the source tree.
    pub name: &'static str,
    bytes: &'static [u8],
}

/// All of them.
pub static BUNDLED: [Bundled; 2] = [
    Bundled { name: "recordings/build.parquet", bytes: include_bytes!("../build.parquet") },
    Bundled { name: "recordings/pressure.parquet", bytes: include_bytes!("../pressure.parquet") },
];

impl Bundled {
    /// The one whose name ends as a path does.
    pub fn named(path: &Path) -> Option<&'static Bundled> {
        path.file_name()?;
        BUNDLED.iter().find(|bundled| Path::new(bundled.name).ends_with(path))
    }

    /// The recording as a file, which takes its size of memory.
    ///
    /// # Errors
    /// When there is no memory for it.
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
    fn recordings_are_found_by_the_end_of_their_name() {
        let name = |path: &str| Bundled::named(Path::new(path)).map(|bundled| bundled.name);
        assert_eq!(name("build.parquet"), Some("recordings/build.parquet"));
        assert_eq!(name("recordings/pressure.parquet"), Some("recordings/pressure.parquet"));
        assert_eq!([name("parquet"), name("")], [None, None]);
    }

    #[test]
    fn a_bundled_recording_is_the_file_in_the_tree() {
        for bundled in &BUNDLED {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(bundled.name);
            let bytes = std::fs::read(path).expect("the tree has it");
            let mut unpacked = Vec::new();
            bundled.open().unwrap().read_to_end(&mut unpacked).unwrap();
            assert!(unpacked == bytes, "{}", bundled.name);
        }
    }
}
