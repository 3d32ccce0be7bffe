//! Name, memory and CPU time of the process.
//!
//! The numbers come from `/proc/self` and the process's CPU clock, at the cost of a few system calls and no allocation.
//! A number that the kernel does not report is absent.

use core::ffi::CStr;
use core::fmt;

/// Shortest lifetime in milliseconds of a process that is not brief.
pub const LIFETIME_MIN: u64 = 1000;
/// Least peak of resident memory in bytes of a process that is not brief.
pub const PEAK_MIN: usize = 64 << 20;

/// Most bytes of the kernel's name of a process.
const NAME_MAX: usize = 15;
/// Bytes that are read of a file in `/proc/self`.
const READ_MAX: usize = 4096;

/// Memory and CPU time of the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    name: [u8; NAME_MAX],
    process: i32,
    /// Peak of resident memory in bytes.
    peak: Option<usize>,
    /// Resident memory in bytes.
    resident: Option<usize>,
    /// CPU time in user and kernel mode, in milliseconds.
    cpu_ms: u64,
    /// Time since the process was created, in milliseconds.
    lifetime_ms: Option<u64>,
}

impl Usage {
    /// Returns the usage of this process until now.
    pub fn of_process() -> Usage {
        let mut buffer = [0; READ_MAX];
        // SAFETY: `getpid` takes no arguments and has no preconditions.
        let mut usage = Usage { process: unsafe { libc::getpid() }, cpu_ms: cpu_ms(), ..Usage::default() };
        usage.read_stat(read(c"/proc/self/stat", &mut buffer));
        usage.read_status(read(c"/proc/self/status", &mut buffer));
        usage
    }

    /// Returns whether the process lived less than [`LIFETIME_MIN`] and never used [`PEAK_MIN`] of memory. A process of
    /// unknown lifetime or memory is not brief.
    pub fn is_brief(&self) -> bool {
        self.lifetime_ms.is_some_and(|lifetime| lifetime < LIFETIME_MIN)
            && self.peak.is_some_and(|peak| peak < PEAK_MIN)
    }

    /// Reads the name and the start time from the contents of `/proc/self/stat`. The name is in parentheses, and may
    /// contain parentheses and spaces.
    fn read_stat(&mut self, text: &[u8]) {
        let start = text.iter().position(|&byte| byte == b'(').map_or(0, |at| at + 1);
        let Some(end) = text.iter().rposition(|&byte| byte == b')').filter(|&end| end >= start) else { return };
        for (to, &from) in self.name.iter_mut().zip(&text[start..end]) {
            *to = if from == b' ' || from.is_ascii_graphic() { from } else { b'?' };
        }
        // The start time is field 22, and the first one after the name is field 3.
        let ticks = text[end + 1..].split(|&byte| byte == b' ').filter(|field| !field.is_empty()).nth(22 - 3);
        let start_ms = ticks.and_then(number).zip(ticks_per_second()).map(|(ticks, rate)| ticks * 1000 / rate);
        self.lifetime_ms = start_ms.map(|start| since_boot_ms().saturating_sub(start));
    }

    /// Reads resident memory from the contents of `/proc/self/status`.
    fn read_status(&mut self, text: &[u8]) {
        for line in text.split(|&byte| byte == b'\n') {
            for (label, to) in [(&b"VmHWM:"[..], &mut self.peak), (b"VmRSS:", &mut self.resident)] {
                if let Some(rest) = line.strip_prefix(label) {
                    let digits = rest.trim_ascii().split(|&byte| byte == b' ').next();
                    *to = digits.and_then(number).map(|kibibytes| (kibibytes as usize) << 10);
                }
            }
        }
    }

    /// Returns the usage with the longest text.
    #[cfg(test)]
    pub(super) fn longest() -> Usage {
        Usage {
            name: [b'x'; NAME_MAX],
            process: i32::MIN,
            peak: Some(usize::MAX),
            resident: Some(usize::MAX),
            cpu_ms: u64::MAX,
            lifetime_ms: None,
        }
    }

