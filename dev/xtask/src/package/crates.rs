//! The libraries that are published. `cargo package` builds each from its package alone, outside the workspace.

use std::fs;
use std::path::{Path, PathBuf};

use super::VERSION;
use crate::command;
use crate::error::{Error, on_file};
use crate::workspace::{self, cargo};

/// Libraries in the order of their dependence.
const LIBRARIES: [&str; 2] = ["freehold", "freehold-malloc"];
/// Files that each package contains.
const EXPECTED: [&str; 5] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "src/lib.rs"];
/// Files that cargo adds.
const ADDED: [&str; 3] = [".cargo_vcs_info.json", "Cargo.lock", "Cargo.toml.orig"];

/// Packages the libraries and returns the paths of the packages.
///
/// # Errors
/// Returns an error if a library cannot be packaged, if its package cannot be built, or if the package lacks a licence
/// or contains a file that is not part of the library.
pub(crate) fn build() -> Result<Vec<PathBuf>, Error> {
    for library in LIBRARIES {
        let listed = command::text(cargo().args(["package", "--list", "--allow-dirty", "--package", library]))?;
        check_list(library, &listed)?;
    }
    let packages = LIBRARIES.iter().flat_map(|library| ["--package", library]);
    command::run(cargo().args(["package", "--quiet", "--locked", "--allow-dirty"]).args(packages))?;
    LIBRARIES.iter().map(|library| package(library)).collect()
}

/// Returns the path of a package.
fn package(library: &str) -> Result<PathBuf, Error> {
    let path: &Path = &workspace::target().join(format!("package/{library}-{VERSION}.crate"));
    fs::metadata(path).map_err(on_file("read", path))?;
    Ok(path.to_owned())
}

/// Checks the list of a package's files.
fn check_list(library: &str, listed: &str) -> Result<(), Error> {
    let files: Vec<&str> = listed.lines().collect();
    if let Some(missing) = EXPECTED.iter().find(|file| !files.contains(file)) {
        return Err(Error::Failed(format!("the package of {library} lacks {missing}")));
    }
    let is_expected = |file: &&&str| EXPECTED.contains(file) || ADDED.contains(file) || is_source(file);
    match files.iter().find(|file| !is_expected(file)) {
        Some(file) => Err(Error::Failed(format!("the package of {library} contains {file}, which is not published"))),
        None => Ok(()),
    }
}

fn is_source(file: &str) -> bool {
    file.starts_with("src/") && file.ends_with(".rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "Cargo.toml\nCargo.lock\nLICENSE-APACHE\nLICENSE-MIT\nREADME.md\nsrc/lib.rs\nsrc/page/mod.rs\n";

    #[test]
    fn package_with_licences_and_sources_is_accepted() {
        assert!(check_list("freehold", GOOD).is_ok());
    }

    #[test]
    fn missing_licence_and_foreign_file_are_named() {
        let error = check_list("freehold", &GOOD.replace("LICENSE-MIT\n", "")).unwrap_err().to_string();
        assert!(error.contains("lacks LICENSE-MIT"), "{error}");
        let error = check_list("freehold", &format!("{GOOD}tests/it/main.rs\n")).unwrap_err().to_string();
        assert!(error.contains("tests/it/main.rs"), "{error}");
    }
}
