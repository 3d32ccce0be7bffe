//! The machine's memory settings, from `/proc/sys/vm` and `/sys/kernel/mm`.
//!
//! The name of a setting is its path with dots: `vm.min_free_kbytes`, `transparent_hugepage.defrag`. None of these
//! files contains a name or a path of the machine's owner.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Folders whose readable files are settings, and the prefix of their names.
const FOLDERS: [(&str, &str); 3] = [
    ("/proc/sys/vm", "vm"),
    ("/sys/kernel/mm/transparent_hugepage", "transparent_hugepage"),
    ("/sys/kernel/mm/lru_gen", "lru_gen"),
];
/// Names that are skipped: a folder of counters, and a file that has a side effect when it is read.
const PASSED_OVER: [&str; 2] = ["stats", "stat_refresh"];
/// Largest depth of folders that are read.
const DEPTH_MAX: u32 = 2;
/// Largest length of a setting's text. Longer texts are not settings.
const LENGTH_MAX: usize = 256;

/// Reads all settings. Files that cannot be read are left out, since some are write-only triggers.
pub(crate) fn read() -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    for (folder, name) in FOLDERS {
        collect(Path::new(folder), name, DEPTH_MAX, &mut settings);
    }
    settings
}

fn collect(folder: &Path, prefix: &str, depth: u32, settings: &mut BTreeMap<String, String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten().filter(|entry| PASSED_OVER.iter().all(|name| entry.file_name() != *name)) {
        let name = format!("{prefix}.{}", entry.file_name().to_string_lossy());
        let path = entry.path();
        if path.is_dir() {
            if depth > 0 {
                collect(&path, &name, depth - 1, settings);
            }
        } else if let Some(value) = value(&path) {
            settings.insert(name, value);
        }
    }
}

/// Returns the file's text, with runs of white space replaced by single spaces.
fn value(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let value = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (value.len() <= LENGTH_MAX).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_names_follow_their_paths() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("khugepaged")).unwrap();
        fs::write(folder.path().join("defrag"), "always [madvise]\tnever\n").unwrap();
        fs::write(folder.path().join("khugepaged/pages_to_scan"), "4096\n").unwrap();
        fs::create_dir(folder.path().join("stats")).unwrap();
        fs::write(folder.path().join("stats/faults"), "1\n").unwrap();
        fs::write(folder.path().join("long"), "x".repeat(300)).unwrap();
        let mut settings = BTreeMap::new();
        collect(folder.path(), "thp", 1, &mut settings);
        let expected = [("thp.defrag", "always [madvise] never"), ("thp.khugepaged.pages_to_scan", "4096")];
        assert!(settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).eq(expected));
    }
}
