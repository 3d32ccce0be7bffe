//! Where raw bytes wait until the run is over.
//!
//! Decoding and compressing while the workload runs would take CPU time and memory from it, so the run only
//! moves raw ring pages to a nameless file beside the recording. The file is written with `O_DIRECT` from
//! buffers that were touched beforehand: no page cache grows, and apart from the block layer's few requests
//! no page is allocated for it. A file system without `O_DIRECT` (the root of an initramfs, say) is written
//! through its cache, and the recording carries a note about that.
//!
//! The file has no name (`O_TMPFILE`, or unlinked at once), so that nothing remains whatever happens.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::OFlags;

use crate::error::CaptureError;

/// What `O_DIRECT` wants addresses, offsets and lengths to be multiples of.
pub(crate) const ALIGNMENT: usize = 4096;

/// Bytes at an address that `O_DIRECT` accepts, touched when made, so that using them later faults no page.
#[derive(Debug)]
pub(crate) struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// A buffer of `len` bytes, rounded up to a multiple of [`ALIGNMENT`].
    pub(crate) fn new(len: usize) -> AlignedBuffer {
        let len = len.next_multiple_of(ALIGNMENT);
        // Not zero: zeroed memory comes untouched from the kernel, and would fault in during the run.
        let bytes = vec![1u8; len + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        AlignedBuffer { bytes, start, len }
    }

    /// Its bytes.
    pub(crate) fn get(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    /// Its bytes, to write to.
    pub(crate) fn get_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

/// One write to the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Where its bytes begin in the spool.
    pub offset: u64,
    /// How many of them were given; the file is padded behind them.
    pub len: usize,
}

/// The nameless file.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    folder: PathBuf,
    direct: bool,
    end: AtomicU64,
}

impl Spool {
    /// Makes a spool in `folder`.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub(crate) fn create(folder: &Path) -> Result<Spool, CaptureError> {
        let (opened, direct) = match open(folder, OFlags::DIRECT) {
            Ok(file) => (Ok(file), true),
            Err(_) => (open(folder, OFlags::empty()), false),
        };
        let file = opened.map_err(|source| CaptureError::Spool { path: folder.to_path_buf(), source })?;
        Ok(Spool { file, folder: folder.to_path_buf(), direct, end: AtomicU64::new(0) })
    }

    /// Whether writes go around the page cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    /// Appends the first `len` bytes of `buffer`. Threads may append at the same time.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub(crate) fn append(&self, buffer: &AlignedBuffer, len: usize) -> Result<Segment, CaptureError> {
        let padded = len.next_multiple_of(ALIGNMENT);
        let offset = self.end.fetch_add(padded as u64, Ordering::Relaxed);
        self.file.write_all_at(&buffer.get()[..padded], offset).map_err(|source| self.failure(source))?;
        Ok(Segment { offset, len })
    }

    /// Reads `segment` back into the head of `buffer`, which must be large enough for it.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn read(&self, segment: Segment, buffer: &mut AlignedBuffer) -> Result<(), CaptureError> {
        let padded = segment.len.next_multiple_of(ALIGNMENT);
        self.file.read_exact_at(&mut buffer.get_mut()[..padded], segment.offset).map_err(|source| self.failure(source))
    }

    fn failure(&self, source: io::Error) -> CaptureError {
        CaptureError::Spool { path: self.folder.clone(), source }
    }
}

/// Opens a nameless file in `folder` and proves with one block that it can be written as asked.
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
    fn gives_back_what_was_appended() {
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
    fn says_which_folder_cannot_be_written() {
        let error = Spool::create(Path::new("/proc/no-such-folder")).unwrap_err().to_string();
        assert!(error.contains("/proc/no-such-folder") && error.contains("--spool"), "{error}");
    }
}
