//! Scan of `/proc/kpageflags` while the machine runs.
//!
//! A scan of all page flags takes about a second on 24 GiB, and pages are allocated and freed in the meantime. Tracing
//! is therefore already on, and each chunk of 4096 frames is stamped with the clock just before it is read. All changes
//! of a frame after its stamp are in the event stream, and [`Frames`] applies them. The result is the state of all
//! frames at the end of the scan.
//!
//! The words are written to the spool unchanged, through one buffer, so a scan allocates nothing. A scan may also read
//! `/proc/kpagecount`, and mark pages that are mapped more than once.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use freehold_trace::snapshot::flag;
use freehold_trace::state::{CHUNK_FRAMES, Frames};

use crate::clock;
use crate::error::CaptureError;
use crate::interrupt::Interrupts;
use crate::spool::{AlignedBuffer, Segment, Spool};

/// Bytes of a frame's word.
const WORD_BYTES: usize = 8;
/// Files with the flags of pages (first), and with the number of their mappings (second): one word per frame.
const FLAGS: &str = "/proc/kpageflags";
const COUNTS: &str = "/proc/kpagecount";
/// Chunks that are spooled together.
const CHUNKS_PER_SEGMENT: usize = 32;

/// A run of frames that were read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// The first frame.
    pub first: u64,
    /// Number of frames.
    pub frames: usize,
    /// Time of the monotonic clock just before the read, in nanoseconds.
    pub stamp: u64,
    /// Segment with the words (first field), and their offset in it in bytes (second field).
    segment: usize,
    at: usize,
}

/// A scan whose words are in the spool.
#[derive(Debug)]
pub(crate) struct Scan {
    chunks: Vec<Chunk>,
    segments: Vec<Segment>,
    /// Time of the monotonic clock after the last chunk was read.
    pub end: u64,
}

impl Scan {
    /// Returns the time of the clock before the first chunk was read.
    pub(crate) fn start(&self) -> u64 {
        self.chunks.first().map_or(self.end, |chunk| chunk.stamp)
    }

    /// Returns the flags of all frames.
    ///
    /// # Errors
    /// If the spool cannot be read.
    pub(crate) fn frames(&self, spool: &Spool, pageblock_order: u8) -> Result<Frames, CaptureError> {
        let mut frames = Frames::new(pageblock_order);
        self.replay(spool, |chunk, bytes| {
            let words = bytes.chunks_exact(WORD_BYTES).map(|word| flag::from_kernel(number(word)));
            frames.put(chunk.first, words, chunk.stamp);
        })?;
        Ok(frames)
    }

    /// Calls `visit` with every chunk and its words, in order of frame.
    ///
    /// # Errors
    /// If the spool cannot be read.
    pub(crate) fn replay(&self, spool: &Spool, mut visit: impl FnMut(Chunk, &[u8])) -> Result<(), CaptureError> {
        let mut buffer = AlignedBuffer::new(CHUNKS_PER_SEGMENT * CHUNK_FRAMES as usize * WORD_BYTES);
        let mut loaded = None;
        for &chunk in &self.chunks {
            if loaded != Some(chunk.segment) {
                spool.read(self.segments[chunk.segment], &mut buffer)?;
                loaded = Some(chunk.segment);
            }
            visit(chunk, &buffer.get()[chunk.at..chunk.at + chunk.frames * WORD_BYTES]);
        }
        Ok(())
    }
}

/// Files and buffers of a scan, created before the recording starts.
#[derive(Debug)]
pub(crate) struct Scanner {
    flags: File,
    counts: Option<Counts>,
    buffer: AlignedBuffer,
    ranges: Vec<(u64, u64)>,
}

/// File and buffer of the number of mappings of each page.
#[derive(Debug)]
struct Counts {
    file: File,
    buffer: Vec<u8>,
}

impl Scanner {
    /// Opens the page flags. `ranges` are the frames to read, as `[start, end)` in ascending order.
    ///
    /// # Errors
    /// If the kernel does not provide page flags.
    pub(crate) fn open(ranges: Vec<(u64, u64)>) -> Result<Scanner, CaptureError> {
        let flags = open(FLAGS)?;
        let buffer = AlignedBuffer::new(CHUNKS_PER_SEGMENT * CHUNK_FRAMES as usize * WORD_BYTES);
        Ok(Scanner { flags, counts: None, buffer, ranges })
    }

