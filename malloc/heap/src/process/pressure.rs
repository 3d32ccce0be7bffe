//! Detection of memory pressure: the control group's limit is near, or tasks of the group stall on memory.
//!
//! The kernel's files are opened, read and closed for each check. A descriptor that stayed open would be unreliable: a
//! program may close all files that it did not open itself, and reuse the numbers for its own files. The helper opens
//! them in a separate file table. If the kernel has no such files, no pressure is detected.
//!
//! linux: Documentation/admin-guide/cgroup-v2.rst, Documentation/accounting/psi.rst

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::read;

use super::sandbox;

/// Bytes from which on a value is not a limit.
const NO_LIMIT: u64 = 1 << 60;
/// Divisor of a limit: the limit is near when less than this share of it is left.
const NEAR_SHARE: u64 = 16;
/// Share of the last ten seconds, in hundredths of a percent, from which on stalls of tasks count as pressure.
const STALLED: u64 = 1000;
/// Bytes of the longest path.
const PATH: usize = 512;

/// File that names the control groups of this process.
const GROUPS: &CStr = c"/proc/self/cgroup";
/// Folder and file names of the memory controller in version 1 of control groups; `SECOND` has those of version 2.
const FIRST: Files = Files {
    folder: "/sys/fs/cgroup/memory",
    used: "/memory.usage_in_bytes",
    limits: &["/memory.limit_in_bytes"],
    idle: "total_inactive_file ",
    stalls: None,
};
const SECOND: Files = Files {
    folder: "/sys/fs/cgroup",
    used: "/memory.current",
    limits: &["/memory.max", "/memory.high"],
    idle: "inactive_file ",
    stalls: Some("/memory.pressure"),
};

/// Names of a control group's files.
struct Files {
    folder: &'static str,
    used: &'static str,
    limits: &'static [&'static str],
    /// Prefix of the line in `memory.stat` that gives the bytes of inactive file pages.
    idle: &'static str,
    stalls: Option<&'static str>,
}

/// Distance to the control group's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// The group has no limit.
    None,
    /// Enough is left: `left` bytes until the limit is near, or 0 if the distance cannot be determined now.
    Far { left: usize },
    /// Little is left, not counting inactive file pages, which the kernel reclaims when memory is needed.
    Near,
}

/// Returns whether memory is short: the group's limit is near, or tasks of the group stall on memory. Returns `false`
/// if that cannot be determined now. Makes up to 18 system calls.
pub(super) fn is_short() -> bool {
    TEXT.with(|text| {
        with_group(text, |files, group, text| {
            files.limit(group, text, 0) == Limit::Near || files.is_stalled(group, text)
        })
    })
    .flatten()
    .unwrap_or(false)
}

/// Returns the distance to the group's limit when `more` bytes are charged to the group. Makes up to 15 system calls.
pub(super) fn limit(more: usize) -> Limit {
    let limit = TEXT.with(|text| with_group(text, |files, group, text| files.limit(group, text, more as u64)));
    limit.map_or(Limit::Far { left: 0 }, |limit| limit.unwrap_or(Limit::None))
}

/// Buffer for the contents of the kernel's files, for one user at a time. The stacks of signal handlers may be too
/// small.
struct Text {
    is_busy: AtomicBool,
    bytes: UnsafeCell<[u8; 8192]>,
}

// SAFETY: only the thread that set `is_busy` accesses the bytes.
unsafe impl Sync for Text {}

static TEXT: Text = Text { is_busy: AtomicBool::new(false), bytes: UnsafeCell::new([0; 8192]) };

impl Text {
    /// Calls `look` with the buffer; returns `None` if the buffer is in use.
    fn with<R>(&self, look: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        if self.is_busy.swap(true, Acquire) {
            return None;
        }
        // SAFETY: this call has set `is_busy`, so no other call accesses the bytes until it is cleared.
        let result = look(unsafe { &mut *self.bytes.get() });
        self.is_busy.store(false, Release);
        Some(result)
    }

    /// Releases the buffer in a forked child, in which the thread that used it does not exist.
    fn forget(&self) {
        self.is_busy.store(false, Relaxed);
    }
}

/// Resets the state in a forked child, which has one thread.
pub(super) fn in_child() {
    TEXT.forget();
}

/// Calls `look` with the control group of this process; returns `None` if it has none, or if no file may be opened.
fn with_group<R>(text: &mut [u8], look: impl FnOnce(&Files, &str, &mut [u8]) -> R) -> Option<R> {
    if sandbox::is_restricted() {
        return None;
    }
    let (path, rest) = text.split_at_mut(PATH);
    let (files, group) = read_file(GROUPS, rest).and_then(group_of)?;
    let path = path.get_mut(..group.len())?;
    path.copy_from_slice(group.as_bytes());
    Some(look(&files, core::str::from_utf8(path).ok()?, rest))
}

