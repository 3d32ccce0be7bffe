//! Thread that empties the kernel's rings while the workload runs.
//!
//! The thread wakes every few milliseconds and reads whole ring pages of each CPU with `read`, into buffers that were
//! touched beforehand. (`splice` would allocate pages for the pipe, and so disturb the recording.) It spools a buffer
//! when the buffer is full. The sleep time follows the fill level of the rings: it is halved if more than an eighth of
//! a ring was filled since the last visit. The thread has the highest ordinary priority if the kernel permits that,
//! because it needs the CPU rarely but without delay.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::setpriority_process;
use rustix::thread::gettid;

use freehold_trace::ring::{LostEvents, PageLayout};

use crate::error::CaptureError;
use crate::spool::{AlignedBuffer, Segment, Spool};
use crate::tracefs::Instance;

/// Bytes of one CPU's buffer, if memory allows.
const BUFFER_BYTES: usize = 1 << 20;
/// Largest total size of all buffers.
const BUFFERS_BYTES_MAX: usize = 64 << 20;
/// Bounds of the sleep between two visits.
const NAP_MIN: Duration = Duration::from_millis(1);
const NAP_MAX: Duration = Duration::from_millis(50);

/// Raw pages of one CPU, in order.
#[derive(Debug)]
pub(crate) struct CpuPages {
    /// Number of the CPU.
    pub cpu: u16,
    /// The pages; each segment is a whole number of them.
    pub segments: Vec<Segment>,
    /// Time of the first event after the last gap in the pages; 0 if there is no gap.
    pub whole_from: u64,
}

/// Rings that the drain reads, and their layout.
#[derive(Debug)]
pub(crate) struct Rings {
    /// CPUs that are online.
    pub cpus: Vec<u16>,
    /// Layout of a page of the ring.
    pub layout: PageLayout,
    /// Bytes in the ring of one CPU.
    pub ring_bytes: usize,
}

impl Rings {
    /// Returns the size of the buffer for each CPU in bytes: whole pages, and a mebibyte unless there are very many
    /// CPUs.
    pub(crate) fn buffer_bytes(&self) -> usize {
        let share = BUFFERS_BYTES_MAX / self.cpus.len().max(1);
        let page_bytes = self.layout.page_bytes();
        (BUFFER_BYTES.min(share) / page_bytes).max(1) * page_bytes
    }
}

/// The running thread. Dropping the value ends the thread.
#[derive(Debug)]
pub(crate) struct Drain {
    thread: Option<JoinHandle<Result<Vec<CpuPages>, CaptureError>>>,
    stop: Arc<AtomicBool>,
    failed: Arc<AtomicBool>,
}

impl Drain {
    /// Opens the rings and starts the thread.
    pub(crate) fn start(instance: &Instance, rings: &Rings, spool: Arc<Spool>) -> Result<Drain, CaptureError> {
        let rings = rings.cpus.iter().map(|&cpu| CpuRing::open(instance, cpu, rings)).collect::<Result<Vec<_>, _>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let failed = Arc::new(AtomicBool::new(false));
        let thread = thread::Builder::new()
            .name("freehold".to_owned())
            .spawn({
                let stop = Arc::clone(&stop);
                let failed = Arc::clone(&failed);
                move || {
                    let drained = drain(rings, &spool, &stop);
                    failed.store(drained.is_err(), Ordering::Release);
                    drained
                }
            })
            .map_err(CaptureError::system("start a thread"))?;
        Ok(Drain { thread: Some(thread), stop, failed })
    }

    /// Returns whether the thread failed. [`Drain::finish`] returns the error.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Reads the rest of the rings, which must have been stopped before, and ends the thread.
    ///
    /// # Errors
    /// The error that ended the thread early.
    pub(crate) fn finish(mut self) -> Result<Vec<CpuPages>, CaptureError> {
        self.end().expect("only `finish` and `drop` take the thread")
    }

    fn end(&mut self) -> Option<Result<Vec<CpuPages>, CaptureError>> {
        let thread = self.thread.take()?;
        self.stop.store(true, Ordering::Release);
        thread.thread().unpark();
        Some(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.stop.store(true, Ordering::Release);
            thread.thread().unpark();
            // A failure here was already reported, or the error that causes this drop takes precedence.
            let _ = thread.join();
        }
    }
}

/// Runs the thread: visits the rings and sleeps until `stop` is set, and then makes one last visit.
fn drain(mut rings: Vec<CpuRing>, spool: &Spool, stop: &AtomicBool) -> Result<Vec<CpuPages>, CaptureError> {
    // An unprivileged container may refuse this. The rings are large enough for late visits.
    let _ = setpriority_process(Some(gettid()), -20);
    let mut nap = NAP_MIN;
    loop {
        let last = stop.load(Ordering::Acquire);
        let mut fullest = 0;
        for ring in &mut rings {
            fullest = fullest.max(ring.visit(spool)?);
        }
        if last {
            break;
        }
        nap = next_nap(nap, fullest, rings.first().map_or(1, |ring| ring.ring_bytes));
        thread::park_timeout(nap);
    }
    rings.iter_mut().map(|ring| ring.take(spool)).collect()
}