    /// Also marks pages that are mapped more than once ([`flag::SHARED`]). The scan then takes twice the time.
    ///
    /// # Errors
    /// If the kernel does not provide the numbers of mappings.
    pub(crate) fn counting(self) -> Result<Scanner, CaptureError> {
        let buffer = vec![0; CHUNK_FRAMES as usize * WORD_BYTES];
        Ok(Scanner { counts: Some(Counts { file: open(COUNTS)?, buffer }), ..self })
    }

    /// Reads all frames into `spool`.
    ///
    /// # Errors
    /// If the flags cannot be read, the spool is full, or the recording is aborted.
    pub(crate) fn scan(&mut self, spool: &Spool, interrupts: &Interrupts) -> Result<Scan, CaptureError> {
        let mut scan = Scan { chunks: Vec::new(), segments: Vec::new(), end: 0 };
        scan.chunks.reserve_exact(chunks(&self.ranges).count());
        let mut at = 0;
        for (first, frames) in chunks(&self.ranges) {
            if at + frames * WORD_BYTES > self.buffer.get().len() {
                scan.segments.push(spool.append(&self.buffer, at)?);
                at = 0;
            }
            interrupts.check()?;
            let words = &mut self.buffer.get_mut()[at..at + frames * WORD_BYTES];
            let stamp = clock::now();
            let frames = read_words((&self.flags, FLAGS), first, words)?;
            if let Some(counts) = &mut self.counts {
                counts.mark(first, &mut words[..frames * WORD_BYTES])?;
            }
            if frames == 0 {
                // The range is after the last frame for which the kernel has metadata.
                continue;
            }
            scan.chunks.push(Chunk { first, frames, stamp, segment: scan.segments.len(), at });
            at += frames * WORD_BYTES;
        }
        scan.end = clock::now();
        if at > 0 {
            scan.segments.push(spool.append(&self.buffer, at)?);
        }
        if scan.chunks.is_empty() { Err(CaptureError::Empty(FLAGS)) } else { Ok(scan) }
    }
}

impl Counts {
    /// Marks frames from `first` on that are mapped more than once, if they were on an LRU list when their flags were
    /// read. Other frames may have been allocated to another page since.
    fn mark(&mut self, first: u64, words: &mut [u8]) -> Result<(), CaptureError> {
        let counts = &mut self.buffer[..words.len()];
        let frames = read_words((&self.file, COUNTS), first, counts)?;
        let (words, counts) = (words.chunks_exact_mut(WORD_BYTES), counts.chunks_exact(WORD_BYTES));
        for (word, count) in words.zip(counts).take(frames) {
            if number(count) > 1 && flag::from_kernel(number(word)) & flag::LRU != 0 {
                word.copy_from_slice(&(number(word) | flag::SHARED_IN_KERNEL_WORD).to_le_bytes());
            }
        }
        Ok(())
    }
}

/// Parses the word of a frame, which is little-endian on all supported machines.
fn number(word: &[u8]) -> u64 {
    u64::from_le_bytes(word.try_into().expect("a word is eight bytes"))
}

fn open(path: &'static str) -> Result<File, CaptureError> {
    let path = Path::new(path);
    File::open(path).map_err(CaptureError::kernel(path))
}

