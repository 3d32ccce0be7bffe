//! Memory that is available for planned work. Work that would not fit can be refused beforehand with an error, whereas
//! a failed allocation in the middle aborts the process.
//!
//! Three limits apply to a process: its own address space (`ulimit -v`), its control group, and the machine. Each limit
//! is read from the kernel; a limit that cannot be read is not applied.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

/// Memory that a process may still allocate under one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Available bytes.
    pub bytes: u64,
    /// Name of the limit, as part of a sentence.
    pub of: &'static str,
}

/// Memory that some work needs, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Memory that is written to.
    pub memory: u64,
    /// Address space. It exceeds `memory`, because stacks are reserved whole.
    pub addresses: u64,
}

/// The error that the available memory is too small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "about {} of memory needed, but {} has only {} available",
    mebibytes(*.needed), .room.of, mebibytes(.room.bytes)
)]
pub struct TooLittle {
    /// Bytes that the work needs.
    pub needed: u64,
    /// Limit that is exceeded.
    pub room: Room,
}

/// Checks that the work fits within all limits.
///
/// # Errors
/// If a limit is exceeded. The error names the limit that is exceeded the most.
pub fn expect(need: &Need) -> Result<(), TooLittle> {
    let by_addresses = addresses().map(|room| (need.addresses, room));
    let by_memory = [group(), machine()].into_iter().flatten().map(|room| (need.memory, room));
    let exceeded = by_addresses.into_iter().chain(by_memory).filter(|(needed, room)| *needed > room.bytes);
    let worst = exceeded.max_by_key(|(needed, room)| needed - room.bytes);
    worst.map_or(Ok(()), |(needed, room)| Err(TooLittle { needed, room }))
}

/// Returns whether an allocation of this many bytes in one piece succeeds at this moment. The allocation is freed.
pub fn is_to_be_had(bytes: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}

/// Returns the address space that this process may still allocate; `None` if it is not limited.
fn addresses() -> Option<Room> {
    let limit = getrlimit(Resource::As).current?;
    let pages: u64 = fs::read_to_string("/proc/self/statm").ok()?.split(' ').next()?.parse().ok()?;
    let bytes = limit.saturating_sub(pages * rustix::param::page_size() as u64);
    Some(Room { bytes, of: "the address space of this process (`ulimit -v`)" })
}

/// Files that describe the memory of a control group, for one of the two hierarchies of Linux.
struct Files {
    root: &'static str,
    limit: &'static str,
    used: &'static str,
    /// Field with the inactive page cache of the group, which the kernel would reclaim.
    cached: &'static str,
}

const UNIFIED: Files =
    Files { root: "/sys/fs/cgroup", limit: "memory.max", used: "memory.current", cached: "inactive_file" };
const MEMORY_CONTROLLER: Files = Files {
    root: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cached: "total_inactive_file",
};

/// Returns the memory left in the control group of this process or in the ancestor of the group that has the least
/// left; `None` if none of these groups has a limit.
fn group() -> Option<Room> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let rooms = [(UNIFIED, unified(&groups)), (MEMORY_CONTROLLER, find_memory_group(&groups))];
    let bytes = rooms.into_iter().filter_map(|(files, own)| available(&files, own?)).min()?;
    Some(Room { bytes, of: "the control group of this process" })
}

fn available(files: &Files, own: &str) -> Option<u64> {
    let root = Path::new(files.root);
    let own = root.join(own);
    let groups = own.ancestors().take_while(|group| group.starts_with(root));
    groups.filter_map(|group| available_in_group(files, group)).min()
}

/// Returns the bytes that processes in one control group may still take; `None` where the group has no limit.
fn available_in_group(files: &Files, group: &Path) -> Option<u64> {
    let cached = fs::read_to_string(group.join("memory.stat")).ok().and_then(|text| field(&text, files.cached));
    let used = read_number(&group.join(files.used))?.saturating_sub(cached.unwrap_or(0));
    Some(read_number(&group.join(files.limit))?.saturating_sub(used))
}

fn read_number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Returns the group of this process in the unified hierarchy (version 2).
fn unified(groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| line.strip_prefix("0::/"))
}

/// Returns the group of this process in the hierarchy of the memory controller (version 1).
fn find_memory_group(groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(":/")?;
        controllers.split(',').any(|name| name == "memory").then_some(path)
    })
}

/// Returns the available memory of the machine, including swap.
fn machine() -> Option<Room> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kibibytes = field(&text, "MemAvailable:")? + field(&text, "SwapFree:").unwrap_or(0);
    Some(Room { bytes: kibibytes << 10, of: "this machine" })
}

/// Returns the number after a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name).filter(|rest| rest.starts_with([' ', '\t'])))?;
    line.split_whitespace().next()?.parse().ok()
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", crate::number::count(bytes >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_need_fits_and_impossible_need_is_an_error() {
        assert_eq!(expect(&Need { memory: 1 << 16, addresses: 1 << 16 }), Ok(()));
        let error = expect(&Need { memory: 1 << 60, addresses: 1 << 16 }).unwrap_err();
        assert!(error.to_string().contains("1,099,511,627,776 MiB of memory needed"), "{error}");
    }

    #[test]
    fn reservation_is_limited_by_the_address_space() {
        assert!(is_to_be_had(1 << 16) && !is_to_be_had(usize::MAX));
    }

    #[test]
    fn memory_cgroup_is_found_in_both_hierarchies() {
        assert_eq!(unified("4:memory:/a\n0::/user.slice\n"), Some("user.slice"));
        assert_eq!(find_memory_group("4:cpu,memory:/a/b\n0::/\n"), Some("a/b"));
        assert_eq!((find_memory_group("0::/x\n"), unified("4:memory:/a\n")), (None, None));
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "inactive_file_pages 1\ninactive_file 23\nMemAvailable:   45 kB\n";
        assert_eq!((field(text, "inactive_file"), field(text, "MemAvailable:")), (Some(23), Some(45)));
        assert_eq!(field(text, "SwapFree:"), None);
    }
}
