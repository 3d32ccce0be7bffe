//! Spool of raw bytes until the run is over.
//!
//! Decoding and compressing during the run would take CPU time and memory from the workload, so the run only moves raw
//! ring pages to a file without a name beside the recording. The file is written with `O_DIRECT` from buffers that were
//! touched beforehand. The page cache does not grow, and except for a few requests of the block layer no page is
//! allocated. On a file system without `O_DIRECT` (for example the root of an initramfs), the file is written through
//! the cache, and the recording contains a note.
//!
//! The file has no name (`O_TMPFILE`, or unlinked at once), so it disappears however the program ends.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::OFlags;

use crate::error::CaptureError;

/// Alignment of addresses, offsets and lengths that `O_DIRECT` requires.
pub(crate) const ALIGNMENT: usize = 4096;

/// Buffer at an address that `O_DIRECT` accepts. It is touched when created, so that later uses cause no page fault.
#[derive(Debug)]
pub(crate) struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// Creates a buffer of `len` bytes, rounded up to a multiple of [`ALIGNMENT`].
    pub(crate) fn new(len: usize) -> AlignedBuffer {
        let len = len.next_multiple_of(ALIGNMENT);
        // The bytes are not zero, since zeroed memory comes untouched from the kernel and would cause page faults
        // during the run.
        let bytes = vec![1u8; len + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        AlignedBuffer { bytes, start, len }
    }

    /// Returns the bytes.
    pub(crate) fn get(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    /// Returns the bytes for writing.
    pub(crate) fn get_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

/// One write to the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Offset of the bytes in the spool.
    pub offset: u64,
    /// Number of bytes, without the padding after them in the file.
    pub len: usize,
}

/// The file without a name.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    folder: PathBuf,
    direct: bool,
    end: AtomicU64,
}

impl Spool {
    /// Creates a spool in `folder`.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub(crate) fn create(folder: &Path) -> Result<Spool, CaptureError> {
        let (opened, direct) = match open(folder, OFlags::DIRECT) {
            Ok(file) => (Ok(file), true),
            Err(_) => (open(folder, OFlags::empty()), false),
        };
        let file = opened.map_err(|source| CaptureError::Spool { path: folder.to_path_buf(), source })?;
        Ok(Spool { file, folder: folder.to_path_buf(), direct, end: AtomicU64::new(0) })
    }

    /// Returns whether writes bypass the page cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    /// Appends the first `len` bytes of `buffer`. Several threads may append at the same time.
    ///
    /// # Errors
    /// If the disk is full or fails.
    pub(crate) fn append(&self, buffer: &AlignedBuffer, len: usize) -> Result<Segment, CaptureError> {
        let padded = len.next_multiple_of(ALIGNMENT);
        let offset = self.end.fetch_add(padded as u64, Ordering::Relaxed);
        self.file.write_all_at(&buffer.get()[..padded], offset).map_err(|source| self.failure(source))?;
        Ok(Segment { offset, len })
    }

    /// Reads `segment` into the start of `buffer`, which must be large enough for it.
    ///
    /// # Errors
    /// If the disk fails.
    pub(crate) fn read(&self, segment: Segment, buffer: &mut AlignedBuffer) -> Result<(), CaptureError> {
        let padded = segment.len.next_multiple_of(ALIGNMENT);
        self.file.read_exact_at(&mut buffer.get_mut()[..padded], segment.offset).map_err(|source| self.failure(source))
    }

    fn failure(&self, source: io::Error) -> CaptureError {
        CaptureError::Spool { path: self.folder.clone(), source }
    }
}

/// Opens a file without a name in `folder`, and writes one block to test that it can be written with these flags.
fn open(folder: &Path, flags: OFlags) -> io::Result<File> {
    let file = open_nameless(folder, flags).or_else(|_| open_unlinked(folder, flags))?;
    file.write_all_at(AlignedBuffer::new(ALIGNMENT).get(), 0)?;
    Ok(file)
}

fn open_nameless(folder: &Path, flags: OFlags) -> io::Result<File> {
    let flags = (OFlags::TMPFILE | flags).bits();
    OpenOptions::new().read(true).write(true).custom_flags(flags.cast_signed()).open(folder)
}

fn open_unlinked(folder: &Path, flags: OFlags) -> io::Result<File> {
    let path = folder.join(format!(".freehold-spool-{}", std::process::id()));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .custom_flags(flags.bits().cast_signed())
        .open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spool_round_trips_without_a_file_name() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::create(folder.path()).unwrap();
        let mut buffer = AlignedBuffer::new(10_000);
        let segments: Vec<Segment> = (0..3u8)
            .map(|round| {
                buffer.get_mut().fill(round);
                spool.append(&buffer, 5_000 + usize::from(round)).unwrap()
            })
            .collect();
        for (round, segment) in segments.into_iter().enumerate() {
            assert_eq!(segment.len, 5_000 + round);
            assert_eq!(segment.offset % ALIGNMENT as u64, 0);
            spool.read(segment, &mut buffer).unwrap();
            assert!(buffer.get()[..segment.len].iter().all(|&byte| usize::from(byte) == round));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "the spool must have no name");
    }

    #[test]
    fn unwritable_spool_folder_is_reported() {
        let error = Spool::create(Path::new("/proc/no-such-folder")).unwrap_err().to_string();
        assert!(error.contains("/proc/no-such-folder") && error.contains("--spool"), "{error}");
    }
}
