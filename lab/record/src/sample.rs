//! Readings of the kernel's counters through files that stay open: `/proc/vmstat`, `/proc/buddyinfo`, `/proc/zoneinfo`,
//! and `/proc/pressure` if the kernel has it.
//!
//! A reading contains numbers, in an order that the first reading determines, and the text of buddyinfo.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use freehold_trace::facts::ZoneFacts;
use freehold_trace::procfs::counters::{ZoneCounters, pressure_totals, zone_counters};

use crate::clock;
use crate::error::CaptureError;

/// Initial size of a text's buffer in bytes. vmstat has about 200 lines. The buffer is enlarged to twice the size of a
/// longer text.
const TEXT_BYTES: usize = 64 << 10;
/// Resources whose pressure is read, and their files.
const PRESSURES: [(&str, &str); 3] =
    [("memory", "/proc/pressure/memory"), ("cpu", "/proc/pressure/cpu"), ("io", "/proc/pressure/io")];

/// A file of `/proc` that is read many times without allocating.
#[derive(Debug)]
struct ProcFile {
    path: &'static str,
    file: File,
    buffer: Vec<u8>,
}

impl ProcFile {
    fn open(path: &'static str) -> Result<ProcFile, CaptureError> {
        let file = File::open(path).map_err(CaptureError::kernel(Path::new(path)))?;
        let mut opened = ProcFile { path, file, buffer: vec![1; TEXT_BYTES] };
        while opened.text()?.len() * 2 > opened.buffer.len() {
            opened.buffer.resize(opened.buffer.len() * 2, 1);
        }
        Ok(opened)
    }

    /// Returns the current text of the file.
    fn text(&mut self) -> Result<&str, CaptureError> {
        let mut len = 0;
        while len < self.buffer.len() {
            let read = self
                .file
                .read_at(&mut self.buffer[len..], len as u64)
                .map_err(CaptureError::kernel(Path::new(self.path)))?;
            if read == 0 {
                break;
            }
            len += read;
        }
        std::str::from_utf8(&self.buffer[..len])
            .map_err(|error| CaptureError::Format { what: self.path.to_owned(), reason: error.to_string() })
    }
}

/// One reading.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// Time of the monotonic clock in nanoseconds.
    pub time: u64,
    /// The counters of vmstat.
    pub vmstat: Vec<u64>,
    /// The text of buddyinfo: one line per zone.
    pub buddyinfo: String,
    /// Totals of pressure, in microseconds.
    pub pressure: Vec<u64>,
    /// Counters of each zone.
    pub zones: Vec<Vec<u64>>,
}

/// Reader of the counters.
#[derive(Debug)]
pub(crate) struct Sampler {
    vmstat: ProcFile,
    buddyinfo: ProcFile,
    zoneinfo: ProcFile,
    pressures: Vec<ProcFile>,
    /// Readings so far.
    pub readings: Readings,
}

/// Readings, and the names of their numbers.
#[derive(Clone, Debug)]
pub(crate) struct Readings {
    /// Names of vmstat's counters.
    pub names: Vec<String>,
    /// Names of the totals of pressure; empty if the kernel has none.
    pub pressure_names: Vec<String>,
    /// Names of the counters of zones.
    pub zone_names: Vec<String>,
    /// The zones, by node and name.
    pub zones: Vec<(u16, String)>,
    /// The readings, in order of time.
    pub all: Vec<Reading>,
}

impl Readings {
    /// Returns the index of a zone in the readings.
    pub(crate) fn place(&self, zone: &ZoneFacts) -> Option<usize> {
        self.zones.iter().position(|(node, name)| (*node, name) == (zone.node, &zone.name))
    }
}

impl Sampler {
    /// Opens the files.
    ///
    /// # Errors
    /// If one is missing.
    pub(crate) fn open() -> Result<Sampler, CaptureError> {
        let mut vmstat = ProcFile::open("/proc/vmstat")?;
        let mut buddyinfo = ProcFile::open("/proc/buddyinfo")?;
        let mut zoneinfo = ProcFile::open("/proc/zoneinfo")?;
        let files =
            [("/proc/vmstat", &mut vmstat), ("/proc/buddyinfo", &mut buddyinfo), ("/proc/zoneinfo", &mut zoneinfo)];
        for (path, file) in files {
            if file.text()?.trim().is_empty() {
                return Err(CaptureError::Empty(path));
            }
        }
        let names = counters(vmstat.text()?).map(|(name, _)| name.to_owned()).collect();
        let (zones, zone_names) = layout(&zone_counters(zoneinfo.text()?));
        let (mut pressures, mut pressure_names) = (Vec::new(), Vec::new());
        for (resource, path) in PRESSURES {
            // The file is missing if the kernel was built without pressure, and unreadable if it was booted without.
            let Ok(mut file) = ProcFile::open(path) else { continue };
            pressure_names.extend(pressure_totals(file.text()?).map(|(kind, _)| format!("{resource}.{kind}")));
            pressures.push(file);
        }
        let readings = Readings { names, pressure_names, zone_names, zones, all: Vec::with_capacity(1024) };
        Ok(Sampler { vmstat, buddyinfo, zoneinfo, pressures, readings })
    }

