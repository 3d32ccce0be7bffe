//! Oldest glibc that a program or library runs with, read from the versions of the symbols that it imports.
//!
//! A linker binds each symbol to its newest version on the machine that builds. A build on a newer distribution can
//! therefore need a newer glibc than the documents name. [`check`] refuses such a build.

use std::fmt;
use std::fs;
use std::path::Path;

use object::elf::FileHeader64;
use object::read::elf::FileHeader as _;
use object::{Endianness, Error as ElfError};

use crate::error::{Error, on_file};

/// Prefix of glibc's symbol versions.
const PREFIX: &str = "GLIBC_";

/// Version of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(u32, u32);

/// Oldest glibc that packages run with; docs/install.md and docs/support.md name it.
pub(crate) const OLDEST: Version = Version(2, 34);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Returns the oldest glibc that has all symbols of the file at `path`. Returns `None` if the file imports no symbol
/// from glibc.
///
/// # Errors
/// Returns an error if the file cannot be read, or is not an ELF file of 64 bits.
pub(crate) fn needed(path: &Path) -> Result<Option<Version>, Error> {
    let bytes = fs::read(path).map_err(on_file("read", path))?;
    let names = version_names(&bytes).map_err(|error| Error::Failed(format!("{}: {error}", path.display())))?;
    Ok(names.iter().filter_map(|name| parse(name)).max())
}

/// Checks that the file at `path` runs with [`OLDEST`].
///
/// # Errors
/// Returns an error if the file needs a newer glibc, or the errors of [`needed`].
pub(crate) fn check(path: &Path) -> Result<(), Error> {
    check_against(path, OLDEST)
}

fn check_against(path: &Path, oldest: Version) -> Result<(), Error> {
    match needed(path)? {
        Some(version) if version > oldest => Err(Error::Failed(format!(
            "{} needs glibc {version}, newer than glibc {oldest}, the oldest that is supported; build on a machine with \
             an older glibc, or change the version in dev/xtask/src/package/glibc.rs and in the documents",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Returns the names of the symbol versions that a file imports.
fn version_names(bytes: &[u8]) -> Result<Vec<String>, ElfError> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let Some((mut libraries, link)) = sections.gnu_verneed(endian, bytes)? else { return Ok(Vec::new()) };
    let strings = sections.strings(endian, bytes, link)?;
    let mut names = Vec::new();
    while let Some((_, mut versions)) = libraries.next()? {
        while let Some(version) = versions.next()? {
            names.push(String::from_utf8_lossy(version.name(endian, strings)?).into_owned());
        }
    }
    Ok(names)
}

/// Parses `GLIBC_2.34` and `GLIBC_2.3.4`; the third number does not matter. Other names are not glibc's, or are markers
/// such as `GLIBC_ABI_DT_RELR`.
fn parse(name: &str) -> Option<Version> {
    let mut numbers = name.strip_prefix(PREFIX)?.split('.').map(str::parse);
    Some(Version(numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_versions() {
        assert_eq!(parse("GLIBC_2.34"), Some(Version(2, 34)));
        assert_eq!(parse("GLIBC_2.2.5"), Some(Version(2, 2)));
        assert_eq!(parse("GLIBC_PRIVATE"), None);
        assert_eq!(parse("GCC_3.3"), None);
        assert!(Version(2, 34) > Version(2, 4));
    }

    #[test]
    fn program_that_needs_a_newer_glibc_is_refused() {
        let program = std::env::current_exe().unwrap();
        let needed = needed(&program).unwrap().expect("this program is linked with glibc");
        assert!(check_against(&program, needed).is_ok());
        let error = check_against(&program, Version(2, 1)).unwrap_err().to_string();
        assert!(error.contains(&format!("needs glibc {needed}")), "{error}");
    }

    #[test]
    fn file_of_another_format_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "not a program").unwrap();
        assert!(check(file.path()).is_err());
    }
}
