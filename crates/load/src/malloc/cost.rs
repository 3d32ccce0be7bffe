//! What a process has taken so far.

use std::fmt;
use std::fs;
use std::io;

use rustix::time::{ClockId, clock_gettime};

/// CPU time and memory.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    cpu_ns: u64,
    /// The most that was resident, and what is now, in KiB.
    peak: u64,
    resident: u64,
    /// Bytes that are in use.
    live: usize,
}

impl Cost {
    /// Up to now, with so many bytes in use.
    pub fn so_far(live: usize) -> io::Result<Cost> {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let cpu_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        Ok(Cost { cpu_ns, peak: kib("VmHWM")?, resident: resident_kib()?, live })
    }
}

/// KiB that are resident now.
pub fn resident_kib() -> io::Result<u64> {
    kib("VmRSS")
}

/// A line of what the kernel says of this process.
fn kib(name: &str) -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim_start_matches(':').split_whitespace().next()?.parse().ok())
        .ok_or_else(|| io::Error::other(format!("the kernel does not say {name}")))
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cost { cpu_ns, peak, resident, live } = self;
        write!(f, "{{\"cpu_ns\":{cpu_ns},\"peak_kib\":{peak},\"resident_kib\":{resident},\"live_bytes\":{live}}}")
    }
}
