//! A control group with little memory, created below the group of this process if the process may create one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

/// Memory limit of the group in bytes: 72 MiB, which is just enough for a program that uses 40 MiB itself.
const LIMIT: &str = "75497472";
/// Hierarchies in which a memory limit can be set: that of the memory controller (v1), and the unified one (v2).
const HIERARCHIES: [Hierarchy; 2] = [
    Hierarchy { root: "/sys/fs/cgroup/memory", controllers: &["memory"], limit: "memory.limit_in_bytes" },
    Hierarchy { root: "/sys/fs/cgroup", controllers: &[""], limit: "memory.max" },
];

/// Hierarchy of control groups.
struct Hierarchy {
    root: &'static str,
    /// Names of controllers. The line of `/proc/self/cgroup` with one of them names the group of this process.
    controllers: &'static [&'static str],
    /// Name of the file with the limit.
    limit: &'static str,
}

/// Control group, removed when dropped. No process is left in it by then.
pub(crate) struct Group {
    pub(crate) folder: String,
}

impl Group {
    /// Creates a group for this process. Returns `None` if the process may not, or if memory cannot be limited.
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
    /// Returns the path of a process's group below the root of this hierarchy, given the text of its `cgroup` file.
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
    fn memory_cgroup_is_found() {
        let [first, second] = &HIERARCHIES;
        let groups = "4:memory:/a/b\n1:cpu:/\n0::/c\n";
        assert_eq!((first.own(groups), second.own(groups)), (Some("a/b".into()), Some("c".into())));
        assert_eq!(first.own("1:cpu:/\n"), None);
    }
}
