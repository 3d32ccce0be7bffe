//! A file that is read, with its progress bar.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use freehold_report::progress::Progress;

/// The file.
#[derive(Debug)]
pub(crate) struct Input {
    file: File,
    length: u64,
    progress: Progress,
}

impl Input {
    pub(crate) fn new(path: &Path, file: File) -> Input {
        // A file of unknown size is read too.
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        Input { file, length, progress: Progress::weighing(format!("reading {}", path.display()), length) }
    }

    /// Returns the file itself, for reads that do not count as progress.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Returns the size of the file in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    /// Reads at most `most` bytes from the current position.
    pub(crate) fn beginning(&self, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        (&self.file).take(most as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads the bytes at this offset; `None` if the file is too short.
    pub(crate) fn part(&self, offset: u64, size: u64) -> Option<Vec<u8>> {
        let is_there = offset.checked_add(size).is_some_and(|end| end <= self.length);
        let mut bytes = is_there.then(|| vec![0; size as usize])?;
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        self.progress.advance(size);
        Some(bytes)
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
