//! A folder of fetched kernels, one subfolder per release.
//!
//! A subfolder that exists is complete: packages are unpacked beside it and moved at the end.

use std::env;
use std::fs;
use std::path::PathBuf;

use crate::debian::Debian;
use crate::error::{Error, on_file};
use crate::kernel::Kernel;
use crate::tools;
use crate::version::{Version, compare_releases};

/// Folder of fetched kernels.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// Creates a store for this folder, which need not exist.
    pub fn new(folder: PathBuf) -> Store {
        Store { folder }
    }

    /// Returns the user's store: `freehold/kernels` in the user's cache folder.
    ///
    /// # Errors
    /// [`Error::Missing`] for a user without a home folder.
    pub fn for_user() -> Result<Store, Error> {
        let given = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
        let folder =
            given.or_else(|| env::home_dir().filter(|home| home.is_absolute()).map(|home| home.join(".cache")));
        let Some(folder) = folder else {
            return Err(Error::Missing("there is no home folder to store kernels in; set XDG_CACHE_HOME".to_owned()));
        };
        Ok(Store::new(folder.join("freehold/kernels")))
    }

    /// Returns the newest kernel of `version` in the store; `None` if the store has none.
    pub fn find(&self, version: &Version) -> Option<Kernel> {
        let entries = fs::read_dir(&self.folder).ok()?;
        let releases = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let newest = releases.filter(|release| version.has(release)).max_by(|a, b| compare_releases(a, b))?;
        Kernel::below(&self.folder.join(newest))
    }

    /// Returns all kernels in the store.
    #[cfg(test)]
    pub(crate) fn all(&self) -> Vec<Kernel> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| Kernel::below(&entry.path())).collect()
    }

    /// Returns the newest kernel of `version` in the store. If there is none, fetches the newest one that Debian
    /// packages, like [`Store::fetch`].
    ///
    /// # Errors
    /// As [`Store::fetch`].
    pub fn get(&self, version: &Version, say: &mut dyn FnMut(&str)) -> Result<Kernel, Error> {
        self.find(version).map_or_else(|| self.fetch(version, say), Ok)
    }

    /// Returns the newest kernel of `version` that Debian packages, and fetches it unless it is in the store. A fetch
    /// takes tens of seconds, and about 150 MB of disk per release. Progress is reported to `say`.
    ///
    /// # Errors
    /// When apt or dpkg is missing, cannot reach its mirror, or knows no such package.
    pub fn fetch(&self, version: &Version, say: &mut dyn FnMut(&str)) -> Result<Kernel, Error> {
        tools::expect_to_fetch()?;
        fs::create_dir_all(&self.folder).map_err(on_file("create", &self.folder))?;
        say("reading Debian's package lists");
        let debian = Debian::read(&self.folder.join(".apt"))?;
        let release = debian.newest(version)?;
        let folder = self.folder.join(&release);
        if !folder.is_dir() {
            say(&format!("fetching Linux {release}"));
            debian.unpack(&debian.images(&release)?, &folder, |_| Ok(()))?;
        }
        Kernel::below(&folder)
            .ok_or_else(|| Error::Missing(format!("Debian's packages of Linux {release} contain no kernel image")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::tests::unpack_package;

    #[test]
    fn newest_release_of_a_version_is_found() {
        let folder = tempfile::tempdir().unwrap();
        for release in ["6.12.9-cloud", "6.12.10-cloud", "6.16.1-cloud"] {
            unpack_package(&folder.path().join(release), release, &format!("boot/vmlinuz-{release}"));
        }
        let store = Store::new(folder.path().to_owned());
        for (version, release) in [("6.12", Some("6.12.10-cloud")), ("6.12.9", Some("6.12.9-cloud")), ("7.3", None)] {
            let kernel = store.find(&version.parse().unwrap());
            assert_eq!(kernel.map(|kernel| kernel.release).as_deref(), release);
        }
    }
}
