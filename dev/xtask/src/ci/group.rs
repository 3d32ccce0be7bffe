//! A control group with little memory, below the one that this process is in, where it may make one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

/// Bytes of memory of the group: what a program of 40 MiB needs beside, and no more.
const LIMIT: &str = "75497472";
/// Where memory has a hierarchy of its own, and where all controllers have one.
const HIERARCHIES: [Hierarchy; 2] = [
    Hierarchy { root: "/sys/fs/cgroup/memory", controllers: &["memory"], limit: "memory.limit_in_bytes" },
    Hierarchy { root: "/sys/fs/cgroup", controllers: &[""], limit: "memory.max" },
];

/// A hierarchy of control groups.
struct Hierarchy {
    root: &'static str,
    /// One of which stands in the line of a process's groups that is meant.
    controllers: &'static [&'static str],
    /// The file of the limit.
    limit: &'static str,
}

/// The group, removed when dropped: nothing runs in it any more by then.
pub(crate) struct Group {
    pub(crate) folder: String,
}

impl Group {
    /// One of this process's own; nothing where it may not, or memory cannot be limited.
    pub(crate) fn new() -> Option<Group> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        HIERARCHIES.iter().find_map(|hierarchy| {
            let folder = Path::new(hierarchy.root).join(hierarchy.own(&groups)?);
            let folder = folder.join(format!("freehold-{}", process::id()));
            fs::create_dir(&folder).ok()?;
            let group = Group { folder: folder.to_str()?.to_owned() };
            fs::write(folder.join(hierarchy.limit), LIMIT).is_ok().then_some(group)
        })
    }
}

impl Hierarchy {
    /// The group of a process, below the root.
    fn own(&self, groups: &str) -> Option<PathBuf> {
        groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let is_meant = controllers.split(',').any(|name| self.controllers.contains(&name));
            is_meant.then(|| PathBuf::from(path.trim_start_matches('/')))
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _gone = fs::remove_dir(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_memory_is_found() {
        let [first, second] = &HIERARCHIES;
        let groups = "4:memory:/a/b\n1:cpu:/\n0::/c\n";
        assert_eq!((first.own(groups), second.own(groups)), (Some("a/b".into()), Some("c".into())));
        assert_eq!(first.own("1:cpu:/\n"), None);
    }
}