    fn name(&self) -> &str {
        let end = self.name.iter().position(|&byte| byte == 0).unwrap_or(NAME_MAX);
        core::str::from_utf8(&self.name[..end]).unwrap_or_default()
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.process)?;
        if !self.name().is_empty() {
            write!(f, " ({})", self.name())?;
        }
        for (label, bytes) in [("peak", self.peak), ("resident", self.resident)] {
            let separator = if label == "peak" { ":" } else { "," };
            match bytes {
                Some(bytes) => write!(f, "{separator} {label} {} MiB", Mebibytes(bytes))?,
                None => write!(f, "{separator} {label} -")?,
            }
        }
        write!(f, ", CPU {}.{:02} s", self.cpu_ms / 1000, self.cpu_ms % 1000 / 10)
    }
}

/// Bytes that are formatted in MiB with one decimal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mebibytes(pub(super) usize);

impl fmt::Display for Mebibytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 as u128 * 10 + (1 << 19)) >> 20;
        write!(f, "{}.{}", tenths / 10, tenths % 10)
    }
}

/// Returns whether this process is a child of the process `parent`.
pub fn is_child_of(parent: i32) -> bool {
    // SAFETY: `getppid` takes no arguments and has no preconditions.
    parent > 0 && unsafe { libc::getppid() } == parent
}

/// Reads the beginning of a file into `buffer`; returns an empty slice if it cannot be read.
fn read<'b>(path: &CStr, buffer: &'b mut [u8]) -> &'b [u8] {
    // SAFETY: the path ends in a zero byte; the pointer and the length are those of the live buffer, and the descriptor
    // is closed once.
    let count = unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return &[];
        }
        let count = libc::read(file, buffer.as_mut_ptr().cast(), buffer.len());
        libc::close(file);
        count
    };
    usize::try_from(count).ok().and_then(|count| buffer.get(..count)).unwrap_or_default()
}

fn number(text: &[u8]) -> Option<u64> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

fn ticks_per_second() -> Option<u64> {
    // SAFETY: `getauxval` takes no pointer and returns a number.
    let ticks = unsafe { libc::getauxval(libc::AT_CLKTCK) };
    (ticks > 0).then_some(ticks)
}

/// Returns the CPU time of the process in milliseconds.
fn cpu_ms() -> u64 {
    clock_ms(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the time since the system's start in milliseconds, including the time in which it was suspended.
fn since_boot_ms() -> u64 {
    clock_ms(libc::CLOCK_BOOTTIME)
}

/// Returns the time of a clock in milliseconds; zero if the system does not have the clock.
fn clock_ms(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes at most one `timespec` into the live variable `time`.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn name_and_lifetime_are_parsed() {
        let mut usage = Usage { process: 7, ..Usage::default() };
        usage.read_stat(b"7 (a) b\x1b\n) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 1 20");
        assert_eq!(usage.name(), "a) b??");
        let lifetime = usage.lifetime_ms.unwrap();
        assert!(since_boot_ms() - lifetime <= 10 + 1000, "{lifetime}");
        usage.read_status(b"Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t     100 kB\n");
        assert_eq!((usage.peak, usage.resident), (Some(2048 << 10), Some(100 << 10)));
        assert_eq!(usage.to_string(), "process 7 (a) b??): peak 2.0 MiB, resident 0.1 MiB, CPU 0.00 s");
        let mut unknown = Usage::default();
        for text in [&b""[..], b")(", b"1 (a", b"1 (a) S 1"] {
            unknown.read_stat(text);
            assert_eq!(unknown.lifetime_ms, None);
        }
        assert!(Usage { process: 3, cpu_ms: 1234, ..Usage::default() }.to_string().ends_with("resident -, CPU 1.23 s"));
    }

    #[test]
    fn brief_process_is_short_and_small() {
        let usage = Usage { lifetime_ms: Some(LIFETIME_MIN - 1), peak: Some(PEAK_MIN - 1), ..Usage::default() };
        assert!(usage.is_brief());
        assert!(!Usage { lifetime_ms: Some(LIFETIME_MIN), ..usage }.is_brief());
        assert!(!Usage { peak: Some(PEAK_MIN), ..usage }.is_brief());
        assert!(!Usage { lifetime_ms: None, ..usage }.is_brief() && !Usage { peak: None, ..usage }.is_brief());
    }

    #[test]
    fn usage_of_this_process_is_complete() {
        let usage = Usage::of_process();
        assert!(usage.peak >= usage.resident && usage.resident > Some(0), "{usage:?}");
        assert!(!usage.name().is_empty() && usage.lifetime_ms.is_some(), "{usage:?}");
    }
}
