//! Memory limits of a program: resource limits of the process, or a control group.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process;

use clap::ValueEnum;
use rustix::process::{Resource, Rlimit, setrlimit};

/// Bytes of every limit.
const BYTES: u64 = 64 << 20;
/// Bytes of the limit of a group that only measures.
const AMPLE: u64 = 1 << 40;
/// Hierarchies in which a memory limit can be set: that of the memory controller (v1), and the unified one (v2).
const HIERARCHIES: [Hierarchy; 2] = [
    Hierarchy {
        root: "/sys/fs/cgroup/memory",
        controller: "memory",
        limit: "memory.limit_in_bytes",
        charged: "memory.usage_in_bytes",
    },
    Hierarchy { root: "/sys/fs/cgroup", controller: "", limit: "memory.max", charged: "memory.current" },
];

/// A kind of memory limit, always of 64 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Limit {
    /// Memory of a control group.
    Group,
    /// Address space of a process (`RLIMIT_AS`).
    AddressSpace,
    /// Private writable memory of a process (`RLIMIT_DATA`).
    Data,
}

impl Limit {
    /// Returns the reason why this limit cannot be set, if there is one.
    pub(super) fn obstacle(self) -> Option<String> {
        let is_possible = self != Limit::Group || Group::new().is_ok();
        (!is_possible).then(|| "this process may not create a control group with a memory limit".to_owned())
    }
}

/// A limit that is ready to be set in a new process.
pub(super) enum Restriction {
    Group(Group),
    Resource(Resource),
}

impl Restriction {
    pub(super) fn new(limit: Limit) -> io::Result<Restriction> {
        Ok(match limit {
            Limit::Group => Restriction::Group(Group::new()?),
            Limit::AddressSpace => Restriction::Resource(Resource::As),
            Limit::Data => Restriction::Resource(Resource::Data),
        })
    }

    /// Sets the limit for this process. Makes one system call and allocates nothing, so a child may call this before it
    /// starts a program.
    pub(super) fn enter(&self) -> io::Result<()> {
        match self {
            Restriction::Group(group) => rustix::io::write(group.members(), b"0").map(|_| ()),
            Restriction::Resource(resource) => {
                setrlimit(*resource, Rlimit { current: Some(BYTES), maximum: Some(BYTES) })
            }
        }
        .map_err(io::Error::from)
    }
}

/// A hierarchy of control groups.
struct Hierarchy {
    root: &'static str,
    /// Name of the controller; the line of `/proc/self/cgroup` with this name has the group of this process.
    controller: &'static str,
    /// Name of the file with the limit, and of the file with the bytes that are charged.
    limit: &'static str,
    charged: &'static str,
}

/// A control group below that of this process, removed when dropped. Its processes have ended by then.
pub(super) struct Group {
    folder: PathBuf,
    members: File,
    /// File with the bytes that are charged.
    charged: PathBuf,
}

impl Group {
    /// Creates a group with the limit.
    fn new() -> io::Result<Group> {
        Group::with_limit(BYTES)
    }

    fn with_limit(bytes: u64) -> io::Result<Group> {
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let [first, second] = &HIERARCHIES;
        first.create(&groups, bytes).or_else(|_| second.create(&groups, bytes))
    }

    fn members(&self) -> BorrowedFd<'_> {
        self.members.as_fd()
    }
}

/// A control group that contains this process, to measure the memory that is charged. The process leaves the group when
/// the value is dropped.
pub(in crate::malloc) struct ChargedGroup(Group);

impl ChargedGroup {
    /// Creates a group with ample memory, and moves this process into it.
    pub(in crate::malloc) fn enter() -> io::Result<ChargedGroup> {
        let group = Group::with_limit(AMPLE)?;
        (&group.members).write_all(b"0")?;
        Ok(ChargedGroup(group))
    }

    /// Returns the reason why there can be no such group, if there is one.
    pub(in crate::malloc) fn obstacle() -> Option<String> {
        Limit::Group.obstacle()
    }

    /// Returns the memory that is charged to the group, in KiB.
    pub(in crate::malloc) fn charged_kib(&self) -> io::Result<u64> {
        let bytes: u64 = fs::read_to_string(&self.0.charged)?.trim().parse().map_err(io::Error::other)?;
        Ok(bytes >> 10)
    }
}

impl Drop for ChargedGroup {
    fn drop(&mut self) {
        // If this process cannot leave the group, an empty group remains after its end.
        _ = self.0.folder.parent().map(|parent| fs::write(parent.join("cgroup.procs"), "0"));
    }
}

impl Hierarchy {
    /// Creates a group below that of this process.
    fn create(&self, groups: &str, bytes: u64) -> io::Result<Group> {
        let own = self.own_group(groups).ok_or(io::ErrorKind::NotFound)?;
        let folder = Path::new(self.root).join(own).join(format!("freehold-load-{}", process::id()));
        fs::create_dir(&folder)?;
        let members = File::options().write(true).open(folder.join("cgroup.procs"));
        let limited =
            members.and_then(|members| fs::write(folder.join(self.limit), bytes.to_string()).map(|()| members));
        match limited {
            Ok(members) => Ok(Group { charged: folder.join(self.charged), folder, members }),
            Err(error) => {
                _ = fs::remove_dir(&folder);
                Err(error)
            }
        }
    }

    /// Returns the path of the group below the root of this hierarchy, given the text of `/proc/self/cgroup`.
    fn own_group(&self, groups: &str) -> Option<PathBuf> {
        groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let is_meant = controllers.split(',').any(|name| name == self.controller);
            is_meant.then(|| PathBuf::from(path.trim_start_matches('/')))
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // An empty group that remains has no effect.
        _ = fs::remove_dir(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_of_this_process_is_found() {
        let [first, second] = &HIERARCHIES;
        let groups = "4:memory:/a/b\n1:cpu:/\n0::/c\n";
        assert_eq!((first.own_group(groups), second.own_group(groups)), (Some("a/b".into()), Some("c".into())));
        assert_eq!(first.own_group("1:cpu:/\n"), None);
    }
}
