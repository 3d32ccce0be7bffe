//! Debian's kernel packages: lists the available ones and unpacks some of them. Nothing is installed.
//!
//! The mirror is the one that this machine's apt uses. The suites are fixed here, because a stable release has only one
//! kernel series. Lists and packages are kept in separate folders, and the system's lists are not changed.

use std::fs;
use std::path::{self, Path, PathBuf};
use std::process::Command;

use crate::error::{Error, on_file};
use crate::host;
use crate::version::{Version, compare_releases};

/// Labels of archives in apt's lists, and their suites that have kernels.
const SUITES: [(&str, &[&str]); 2] =
    [("Debian", &["trixie", "trixie-backports", "forky", "sid"]), ("Debian-Security", &["trixie-security"])];
/// Name prefixes of the packages of a kernel. In 7.0 the image moved to a package of its own, and in 7.2 the modules.
const PARTS: [&str; 3] = ["linux-image", "linux-binary", "linux-modules"];
/// Packages that the programs among the headers are linked against. The newest version serves the programs of every
/// release.
const LIBRARIES: [&str; 4] = ["libc6", "libelf1t64", "zlib1g", "libzstd1"];
/// Flavour that is fetched: it is small, has virtio, and is the flavour of the pinned kernel.
const FLAVOUR: &str = "cloud-amd64";

/// Names of a release's header packages, and of their folders in these packages.
#[derive(Debug)]
pub(crate) struct Headers {
    /// Headers of all flavours: the kernel's makefiles, and most header files.
    pub common: String,
    /// Headers of the flavour: its configuration and generated header files.
    pub configured: String,
    /// Programs for the build.
    pub kbuild: String,
}

impl Headers {
    /// Returns the names for `release`.
    ///
    /// # Errors
    /// [`Error::Missing`] if the release is not one of Debian's.
    pub(crate) fn for_release(release: &str) -> Result<Headers, Error> {
        let Some(series) = release.strip_suffix(FLAVOUR).and_then(|series| series.strip_suffix('-')) else {
            let sentence = format!("Linux {release} is not a Debian kernel, so there are no headers for it");
            return Err(Error::Missing(sentence));
        };
        Ok(Headers {
            common: format!("linux-headers-{series}-common"),
            configured: format!("linux-headers-{release}"),
            kbuild: format!("linux-kbuild-{series}"),
        })
    }

    fn packages(self) -> [String; 3] {
        [self.common, self.configured, self.kbuild]
    }
}

/// Debian's package lists, and the folder that they are kept in.
#[derive(Debug)]
pub(crate) struct Debian {
    folder: PathBuf,
}

