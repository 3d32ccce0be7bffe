//! Costs of a process: CPU time and memory, since its start or since its load began.

use std::fmt;
use std::fs;
use std::io;

use rustix::time::{ClockId, clock_gettime};

/// CPU time and memory of a load.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// CPU time in nanoseconds.
    pub cpu_ns: u64,
    /// Peak resident memory, in KiB.
    pub peak: u64,
    /// Current resident memory, in KiB.
    pub resident: u64,
    /// Bytes in use.
    pub live: usize,
    /// Resident memory when the load began, in KiB.
    pub start: u64,
    /// Minor page faults, which read nothing from a disk.
    pub faults: u64,
    /// Number of operations of the load.
    pub steps: usize,
    /// Child processes that failed.
    pub lost: usize,
    /// Memory that is charged to the control group of the load, in KiB; 0 if the load has none.
    pub charged: u64,
}

/// State of the process when a load began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    cpu_ns: u64,
    resident: u64,
}

impl Start {
    /// Records the current state.
    pub(super) fn now() -> io::Result<Start> {
        Ok(Start { resident: resident_kib()?, cpu_ns: cpu_ns() })
    }
}

impl Cost {
    /// Returns the costs of the whole process so far, with `live` bytes in use.
    pub(super) fn so_far(live: usize) -> io::Result<Cost> {
        let cpu_ns = cpu_ns();
        let faults = minor_faults(&fs::read_to_string("/proc/self/stat")?)?;
        let status = Status::read("self")?;
        let (peak, resident) = (status.kib("VmHWM")?, status.kib("VmRSS")?);
        Ok(Cost { cpu_ns, peak, resident, live, faults, steps: 1, ..Cost::default() })
    }

    /// Returns the costs since the load began, for `steps` operations.
    pub(super) fn since(start: Start, live: usize, steps: usize) -> io::Result<Cost> {
        let whole = Cost::so_far(live)?;
        Ok(Cost { cpu_ns: whole.cpu_ns - start.cpu_ns, start: start.resident, steps, ..whole })
    }
}

/// Returns the current resident memory in KiB.
pub(super) fn resident_kib() -> io::Result<u64> {
    Status::read("self")?.kib("VmRSS")
}

/// Returns the CPU time of this process in nanoseconds.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the minor faults of a process, from its line in `/proc/PID/stat`.
pub(super) fn minor_faults(stat: &str) -> io::Result<u64> {
    // Index of the field after the name of the program, counted from the state.
    const MINOR_FAULTS: usize = 7;
    let rest = stat.rsplit_once(") ").map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split_whitespace().nth(MINOR_FAULTS)?.parse().ok())
        .ok_or_else(|| io::Error::other("/proc/self/stat has no number of page faults"))
}

/// Text of `/proc/PID/status`.
pub(super) struct Status(pub(super) String);

impl Status {
    pub(super) fn read(process: &str) -> io::Result<Status> {
        Ok(Status(fs::read_to_string(format!("/proc/{process}/status"))?))
    }

    /// Returns the number in the line with this name.
    pub(super) fn kib(&self, name: &str) -> io::Result<u64> {
        let line = self.0.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim_start_matches(':').split_whitespace().next()?.parse().ok())
            .ok_or_else(|| io::Error::other(format!("/proc/PID/status has no {name}")))
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cost { cpu_ns, peak, resident, live, start, faults, steps, lost, charged } = self;
        write!(f, "{{\"cpu_ns\":{cpu_ns},\"peak_kib\":{peak},\"resident_kib\":{resident},\"live_bytes\":{live},")?;
        write!(f, "\"start_kib\":{start},\"faults\":{faults},\"steps\":{steps},\"lost\":{lost},")?;
        write!(f, "\"charged_kib\":{charged}}}")
    }
}
