//! Sweeps of small recordings, and the contents of their folders.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use freehold_trace::Facts;

use super::{Sandbox, facts, freehold, stderr};

/// A plan with two policies, on the recorded CPUs and on eight.
pub(crate) const PLAN: &str = "title = 'Two policies'\nkind = 'replay'\na = 'linux-6.12'\nb = ['freehold']\n\
                    [axes]\ncpus = ['recorded', 8]\n";
/// Tasks of that plan on a recording of Linux 6.12.
pub(crate) const TASKS: usize = 4;

/// A sandbox with a plan and recordings that differ.
pub(crate) struct Sweep {
    pub sandbox: Sandbox,
    pub plan: String,
    pub files: Vec<String>,
}

impl Sweep {
    pub(crate) fn new(plan: &str, recordings: u64) -> Sweep {
        let sandbox = Sandbox::new();
        let path = sandbox.argument("plan.toml");
        fs::write(&path, plan).unwrap();
        let mut files = Vec::new();
        for number in 0..recordings {
            let facts = Facts { writer: format!("test {number}"), ..facts() };
            files.push(sandbox.recording_with(&format!("r{number}.parquet"), &facts));
        }
        Sweep { sandbox, plan: path, files }
    }

    pub(crate) fn run(&self, into: &str, more: &[&str]) -> Output {
        let into = self.sandbox.argument(into);
        let files = self.files.iter().map(String::as_str);
        let arguments: Vec<&str> = ["sweep", self.plan.as_str()].into_iter().chain(files).collect();
        freehold(&[arguments.as_slice(), &["--into", &into], more].concat())
    }

    pub(crate) fn tree(&self, into: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        tree(&self.sandbox.path(into))
    }
}

/// Returns all files below a folder, with their bytes.
pub(crate) fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.is_dir() {
                true => folders.push(entry),
                false => {
                    drop(files.insert(entry.strip_prefix(folder).unwrap().to_path_buf(), fs::read(&entry).unwrap()))
                }
            }
        }
    }
    files
}

pub(crate) fn parts(tree: &BTreeMap<PathBuf, Vec<u8>>) -> Vec<&PathBuf> {
    tree.keys().filter(|path| path.ends_with("part.parquet")).collect()
}

pub(crate) fn is_done(output: &Output) {
    assert!(output.status.success(), "{}", stderr(output));
}
