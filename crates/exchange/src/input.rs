//! A file that is read, and the bar that tells how far.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use freehold_measure::progress::Progress;

/// The file.
#[derive(Debug)]
pub(crate) struct Input {
    file: File,
    progress: Progress,
}

impl Input {
    pub fn new(path: &Path, file: File) -> Input {
        // A file whose size is not known is read all the same.
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        Input { file, progress: Progress::weighing(format!("reading {}", path.display()), bytes) }
    }

    /// The file itself, for looks at it that are not its reading.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.progress.advance(read as u64);
        Ok(read)
    }
}

impl Seek for Input {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        self.file.seek(place)
    }
}
