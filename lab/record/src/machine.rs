//! Facts about the machine that the recorder needs before it starts: CPUs, memory, page size, kernel.

use std::fs;
use std::path::Path;

use freehold_trace::facts::Facts;
use rustix::param::page_size;
use rustix::system::{sysinfo, uname};

use crate::error::CaptureError;

/// Part of the memory that the rings of all CPUs take: memory divided by this.
const RING_SHARE: u64 = 256;
/// Bounds of the ring of one CPU, in KiB. The upper bound holds about half a second of the busiest machine.
const RING_KIB: (u64, u64) = (1024, 32 * 1024);

/// The machine when the recording starts.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// CPUs that are online, in order.
    pub cpus: Vec<u16>,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes in a page.
    pub page_size: usize,
    /// `uname -r`.
    pub kernel_release: String,
    /// `uname -m`.
    pub architecture: String,
}

impl Machine {
    /// Reads the facts.
    ///
    /// # Errors
    /// If sysfs is missing.
    pub(crate) fn look() -> Result<Machine, CaptureError> {
        let path = Path::new("/sys/devices/system/cpu/online");
        let online = fs::read_to_string(path).map_err(CaptureError::kernel(path))?;
        let cpus = cpu_list(online.trim()).ok_or_else(|| CaptureError::Format {
            what: path.display().to_string(),
            reason: format!("its contents are `{}`", online.trim()),
        })?;
        let info = sysinfo();
        let name = uname();
        Ok(Machine {
            cpus,
            memory_bytes: info.totalram * u64::from(info.mem_unit),
            page_size: page_size(),
            kernel_release: name.release().to_string_lossy().into_owned(),
            architecture: name.machine().to_string_lossy().into_owned(),
        })
    }

    /// Returns a ring size for each CPU that fits the machine's memory, in KiB.
    pub(crate) fn ring_kib(&self) -> u64 {
        let share = self.memory_bytes / 1024 / RING_SHARE / self.cpus.len().max(1) as u64;
        share.clamp(RING_KIB.0, RING_KIB.1)
    }

    /// Returns the facts that are known before anything is recorded. `ram` lists the machine's frames.
    pub(crate) fn facts(&self, ram: Vec<(u64, u64)>) -> Facts {
        Facts {
            writer: concat!("freehold ", env!("CARGO_PKG_VERSION")).to_owned(),
            kernel_release: self.kernel_release.clone(),
            machine: self.architecture.clone(),
            page_size: u32::try_from(self.page_size).unwrap_or(0),
            cpus: u16::try_from(self.cpus.len()).unwrap_or(u16::MAX),
            ram,
            ..Facts::default()
        }
    }
}

/// Checks that the process runs as root: page frame numbers are hidden from other users.
///
/// # Errors
/// [`CaptureError::NotRoot`].
pub(crate) fn expect_root() -> Result<(), CaptureError> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err(CaptureError::NotRoot) }
}

/// Parses a list such as `0-3,8`.
fn cpu_list(text: &str) -> Option<Vec<u16>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u16>().ok()?..=last.parse().ok()?);
    }
    (!cpus.is_empty()).then_some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_parsed() {
        assert_eq!(cpu_list("0-3,8"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(cpu_list("0"), Some(vec![0]));
        assert_eq!(cpu_list(""), None);
        assert_eq!(cpu_list("3-0"), None);
        assert_eq!(cpu_list("x-1"), None);
    }

    #[test]
    fn ring_size_follows_the_machine() {
        for (mib, cpus, expected) in [(512, 8, 1024), (4096, 2, 8192), (24 << 10, 2, 32 * 1024)] {
            let machine = Machine {
                cpus: (0..cpus).collect(),
                memory_bytes: mib << 20,
                page_size: 4096,
                kernel_release: String::new(),
                architecture: String::new(),
            };
            assert_eq!(machine.ring_kib(), expected, "{mib} MiB");
        }
    }
}
