//! Whether memory is short where this process runs: near the limit of its control group, or stalled for it.
//!
//! The kernel's files are opened, read and closed at each look: a program that closes all files it did not open, and
//! opens others, would have us read from those. The helper does so in a table of files of its own. Where there are no
//! such files, memory is never short.
//!
//! linux: Documentation/admin-guide/cgroup-v2.rst, Documentation/accounting/psi.rst

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::read;

/// Bytes that are no limit.
const NO_LIMIT: u64 = 1 << 60;
/// A limit is near when a 16th of it is left.
const NEAR_SHARE: u64 = 16;
/// Hundredths of a percent of ten seconds in which some task waits for memory, from which on it is short.
const STALLED: u64 = 1000;
/// Bytes of the longest path.
const PATH: usize = 512;

/// Where the kernel says which group this process is in.
const GROUPS: &CStr = c"/proc/self/cgroup";
/// The controller's folder and the names of its files, of the first version and of the second.
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

/// Names of a group's files.
struct Files {
    folder: &'static str,
    used: &'static str,
    limits: &'static [&'static str],
    /// What stands in `memory.stat` before the bytes of file pages that nobody uses.
    idle: &'static str,
    stalls: Option<&'static str>,
}

/// How near the limit of the control group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// It has none.
    None,
    /// A part of it is left, or nobody can say now.
    Far,
    /// Little of it is left, beside file pages that nobody uses: these go when memory is needed.
    Near,
}

/// Whether memory is short: the group's limit is near, or tasks of the group wait for memory. Costs some ten system
/// calls.
pub(super) fn is_short() -> bool {
    TEXT.with(|text| {
        with_group(text, |files, group, text| files.limit(group, text) == Limit::Near || files.is_stalled(group, text))
    })
    .flatten()
    .unwrap_or(false)
}

/// How near the group's limit is. Costs some ten system calls.
pub(super) fn limit() -> Limit {
    let limit = TEXT.with(|text| with_group(text, Files::limit));
    limit.map_or(Limit::Far, |limit| limit.unwrap_or(Limit::None))
}

/// Room for what the kernel's files say, for one at a time: stacks of handlers may have none.
struct Text {
    is_busy: AtomicBool,
    bytes: UnsafeCell<[u8; 8192]>,
}

// SAFETY: the bytes are those of whoever has made it busy.
unsafe impl Sync for Text {}

static TEXT: Text = Text { is_busy: AtomicBool::new(false), bytes: UnsafeCell::new([0; 8192]) };

impl Text {
    /// `None` if somebody else is at it.
    fn with<R>(&self, look: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        if self.is_busy.swap(true, Acquire) {
            return None;
        }
        // SAFETY: whoever has made it busy has the bytes.
        let result = look(unsafe { &mut *self.bytes.get() });
        self.is_busy.store(false, Release);
        Some(result)
    }

    /// In a child, whose other threads are not there.
    fn forget(&self) {
        self.is_busy.store(false, Relaxed);
    }
}

/// In a child, which has one thread.
pub(super) fn in_child() {
    TEXT.forget();
}

/// Looks at the group of this process; nothing if it has none.
fn with_group<R>(text: &mut [u8], look: impl FnOnce(&Files, &str, &mut [u8]) -> R) -> Option<R> {
    let (path, rest) = text.split_at_mut(PATH);
    let (files, group) = read_file(GROUPS, rest).and_then(group_of)?;
    let path = path.get_mut(..group.len())?;
    path.copy_from_slice(group.as_bytes());
    Some(look(&files, core::str::from_utf8(path).ok()?, rest))
}

/// The group that memory is charged to, and its files.
fn group_of(text: &str) -> Option<(Files, &str)> {
    let first = find_group(text, |controllers| controllers.split(',').any(|name| name == "memory"));
    first.map(|group| (FIRST, group)).or_else(|| find_group(text, str::is_empty).map(|group| (SECOND, group)))
}

/// The path of the first group whose controllers are wanted.
fn find_group(text: &str, is_wanted: fn(&str) -> bool) -> Option<&str> {
    text.lines().find_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        is_wanted(controllers).then_some(group)
    })
}

impl Files {
    fn limit(&self, group: &str, text: &mut [u8]) -> Limit {
        // "max" is no number, and no limit; the first version has a very large one.
        let limits = self.limits.iter().filter_map(|name| self.read_number(group, name, text));
        let Some(limit) = limits.min().filter(|&limit| limit < NO_LIMIT) else { return Limit::None };
        let usage = self.read_number(group, self.used, text);
        let Some(used) = usage.filter(|&used| is_near(used, limit)) else { return Limit::Far };
        let idle = self.read(group, "/memory.stat", text).and_then(|text| field(text, self.idle)).unwrap_or(0);
        if is_near(used.saturating_sub(idle), limit) { Limit::Near } else { Limit::Far }
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

fn is_near(used: u64, limit: u64) -> bool {
    used > limit - limit / NEAR_SHARE
}

/// The number behind a name that begins a line.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// Whether a line says that tasks waited for too long.
fn is_stalled(text: &str) -> bool {
    stalled_share(text).is_some_and(|share| share >= STALLED)
}

/// The share of the last ten seconds in which some task waited, in hundredths of a percent.
fn stalled_share(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let number = line.split(' ').find_map(|word| word.strip_prefix("avg10="))?;
    let (whole, hundredths) = number.split_once('.')?;
    Some(whole.parse::<u64>().ok()? * 100 + hundredths.parse::<u64>().ok()?)
}

/// What a file begins with, if that is text.
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
    fn the_group_of_memory_is_found() {
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
    fn numbers_of_a_list_are_found_by_name() {
        let text = "inactive_file 7\ntotal_inactive_file 4096\n";
        assert_eq!(
            ["inactive_file ", "total_inactive_file ", "file "].map(|name| field(text, name)),
            [Some(7), Some(4096), None]
        );
        assert!(is_near(95, 100) && !is_near(90, 100));
    }

    #[test]
    fn stalls_are_read() {
        for (share, expected) in [("0.00", false), ("9.99", false), ("10.00", true), ("80.12", true)] {
            let text = std::format!("some avg10={share} avg60=0.00 avg300=0.00 total=5\nfull avg10=99.00\n");
            assert_eq!(is_stalled(&text), expected, "{share}");
        }
        assert!(!is_stalled("nothing"));
    }
}