/// Returns the next sleep time, given that the fullest ring had `found` bytes after a sleep of `nap`.
fn next_nap(nap: Duration, found: usize, ring_bytes: usize) -> Duration {
    let next = if found > ring_bytes / 8 {
        nap / 2
    } else if found < ring_bytes / 32 {
        nap * 2
    } else {
        nap
    };
    next.clamp(NAP_MIN, NAP_MAX)
}

/// The ring of one CPU, and the buffer for its pages.
#[derive(Debug)]
pub(crate) struct CpuRing {
    cpu: u16,
    raw: File,
    layout: PageLayout,
    ring_bytes: usize,
    buffer: AlignedBuffer,
    buffer_bytes: usize,
    used: usize,
    segments: Vec<Segment>,
    whole_from: u64,
}

impl CpuRing {
    /// Opens the ring of `cpu` for reads that do not block.
    ///
    /// # Errors
    /// If the instance has no such ring.
    pub(crate) fn open(instance: &Instance, cpu: u16, rings: &Rings) -> Result<CpuRing, CaptureError> {
        let path = instance.file(&format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        let raw = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(&path)
            .map_err(CaptureError::kernel(&path))?;
        let buffer_bytes = rings.buffer_bytes();
        Ok(CpuRing {
            cpu,
            raw,
            layout: rings.layout,
            ring_bytes: rings.ring_bytes,
            buffer: AlignedBuffer::new(buffer_bytes),
            buffer_bytes,
            used: 0,
            segments: Vec::with_capacity(1024),
            whole_from: 0,
        })
    }

    /// Reads every page with events. Returns the number of bytes of these pages.
    ///
    /// # Errors
    /// If the ring cannot be read, or the spool is full.
    pub(crate) fn visit(&mut self, spool: &Spool) -> Result<usize, CaptureError> {
        let mut found = 0;
        let page_bytes = self.layout.page_bytes();
        loop {
            let page = &mut self.buffer.get_mut()[self.used..self.used + page_bytes];
            let len = match self.raw.read(page) {
                Ok(0) => return Ok(found),
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(found),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    return Err(CaptureError::System { what: "read the kernel's ring buffer", source });
                }
            };
            // A short page is padded, so that all pages are at multiples of the page size.
            page[len..].fill(0);
            if let Ok(page) = self.layout.page(page)
                && page.lost_events() != LostEvents::Nothing
            {
                self.whole_from = page.time();
            }
            found += page_bytes;
            self.used += page_bytes;
            if self.used + page_bytes > self.buffer_bytes {
                self.flush(spool)?;
            }
        }
    }

    fn flush(&mut self, spool: &Spool) -> Result<(), CaptureError> {
        if self.used > 0 {
            self.segments.push(spool.append(&self.buffer, self.used)?);
            self.used = 0;
        }
        Ok(())
    }

    /// Returns the pages that were read since the last call.
    ///
    /// # Errors
    /// If the spool is full.
    pub(crate) fn take(&mut self, spool: &Spool) -> Result<CpuPages, CaptureError> {
        self.flush(spool)?;
        let segments = std::mem::take(&mut self.segments);
        Ok(CpuPages { cpu: self.cpu, segments, whole_from: std::mem::take(&mut self.whole_from) })
    }

    /// Discards the pages that were read since the last [`take`](Self::take).
    pub(crate) fn forget(&mut self) {
        self.used = 0;
        self.segments.clear();
        self.whole_from = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nap_length_follows_the_ring_fill() {
        let ring = 1 << 20;
        let nap = Duration::from_millis(8);
        assert_eq!(next_nap(nap, ring / 2, ring), nap / 2, "a ring that fills is visited sooner");
        assert_eq!(next_nap(nap, 0, ring), nap * 2, "an idle one later");
        assert_eq!(next_nap(nap, ring / 16, ring), nap);
        assert_eq!(next_nap(NAP_MIN, ring, ring), NAP_MIN);
        assert_eq!(next_nap(NAP_MAX, 0, ring), NAP_MAX);
    }

    fn rings(cpus: u16, page_bytes: usize) -> Rings {
        let header = include_str!("../../trace/tests/fixtures/linux-6.18/header_page");
        let layout = PageLayout::parse(&header.replace("4080", &(page_bytes - 16).to_string())).unwrap();
        Rings { cpus: (0..cpus).collect(), layout, ring_bytes: 1 << 20 }
    }

    #[test]
    fn buffers_are_whole_pages_and_bounded() {
        assert_eq!(rings(2, 4096).buffer_bytes(), BUFFER_BYTES);
        assert_eq!(rings(512, 4096).buffer_bytes(), BUFFERS_BYTES_MAX / 512);
        assert_eq!(rings(4096, 65536).buffer_bytes(), 65536);
    }
}
