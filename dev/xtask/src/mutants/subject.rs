//! Subject of a run: a library to mutate, and the packages whose tests should notice the mutants.

use std::path::{Path, PathBuf};

use super::source::{self, Source};
use super::{constants, scan, site::Site};
use crate::error::Error;
use crate::workspace;

/// Library whose code is mutated, and its tests.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    /// Root folder of the workspace.
    pub(crate) root: PathBuf,
    /// Root file of the library, as a path from the workspace's root.
    pub(crate) library: &'static str,
    /// Name of the library's package.
    pub(crate) package: &'static str,
    /// Folders of the packages whose tests run, including the library's. The copy has their dependencies as well.
    pub(crate) members: &'static [&'static str],
    /// Prefixes of the paths of tests that are not copied.
    pub(crate) left_out: &'static [&'static str],
    /// Folder for all build output of the run.
    pub(crate) folder: PathBuf,
}

impl Subject {
    /// Returns the core, with its own tests and those of the heap that uses it. It leaves out tests that check nothing
    /// in this build, that stop at each machine instruction, or that depend on chance and take minutes.
    pub(crate) fn core() -> Subject {
        Subject {
            root: workspace::root().to_owned(),
            library: "engine/core/src/lib.rs",
            package: "freehold",
            members: &["engine/core", "malloc/heap"],
            left_out: &["malloc/heap/tests/budget/", "malloc/heap/tests/injection/", "malloc/heap/tests/stress/"],
            folder: workspace::target().join("mutants"),
        }
    }

    /// Returns the folder of the mutated copy.
    pub(crate) fn copy(&self) -> PathBuf {
        self.folder.join("source")
    }

    /// Returns the library's folder of sources, as a path from the root.
    pub(crate) fn sources(&self) -> &Path {
        Path::new(self.library).parent().unwrap_or(Path::new(""))
    }

    /// Reads the library, and finds all its sites, file by file.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read, or is not Rust.
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
