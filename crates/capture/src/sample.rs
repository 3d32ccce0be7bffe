//! `/proc/vmstat` and `/proc/buddyinfo`, read again and again through files that stay open.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::clock;
use super::error::CaptureError;

/// The longest text that is read: vmstat has about 200 lines.
const TEXT_BYTES: usize = 64 << 10;

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
        Ok(ProcFile { path, file, buffer: vec![1; TEXT_BYTES] })
    }

    /// The file's text as it is now.
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
pub struct Reading {
    /// The monotonic clock, in nanoseconds.
    pub time: u64,
    /// The counters of vmstat.
    pub vmstat: Vec<u64>,
    /// The text of buddyinfo: a line for each zone.
    pub buddyinfo: String,
}

/// Takes readings.
#[derive(Debug)]
pub struct Sampler {
    vmstat: ProcFile,
    buddyinfo: ProcFile,
    /// Names of vmstat's counters.
    pub names: Vec<String>,
    /// What was read so far.
    pub readings: Vec<Reading>,
}

impl Sampler {
    /// Opens the files.
    ///
    /// # Errors
    /// When one is missing.
    pub fn open() -> Result<Sampler, CaptureError> {
        let mut vmstat = ProcFile::open("/proc/vmstat")?;
        let buddyinfo = ProcFile::open("/proc/buddyinfo")?;
        let names = counters(vmstat.text()?).map(|(name, _)| name.to_owned()).collect();
        Ok(Sampler { vmstat, buddyinfo, names, readings: Vec::with_capacity(1024) })
    }

    /// A counter of vmstat as it is now; 0 if this kernel has none of this name.
    ///
    /// # Errors
    /// When vmstat cannot be read any more.
    pub fn counter(&mut self, name: &str) -> Result<u64, CaptureError> {
        let found = counters(self.vmstat.text()?).find(|(found, _)| *found == name);
        Ok(found.map_or(0, |(_, value)| value))
    }

    /// Takes a reading now.
    ///
    /// # Errors
    /// When a file cannot be read any more.
    pub fn take(&mut self) -> Result<(), CaptureError> {
        let time = clock::now();
        let buddyinfo = self.buddyinfo.text()?.to_owned();
        let vmstat = counters(self.vmstat.text()?).map(|(_, value)| value).collect();
        self.readings.push(Reading { time, vmstat, buddyinfo });
        Ok(())
    }
}

/// Names and values of vmstat.
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
    fn reads_the_kernels_texts() {
        let pairs: Vec<_> = counters("nr_free_pages 5\nbroken\npgfault 18446744073709551615\n").collect();
        assert_eq!(pairs, [("nr_free_pages", 5), ("pgfault", u64::MAX)]);
    }

    #[test]
    fn readings_are_alike() {
        let mut sampler = Sampler::open().unwrap();
        sampler.take().unwrap();
        sampler.take().unwrap();
        let [first, second] = &sampler.readings[..] else { panic!("two readings") };
        assert_eq!(first.vmstat.len(), sampler.names.len());
        assert_eq!(first.buddyinfo.lines().count(), second.buddyinfo.lines().count());
        assert!(first.time <= second.time);
        assert!(sampler.counter("pgfault").unwrap() > 0);
        assert_eq!(sampler.counter("no such counter").unwrap(), 0);
    }
}