    /// Returns the current text of `/proc/zoneinfo`.
    ///
    /// # Errors
    /// If it can no longer be read.
    pub(crate) fn zoneinfo(&mut self) -> Result<String, CaptureError> {
        self.zoneinfo.text().map(str::to_owned)
    }

    /// Returns the current value of a counter of vmstat; 0 if this kernel has no such counter.
    ///
    /// # Errors
    /// If vmstat can no longer be read.
    pub(crate) fn counter(&mut self, name: &str) -> Result<u64, CaptureError> {
        let counter = counters(self.vmstat.text()?).find(|(counter, _)| *counter == name);
        Ok(counter.map_or(0, |(_, value)| value))
    }

    /// Takes a reading.
    ///
    /// # Errors
    /// If a file can no longer be read.
    pub(crate) fn take(&mut self) -> Result<(), CaptureError> {
        let time = clock::now();
        let buddyinfo = self.buddyinfo.text()?.to_owned();
        let vmstat = counters(self.vmstat.text()?).map(|(_, value)| value).collect();
        let mut pressure = Vec::with_capacity(self.readings.pressure_names.len());
        for file in &mut self.pressures {
            pressure.extend(pressure_totals(file.text()?).map(|(_, total)| total));
        }
        let counters = zone_counters(self.zoneinfo.text()?);
        let Readings { zone_names, zones, all, .. } = &mut self.readings;
        let zones = zones.iter().map(|zone| values(&counters, zone, zone_names)).collect();
        all.push(Reading { time, vmstat, buddyinfo, pressure, zones });
        Ok(())
    }
}

/// Returns the zones, and the names of their counters.
fn layout(zones: &[ZoneCounters<'_>]) -> (Vec<(u16, String)>, Vec<String>) {
    let keys = zones.iter().map(|zone| (zone.node, zone.zone.to_owned())).collect();
    let mut names: Vec<String> = Vec::new();
    for &(name, _) in zones.iter().flat_map(|zone| &zone.counters) {
        if names.iter().all(|known| known != name) {
            names.push(name.to_owned());
        }
    }
    (keys, names)
}

/// Returns the counters of a zone in the order of `names`; 0 for counters that it lacks.
fn values(zones: &[ZoneCounters<'_>], zone: &(u16, String), names: &[String]) -> Vec<u64> {
    let counters = zones.iter().find(|counters| (counters.node, counters.zone) == (zone.0, &*zone.1));
    names.iter().map(|name| counters.and_then(|counters| counters.get(name)).unwrap_or(0)).collect()
}

/// Returns the names and values of vmstat.
fn counters(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        Some((name, value.trim().parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vmstat_counters_are_parsed() {
        let pairs: Vec<_> = counters("nr_free_pages 5\nbroken\npgfault 18446744073709551615\n").collect();
        assert_eq!(pairs, [("nr_free_pages", 5), ("pgfault", u64::MAX)]);
    }

    #[test]
    fn readings_have_equal_shape() {
        let mut sampler = Sampler::open().unwrap();
        sampler.take().unwrap();
        sampler.take().unwrap();
        let readings = &sampler.readings;
        let [first, second] = &readings.all[..] else { panic!("two readings") };
        assert_eq!(first.vmstat.len(), readings.names.len());
        assert_eq!(first.buddyinfo.lines().count(), second.buddyinfo.lines().count());
        assert!(first.time <= second.time);
        assert_eq!(first.pressure.len(), readings.pressure_names.len());
        assert!(first.pressure.iter().zip(&second.pressure).all(|(first, second)| first <= second));
        let (zones, counters) = (first.buddyinfo.lines().count(), readings.zone_names.len());
        assert_eq!(first.zones.iter().map(Vec::len).collect::<Vec<_>>(), vec![counters; zones]);
        assert!(sampler.counter("pgfault").unwrap() > 0);
        assert_eq!(sampler.counter("no such counter").unwrap(), 0);
    }
}
