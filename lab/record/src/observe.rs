//! The state of memory at one moment: the page flags of every frame, the texts of `/proc` that describe zones and slab
//! caches, and the kernel's counters.
//!
//! While a scan reads the flags, compaction may take pages from the free lists, and that has no event. Such a scan is
//! made again, a few times at most.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::error::CaptureError;
use crate::interrupt::Interrupts;
use crate::sample::Sampler;
use crate::scan::{Scan, Scanner};
use crate::spool::Spool;

/// A scan during which compaction took free pages is repeated, up to this number in all: that taking has no event.
const SCANS_MAX: u32 = 5;
/// The counter of vmstat that compaction's taking of pages moves.
const ISOLATED: &str = "compact_isolated";

/// The texts of `/proc` that describe zones and slab caches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    /// `/proc/zoneinfo`.
    pub zoneinfo: String,
    /// `/proc/pagetypeinfo`.
    pub pagetypeinfo: String,
    /// `/proc/slabinfo`; empty where the kernel has none.
    pub slabinfo: String,
}

impl Texts {
    fn read() -> Result<Texts, CaptureError> {
        let slabinfo = read("/proc/slabinfo").unwrap_or_default();
        Ok(Texts { zoneinfo: read("/proc/zoneinfo")?, pagetypeinfo: read("/proc/pagetypeinfo")?, slabinfo })
    }
}

/// The state of memory at one end of the recording.
#[derive(Debug)]
pub(crate) struct State {
    /// The page flags.
    pub scan: Scan,
    /// Zones and slab caches, read right after the scan.
    pub texts: Texts,
    /// Pages that compaction took during the scan, which makes it less than exact.
    pub isolated: u64,
}

/// What looks at memory: everything is opened beforehand.
#[derive(Debug)]
pub(crate) struct Observer {
    scanner: Scanner,
    /// Reads the counters.
    pub sampler: Sampler,
    /// Where the flags go.
    pub spool: Arc<Spool>,
}

impl Observer {
    /// Opens what the kernel tells of these frames, as `[start, end)` in ascending order.
    ///
    /// # Errors
    /// When the kernel does not tell it.
    pub(crate) fn open(ram: Vec<(u64, u64)>, spool: Arc<Spool>) -> Result<Observer, CaptureError> {
        Ok(Observer { scanner: Scanner::open(ram)?, sampler: Sampler::open()?, spool })
    }

    /// The same, which also looks at how often pages are mapped.
    ///
    /// # Errors
    /// When the kernel does not tell it.
    pub(crate) fn counting(self) -> Result<Observer, CaptureError> {
        Ok(Observer { scanner: self.scanner.counting()?, ..self })
    }

    /// Looks at these frames from now on, and keeps their flags in `spool`.
    ///
    /// # Errors
    /// When the kernel does not tell their flags.
    pub(crate) fn look_at(&mut self, ram: Vec<(u64, u64)>, spool: Arc<Spool>) -> Result<(), CaptureError> {
        self.scanner = Scanner::open(ram)?;
        self.spool = spool;
        Ok(())
    }

    /// Describes memory, at a moment without compaction if there is one soon.
    ///
    /// # Errors
    /// When the kernel stops telling it, the spool is full, or the user gives up.
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

    /// Describes memory now, whatever compaction does meanwhile: scans the page flags and reads what else describes
    /// memory.
    ///
    /// # Errors
    /// As for [`Observer::observe`].
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