/// Returns the group to which memory is charged, and the names of its files; `None` if the text names no such group.
fn group_of(text: &str) -> Option<(Files, &str)> {
    let first = find_group(text, |controllers| controllers.split(',').any(|name| name == "memory"));
    first.map(|group| (FIRST, group)).or_else(|| find_group(text, str::is_empty).map(|group| (SECOND, group)))
}

/// Returns the path of the first group whose list of controllers `is_wanted` accepts, or `None` if there is none.
fn find_group(text: &str, is_wanted: fn(&str) -> bool) -> Option<&str> {
    text.lines().find_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        is_wanted(controllers).then_some(group)
    })
}

impl Files {
    fn limit(&self, group: &str, text: &mut [u8], more: u64) -> Limit {
        // The value "max" of version 2 is not a number, so it is no limit. Version 1 has a very large number instead.
        let limits = self.limits.iter().filter_map(|name| self.read_number(group, name, text));
        let Some(limit) = limits.min().filter(|&limit| limit < NO_LIMIT) else { return Limit::None };
        let Some(used) = self.read_number(group, self.used, text) else { return Limit::Far { left: 0 } };
        distance(used + more, limit).unwrap_or_else(|| {
            let idle = self.read(group, "/memory.stat", text).and_then(|text| field(text, self.idle)).unwrap_or(0);
            distance((used + more).saturating_sub(idle), limit).unwrap_or(Limit::Near)
        })
    }

    fn is_stalled(&self, group: &str, text: &mut [u8]) -> bool {
        self.stalls.and_then(|name| self.read(group, name, text)).is_some_and(is_stalled)
    }

    fn read_number(&self, group: &str, name: &str, text: &mut [u8]) -> Option<u64> {
        self.read(group, name, text)?.trim().parse().ok()
    }

    fn read<'t>(&self, group: &str, name: &str, text: &'t mut [u8]) -> Option<&'t str> {
        let mut path = [0; PATH];
        let mut end = 0;
        for part in [self.folder, group.trim_end_matches('/'), name] {
            path.get_mut(end..end + part.len())?.copy_from_slice(part.as_bytes());
            end += part.len();
        }
        read_file(CStr::from_bytes_until_nul(&path).ok()?, text)
    }
}

/// Returns the distance to a limit, or `None` if it is near.
fn distance(used: u64, limit: u64) -> Option<Limit> {
    let left = (limit - limit / NEAR_SHARE).checked_sub(used)?;
    Some(Limit::Far { left: left as usize })
}

/// Returns the number after a prefix that begins a line, or `None` if there is none.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// Returns whether the text reports stalls above the threshold.
fn is_stalled(text: &str) -> bool {
    stalled_share(text).is_some_and(|share| share >= STALLED)
}

/// Returns the share of the last ten seconds in which some task stalled, in hundredths of a percent; `None` if the text
/// does not state it.
fn stalled_share(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let number = line.split(' ').find_map(|word| word.strip_prefix("avg10="))?;
    let (whole, hundredths) = number.split_once('.')?;
    Some(whole.parse::<u64>().ok()? * 100 + hundredths.parse::<u64>().ok()?)
}

/// Reads the beginning of a file, as much as the buffer has room for; returns `None` if the file cannot be read or is
/// not text.
fn read_file<'t>(path: &CStr, text: &'t mut [u8]) -> Option<&'t str> {
    let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let bytes = read(&file, &mut *text).ok()?;
    core::str::from_utf8(text.get(..bytes)?).ok()
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn memory_cgroup_is_parsed_for_v1_and_v2() {
        for (text, expected) in [
            ("0::/user/one\n", Some((SECOND.used, "/user/one"))),
            ("5:cpu,memory:/a\n0::/b\n", Some((FIRST.used, "/a"))),
            ("5:cpu:/a\n", None),
            ("", None),
        ] {
            assert_eq!(group_of(text).map(|(files, group)| (files.used, group)), expected);
        }
    }

    #[test]
    fn memory_stat_fields_are_found_by_name() {
        let text = "inactive_file 7\ntotal_inactive_file 4096\n";
        assert_eq!(
            ["inactive_file ", "total_inactive_file ", "file "].map(|name| field(text, name)),
            [Some(7), Some(4096), None]
        );
        assert_eq!([95, 90].map(|used| distance(used, 100)), [None, Some(Limit::Far { left: 4 })]);
    }

    #[test]
    fn pressure_stalls_are_parsed() {
        for (share, expected) in [("0.00", false), ("9.99", false), ("10.00", true), ("80.12", true)] {
            let text = std::format!("some avg10={share} avg60=0.00 avg300=0.00 total=5\nfull avg10=99.00\n");
            assert_eq!(is_stalled(&text), expected, "{share}");
        }
        assert!(!is_stalled("nothing"));
    }
}
