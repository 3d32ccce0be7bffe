//! State of memory at one moment: the page flags of every frame, the texts of `/proc` about zones and slab caches, and
//! the kernel's counters.
//!
//! While a scan reads the flags, compaction may take pages from the free lists without an event. Such a scan is
//! repeated, a few times at most.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::error::CaptureError;
use crate::interrupt::Interrupts;
use crate::sample::Sampler;
use crate::scan::{Scan, Scanner};
use crate::spool::Spool;

/// Largest number of scans. A scan is repeated if compaction took free pages in the meantime, which has no event.
const SCANS_MAX: u32 = 5;
/// Counter of vmstat that increases when compaction takes pages.
const ISOLATED: &str = "compact_isolated";

/// Texts of `/proc` about zones and slab caches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    /// `/proc/zoneinfo`.
    pub zoneinfo: String,
    /// `/proc/pagetypeinfo`.
    pub pagetypeinfo: String,
    /// `/proc/slabinfo`; empty if the kernel has none.
    pub slabinfo: String,
}

impl Texts {
    fn read() -> Result<Texts, CaptureError> {
        let slabinfo = read("/proc/slabinfo").unwrap_or_default();
        Ok(Texts { zoneinfo: read("/proc/zoneinfo")?, pagetypeinfo: read("/proc/pagetypeinfo")?, slabinfo })
    }
}

/// State of memory at the start or at the end of the recording.
#[derive(Debug)]
pub(crate) struct State {
    /// The page flags.
    pub scan: Scan,
    /// Zones and slab caches, read directly after the scan.
    pub texts: Texts,
    /// Pages that compaction took during the scan, by which the scan is inexact.
    pub isolated: u64,
}

/// Reader of the state of memory. All files are opened beforehand.
#[derive(Debug)]
pub(crate) struct Observer {
    scanner: Scanner,
    /// Reader of the counters.
    pub sampler: Sampler,
    /// Spool that receives the flags.
    pub spool: Arc<Spool>,
}

impl Observer {
    /// Opens the kernel's files about these frames, given as `[start, end)` in ascending order.
    ///
    /// # Errors
    /// If a file is missing.
    pub(crate) fn open(ram: Vec<(u64, u64)>, spool: Arc<Spool>) -> Result<Observer, CaptureError> {
        Ok(Observer { scanner: Scanner::open(ram)?, sampler: Sampler::open()?, spool })
    }

    /// Also reads how often pages are mapped.
    ///
    /// # Errors
    /// If the file is missing.
    pub(crate) fn counting(self) -> Result<Observer, CaptureError> {
        Ok(Observer { scanner: self.scanner.counting()?, ..self })
    }

    /// Reads these frames from now on, and stores their flags in `spool`.
    ///
    /// # Errors
    /// If the file of page flags cannot be opened.
    pub(crate) fn look_at(&mut self, ram: Vec<(u64, u64)>, spool: Arc<Spool>) -> Result<(), CaptureError> {
        self.scanner = Scanner::open(ram)?;
        self.spool = spool;
        Ok(())
    }

    /// Reads the state of memory, and takes a reading of the counters. Scans at most [`SCANS_MAX`] times, until
    /// compaction took no pages during a scan.
    ///
    /// # Errors
    /// If a file can no longer be read, the spool is full, or the user aborts.
    pub(crate) fn observe(&mut self, interrupts: &Interrupts) -> Result<State, CaptureError> {
        for _ in 1..SCANS_MAX {
            let state = self.observe_once(interrupts)?;
            if state.isolated == 0 {
                return Ok(state);
            }
            self.sampler.readings.all.pop();
        }
        self.observe_once(interrupts)
    }

    /// Reads the state of memory once, regardless of compaction: scans the page flags and reads the other files.
    ///
    /// # Errors
    /// Like [`Observer::observe`].
    pub(crate) fn observe_once(&mut self, interrupts: &Interrupts) -> Result<State, CaptureError> {
        let before = self.sampler.counter(ISOLATED)?;
        let scan = self.scanner.scan(&self.spool, interrupts)?;
        let texts = Texts::read()?;
        self.sampler.take()?;
        let isolated = self.sampler.counter(ISOLATED)?.saturating_sub(before);
        Ok(State { scan, texts, isolated })
    }
}

fn read(path: &'static str) -> Result<String, CaptureError> {
    fs::read_to_string(path).map_err(CaptureError::kernel(Path::new(path)))
}
