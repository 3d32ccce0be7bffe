//! A control group with little memory, below the one that this process is in, where it may make one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

/// Bytes of memory of the group: what a program of 40 MiB needs beside, and no more.
const LIMIT: &str = "75497472";
/// Folder and file of the limit, where memory has a hierarchy of its own, and where all have one.
const HIERARCHIES: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

/// The group, removed when dropped: nothing runs in it any more by then.
pub struct Group {
    pub folder: String,
}

impl Group {
    /// One of this process's own; nothing where it may not, or memory cannot be limited.
    pub fn new() -> Option<Group> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        HIERARCHIES.iter().find_map(|(root, file)| {
            let folder = Path::new(root).join(own(&groups, root)?).join(format!("freehold-{}", process::id()));
            fs::create_dir(&folder).ok()?;
            let group = Group { folder: folder.to_str()?.to_owned() };
            fs::write(folder.join(file), LIMIT).is_ok().then_some(group)
        })
    }
}

/// The group of this process below a hierarchy's root.
fn own(groups: &str, root: &str) -> Option<PathBuf> {
    let is_meant = |controllers: &str| match root.ends_with("memory") {
        true => controllers.split(',').any(|name| name == "memory"),
        false => controllers.is_empty(),
    };
    groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        is_meant(controllers).then(|| PathBuf::from(path.trim_start_matches('/')))
    })
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
        let groups = "4:memory:/a/b\n1:cpu:/\n0::/c\n";
        assert_eq!(own(groups, "/sys/fs/cgroup/memory"), Some("a/b".into()));
        assert_eq!(own(groups, "/sys/fs/cgroup"), Some("c".into()));
        assert_eq!(own("1:cpu:/\n", "/sys/fs/cgroup/memory"), None);
    }
}
