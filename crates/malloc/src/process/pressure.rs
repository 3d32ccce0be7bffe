//! Whether memory is short where this process runs: near the limit of its control group, or stalled for it.
//!
//! The kernel's files are opened, read and closed at each look: a program that closes all files it did not open, and opens
//! others, would have us read from those. Where there are no such files, memory is never short.
//!
//! linux: Documentation/admin-guide/cgroup-v2.rst, Documentation/accounting/psi.rst

use core::ffi::CStr;

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
    stalls: None,
};
const SECOND: Files = Files {
    folder: "/sys/fs/cgroup",
    used: "/memory.current",
    limits: &["/memory.max", "/memory.high"],
    stalls: Some("/memory.pressure"),
};

/// Names of a group's files.
struct Files {
    folder: &'static str,
    used: &'static str,
    limits: &'static [&'static str],
    stalls: Option<&'static str>,
}

/// Whether memory is short: the group's limit is near, or tasks of the group wait for memory. Costs some ten system
/// calls.
pub(super) fn is_short() -> bool {
    with_group(|files, group| files.is_near(group) == Some(true) || files.is_stalled(group))
}

/// Whether the group's limit is near; `None` if it has none. Costs some ten system calls.
pub(super) fn is_limit_near() -> Option<bool> {
    with_group(Files::is_near)
}

fn with_group<R: Default>(look: impl FnOnce(&Files, &str) -> R) -> R {
    let mut text = [0; 4096];
    let found = read_file(GROUPS, &mut text).and_then(group_of);
    found.map_or_else(R::default, |(files, group)| look(&files, group))
}

/// The group that memory is charged to, and its files.
fn group_of(text: &str) -> Option<(Files, &str)> {
    let group = |wanted: fn(&str) -> bool| {
        text.lines().find_map(|line| {
            let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
            wanted(controllers).then_some(group)
        })
    };
    let first = group(|controllers| controllers.split(',').any(|name| name == "memory"));
    first.map(|group| (FIRST, group)).or_else(|| group(str::is_empty).map(|group| (SECOND, group)))
}

impl Files {
    fn is_near(&self, group: &str) -> Option<bool> {
        let number = |name| {
            let mut text = [0; 256];
            self.read(group, name, &mut text)?.trim().parse::<u64>().ok()
        };
        // "max" is no number, and no limit; the first version has a very large one.
        let limit = self.limits.iter().filter_map(|name| number(name)).min().filter(|&limit| limit < NO_LIMIT)?;
        Some(number(self.used)? > limit - limit / NEAR_SHARE)
    }

    fn is_stalled(&self, group: &str) -> bool {
        let mut text = [0; 256];
        self.stalls.and_then(|name| self.read(group, name, &mut text)).is_some_and(is_stalled)
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

/// Whether a line says that tasks waited for too long.
fn is_stalled(text: &str) -> bool {
    let share = || {
        let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
        let number = line.split(' ').find_map(|word| word.strip_prefix("avg10="))?;
        let (whole, hundredths) = number.split_once('.')?;
        Some(whole.parse::<u64>().ok()? * 100 + hundredths.parse::<u64>().ok()?)
    };
    share().is_some_and(|share| share >= STALLED)
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
        let group = |text| group_of(text).map(|(files, group)| (files.used, group));
        assert_eq!(group("0::/user/one\n"), Some((SECOND.used, "/user/one")));
        assert_eq!(group("5:cpu,memory:/a\n0::/b\n"), Some((FIRST.used, "/a")));
        assert_eq!(group("5:cpu:/a\n"), None);
        assert_eq!(group(""), None);
    }

    #[test]
    fn stalls_are_read() {
        let text = |share| std::format!("some avg10={share} avg60=0.00 avg300=0.00 total=5\nfull avg10=99.00\n");
        assert_eq!(
            ["0.00", "9.99", "10.00", "80.12"].map(|share| is_stalled(&text(share))),
            [false, false, true, true]
        );
        assert!(!is_stalled("nothing"));
    }
}
