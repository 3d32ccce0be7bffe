//! What is mutated, and whose tests should notice: packages of a workspace.

use std::path::{Path, PathBuf};

use super::source::{self, Source};
use super::{constants, scan, site::Site};
use crate::error::Error;
use crate::workspace;

/// A library whose code is mutated, and its tests.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    /// Root folder of the workspace.
    pub(crate) root: PathBuf,
    /// The library's root file, from there.
    pub(crate) library: &'static str,
    /// Name of the library's package.
    pub(crate) package: &'static str,
    /// The folders of the packages whose tests are run, the library's among them.
    pub(crate) members: &'static [&'static str],
    /// Tests that are not taken over, by how their files begin.
    pub(crate) left_out: &'static [&'static str],
    /// Where all that is built for this lies.
    pub(crate) folder: PathBuf,
}

impl Subject {
    /// The core, by its own tests and those of the heap on it. Left out is what tries nothing in this build, or stops
    /// at each instruction of machine code, or takes chance and minutes.
    pub(crate) fn core() -> Subject {
        Subject {
            root: workspace::root().to_owned(),
            library: "engine/core/src/lib.rs",
            package: "freehold",
            // What the heap is tried with comes along.
            members: &["engine/core", "malloc/heap", "lab/workloads"],
            left_out: &["malloc/heap/tests/budget/", "malloc/heap/tests/injection/", "malloc/heap/tests/stress/"],
            folder: workspace::target().join("mutants"),
        }
    }

    /// Folder that the mutated copy lies in.
    pub(crate) fn copy(&self) -> PathBuf {
        self.folder.join("source")
    }

    /// The library's folder of sources, from the root.
    pub(crate) fn sources(&self) -> &Path {
        Path::new(self.library).parent().unwrap_or(Path::new(""))
    }

    /// Reads the library, and finds all its sites, file by file.
    ///
    /// # Errors
    /// If a file cannot be read, or is not Rust.
    pub(crate) fn read(&self) -> Result<(Vec<Source>, Vec<Site>), Error> {
        let sources = source::read(&self.root, self.library)?;
        let mut all = scan::Scan::default();
        for source in &sources {
            let found = scan::scan(source);
            all.sites.extend(found.sites);
            all.constants.extend(found.constants);
            all.uses.extend(found.uses);
        }
        all.sites.extend(constants::sites(&all.constants, &all.uses));
        Ok((sources, all.sites))
    }
}