impl Debian {
    /// Downloads the current lists into `folder`.
    ///
    /// # Errors
    /// When apt has no Debian mirror, or cannot reach it.
    pub(crate) fn read(folder: &Path) -> Result<Debian, Error> {
        for part in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(part)).map_err(on_file("create", &folder.join(part)))?;
        }
        let format = "$(LABEL) $(REPO_URI)";
        let arguments = ["indextargets", "--format", format, "Created-By: Packages"];
        let targets = host::text(Command::new("apt-get").args(arguments))?;
        let sources = sources(&targets);
        if sources.is_empty() {
            let advice = "give --kernel the path of an image";
            return Err(Error::Missing(format!("apt has no Debian mirror to fetch a kernel from; {advice}")));
        }
        let list = folder.join("sources.list");
        fs::write(&list, sources).map_err(on_file("write", &list))?;
        let debian = Debian { folder: path::absolute(folder).map_err(on_file("find", folder))? };
        host::text(debian.apt("apt-get").args(["update", "--error-on=any"]))?;
        Ok(debian)
    }

    /// Returns the newest release of `version`.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is none.
    pub(crate) fn newest(&self, version: &Version) -> Result<String, Error> {
        let names = self.packages(&format!("{}.*{FLAVOUR}", version.pattern()))?;
        let releases =
            names.iter().filter_map(|name| PARTS.iter().find_map(|part| name.strip_prefix(part)?.strip_prefix('-')));
        let newest = releases.max_by(|a, b| compare_releases(a, b)).map(str::to_owned);
        newest.ok_or_else(|| {
            Error::Missing(format!("Debian has no kernel {version} of flavour {FLAVOUR}; give the path of an image"))
        })
    }

    /// Returns the names of all image and module packages of `release`.
    ///
    /// # Errors
    /// When apt fails.
    pub(crate) fn images(&self, release: &str) -> Result<Vec<String>, Error> {
        self.packages(&release.replace('.', r"\.").replace('+', r"\+"))
    }

    /// Returns the names of the packages that are needed to build a module for `release`.
    ///
    /// # Errors
    /// [`Error::Missing`] if Debian does not have them, or no longer.
    pub(crate) fn headers(&self, release: &str) -> Result<Vec<String>, Error> {
        let names = Headers::for_release(release)?.packages();
        let known = host::text(self.apt("apt-cache").args(["pkgnames", "linux-"]))?;
        if let Some(absent) = names.iter().find(|name| !known.lines().any(|line| line == *name)) {
            let advice = "workloads that need a module cannot run on this kernel";
            return Err(Error::Missing(format!("Debian has no headers for Linux {release} ({absent}); {advice}")));
        }
        Ok(names.into_iter().chain(LIBRARIES.map(str::to_owned)).collect())
    }

    /// Downloads packages and unpacks them into the folder `to`. `prepare` is called for the unpacked files first, and
    /// `to` appears only once it is complete.
    ///
    /// # Errors
    /// When a package cannot be downloaded or unpacked, and the errors of `prepare`.
    pub(crate) fn unpack(
        &self,
        names: &[String],
        to: &Path,
        prepare: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let parent = to.parent().unwrap_or(to);
        let temporary = tempfile::tempdir_in(parent).map_err(on_file("create", parent))?;
        let (folder, root) = (temporary.path(), temporary.path().join("root"));
        host::text(self.apt("apt-get").arg("download").args(names).current_dir(folder))?;
        for entry in fs::read_dir(folder).map_err(on_file("read", folder))?.flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "deb") {
                host::text(Command::new("dpkg-deb").arg("-x").arg(entry.path()).arg(&root))?;
            }
        }
        prepare(&root)?;
        fs::rename(&root, to).map_err(on_file("create", to))
    }

    /// Returns the names of packages whose release matches `pattern`.
    fn packages(&self, pattern: &str) -> Result<Vec<String>, Error> {
        let names = format!("^({})-{pattern}$", PARTS.join("|"));
        let found = host::text(self.apt("apt-cache").args(["search", "--names-only", &names]))?;
        Ok(found.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
    }

    /// Returns a command of apt that reads and writes only in this value's folder.
    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for (option, place) in [
            ("Dir::State::lists", "lists"),
            ("Dir::Cache", "cache"),
            ("Dir::Etc::sourcelist", "sources.list"),
            ("Dir::Etc::sourceparts", "none"),
        ] {
            command.arg("-o").arg(format!("{option}={}", self.folder.join(place).display()));
        }
        for option in ["Acquire::Languages=none", "Acquire::GzipIndexes=true", "APT::Sandbox::User=root"] {
            command.args(["-o", option]);
        }
        for index in ["DEP-11", "DEP-11-icons-small", "DEP-11-icons", "DEP-11-icons-hidpi", "CNF", "Contents-deb"] {
            command.args(["-o", &format!("Acquire::IndexTargets::deb::{index}::DefaultEnabled=false")]);
        }
        command
    }
}

/// Converts the archives of this machine, one label and address per line, into lines of a `sources.list`.
fn sources(targets: &str) -> String {
    let mut archives: Vec<(&str, &str)> = targets.lines().filter_map(|line| line.split_once(' ')).collect();
    archives.sort_unstable();
    archives.dedup();
    let lines = archives.iter().flat_map(|(label, address)| {
        let suites = SUITES.iter().filter(move |(known, _)| known == label).flat_map(|(_, suites)| *suites);
        suites.map(move |suite| format!("deb {address} {suite} main\n"))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_combine_local_mirrors_with_required_suites() {
        let targets = "Debian http://mirror/debian/\nDebian http://mirror/debian/\nOther http://other/\n";
        let text = sources(targets);
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.contains("deb http://mirror/debian/ sid main\n") && !text.contains("other"), "{text}");
        assert_eq!(sources("Other http://other/\n"), "");
    }

    #[test]
    fn header_packages_are_named_by_release_and_series() {
        let names = Headers::for_release("6.12.9+deb13-cloud-amd64").unwrap().packages();
        let [common, configured, kbuild] = names.each_ref().map(String::as_str);
        assert_eq!((common, kbuild), ("linux-headers-6.12.9+deb13-common", "linux-kbuild-6.12.9+deb13"));
        assert_eq!(configured, "linux-headers-6.12.9+deb13-cloud-amd64");
        assert!(Headers::for_release("6.12.9-mine").is_err());
    }
}
