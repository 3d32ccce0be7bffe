//! Input of the checks: all files of the workspace, read once.
//!
//! Tests can build a [`Tree`] from texts, so that a check can be tested with a violation that is not a file of the
//! workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;

use crate::error::{Error, on_file};
use crate::workspace;

/// Files by their path from the workspace's root, with `/` between folders.
pub(crate) struct Tree {
    texts: BTreeMap<String, String>,
    /// Files that are not text. Only their names are known.
    opaque: BTreeSet<String>,
}

/// Problem at a place in the workspace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Path of the file from the workspace's root.
    pub(crate) file: String,
    /// Line of the finding, counted from 1.
    pub(crate) line: usize,
    /// Description of the problem, and of the correction.
    pub(crate) sentence: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.sentence)
    }
}

impl Tree {
    /// Reads every file of the workspace.
    pub(crate) fn read() -> Result<Tree, Error> {
        let (mut texts, mut opaque) = (BTreeMap::new(), BTreeSet::new());
        for file in workspace::files()? {
            let path = workspace::root().join(&file);
            let name = file.to_string_lossy().into_owned();
            let bytes = fs::read(&path).map_err(on_file("read", &path))?;
            match String::from_utf8(bytes) {
                Ok(text) => drop(texts.insert(name, text)),
                Err(_) => drop(opaque.insert(name)),
            }
        }
        Ok(Tree { texts, opaque })
    }

    /// Creates a tree of these files and texts, for tests.
    #[cfg(test)]
    pub(crate) fn from_texts(files: &[(&str, &str)]) -> Tree {
        let texts = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        Tree { texts, opaque: BTreeSet::new() }
    }

    /// Returns the number of files in the tree.
    pub(crate) fn len(&self) -> usize {
        self.texts.len() + self.opaque.len()
    }

    /// Returns the names and texts of all text files.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// Returns the text files whose name ends in `ending`.
    pub(crate) fn ending(&self, ending: &'static str) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(move |(name, _)| name.ends_with(ending))
    }

    /// Returns the text of a file, given its path from the root.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    /// Returns whether `name` is a file, or a folder that contains a file.
    pub(crate) fn exists(&self, name: &str) -> bool {
        let name = name.trim_end_matches('/');
        if name.is_empty() || self.texts.contains_key(name) || self.opaque.contains(name) {
            return true;
        }
        let inside = format!("{name}/");
        self.texts.keys().chain(&self.opaque).any(|file| file.starts_with(&inside))
    }

    /// Returns whether `path` is a file or folder in the `src` of some package.
    pub(crate) fn exists_in_sources(&self, path: &str) -> bool {
        let end = format!("/src/{}", path.trim_end_matches('/'));
        let inside = format!("{end}/");
        self.texts.keys().any(|file| file.ends_with(&end) || file.contains(&inside))
    }
}

/// Returns the folder that contains a file or folder; empty at the root.
pub(crate) fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Resolves `path` relative to `folder`, including `.` and `..`. Returns `None` if the result is outside the workspace.
pub(crate) fn join(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_resolve_inside_the_workspace_only() {
        assert_eq!(join("lab/report", "../trace/./FORMAT.md").as_deref(), Some("lab/trace/FORMAT.md"));
        assert_eq!(join("", "README.md").as_deref(), Some("README.md"));
        assert_eq!(join("docs", "../../etc"), None);
    }

    #[test]
    fn folders_exist_through_their_files() {
        let tree = Tree::from_texts(&[("engine/core/src/lib.rs", "")]);
        assert!(tree.exists("engine/core/") && tree.exists("engine/core/src/lib.rs"));
        assert!(!tree.exists("engine/cor"));
    }
}