/// Fills `words` with those of frames from `first` on. Returns the number of frames that the kernel had.
fn read_words((file, path): (&File, &'static str), first: u64, words: &mut [u8]) -> Result<usize, CaptureError> {
    let mut filled = 0;
    while filled < words.len() {
        let offset = first * WORD_BYTES as u64 + filled as u64;
        let read = file.read_at(&mut words[filled..], offset).map_err(CaptureError::kernel(Path::new(path)))?;
        if read == 0 {
            // The offset is after the last frame for which the kernel has metadata.
            break;
        }
        filled += read;
    }
    Ok(filled / WORD_BYTES)
}

/// Cuts `ranges` at multiples of [`CHUNK_FRAMES`]. Returns the first frame and the number of frames of each piece.
fn chunks(ranges: &[(u64, u64)]) -> impl Iterator<Item = (u64, usize)> {
    ranges.iter().flat_map(|&(start, end)| {
        let mut next = start;
        std::iter::from_fn(move || {
            let first = next;
            next = ((first / CHUNK_FRAMES + 1) * CHUNK_FRAMES).min(end);
            // A piece is at most CHUNK_FRAMES long.
            (first < end).then(|| (first, (next - first) as usize))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_split_into_aligned_chunks() {
        let cut: Vec<_> = chunks(&[(1, 100), (4000, 9000), (9000, 9000)]).collect();
        assert_eq!(cut, [(1, 99), (4000, 96), (4096, 4096), (8192, 808)]);
    }

    #[test]
    fn scan_replays_its_words_in_order() {
        let folder = tempfile::tempdir().unwrap();
        // A file in place of the kernel's: each frame's word is its number.
        let path = folder.path().join("flags");
        let words: Vec<u8> = (0..300_000u64).flat_map(u64::to_le_bytes).collect();
        std::fs::write(&path, words).unwrap();
        let spool = Spool::create(folder.path()).unwrap();
        let mut scanner = Scanner {
            flags: File::open(&path).unwrap(),
            counts: None,
            buffer: AlignedBuffer::new(CHUNKS_PER_SEGMENT * CHUNK_FRAMES as usize * WORD_BYTES),
            ranges: vec![(1, 150), (256, 400_000)],
        };
        let scan = scanner.scan(&spool, &Interrupts::deaf()).unwrap();
        let mut seen = Vec::new();
        scan.replay(&spool, |chunk, bytes| {
            for (index, word) in bytes.chunks_exact(8).enumerate() {
                assert_eq!(u64::from_le_bytes(word.try_into().unwrap()), chunk.first + index as u64);
                seen.push(chunk.first + index as u64);
            }
        })
        .unwrap();
        assert!(seen.into_iter().eq((1..150).chain(256..300_000)), "frames behind the file's end do not exist");
        assert!(scan.start() <= scan.end);
    }

    #[test]
    fn empty_page_flags_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut scanner = Scanner {
            flags: file_of_words(&folder.path().join("flags"), &[]),
            counts: None,
            buffer: AlignedBuffer::new(CHUNKS_PER_SEGMENT * CHUNK_FRAMES as usize * WORD_BYTES),
            ranges: vec![(0, 100)],
        };
        let spool = Spool::create(folder.path()).unwrap();
        let error = scanner.scan(&spool, &Interrupts::deaf()).unwrap_err().to_string();
        assert!(error.contains("/proc/kpageflags is empty"), "{error}");
    }

    fn file_of_words(path: &Path, words: &[u64]) -> File {
        std::fs::write(path, words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
        File::open(path).unwrap()
    }

    #[test]
    fn pages_mapped_more_than_once_are_marked() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::create(folder.path()).unwrap();
        let buffer = vec![0; CHUNK_FRAMES as usize * WORD_BYTES];
        let lru = u64::from(flag::LRU);
        let mut scanner = Scanner {
            flags: file_of_words(&folder.path().join("flags"), &[lru, lru, lru, lru, lru, 0, flag::BUDDY.into()]),
            counts: Some(Counts {
                file: file_of_words(&folder.path().join("counts"), &[0, 1, 2, 300, 1, 2, 2]),
                buffer,
            }),
            buffer: AlignedBuffer::new(CHUNKS_PER_SEGMENT * CHUNK_FRAMES as usize * WORD_BYTES),
            ranges: vec![(0, 7)],
        };
        let scan = scanner.scan(&spool, &Interrupts::deaf()).unwrap();
        let mut seen = Vec::new();
        scan.replay(&spool, |_, bytes| seen.extend(bytes.chunks_exact(8).map(number))).unwrap();
        let shared = flag::LRU | flag::SHARED;
        let flags: Vec<u32> = seen.into_iter().map(flag::from_kernel).collect();
        assert_eq!(flags, [flag::LRU, flag::LRU, shared, shared, flag::LRU, 0, flag::BUDDY]);
    }
}
