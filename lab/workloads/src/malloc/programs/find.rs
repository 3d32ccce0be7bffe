//! Files of programs: in the folders of `PATH`, and in those where servers are installed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that contain servers and are often missing from `PATH`.
const SERVER_FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];
/// Folder in which Debian has a folder for each version of PostgreSQL, and the folder of programs within it.
const POSTGRES: (&str, &str) = ("/usr/lib/postgresql", "bin");

/// Returns the path of a program.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let more = SERVER_FOLDERS.map(PathBuf::from).into_iter().chain(postgres_folders());
    env::split_paths(&path).chain(more).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Returns the folders of PostgreSQL's programs, the last name first.
fn postgres_folders() -> impl Iterator<Item = PathBuf> {
    let versions = fs::read_dir(Path::new(POSTGRES.0)).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join(POSTGRES.1)).collect();
    folders.sort_unstable();
    folders.into_iter().rev()
}

/// Returns a sentence about the first of these programs that is not installed.
pub(super) fn missing(names: &[&str]) -> Option<String> {
    let name = names.iter().find(|name| find_program(name).is_none())?;
    Some(format!("the program `{name}` is not installed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_is_named() {
        assert_eq!(missing(&["cat"]), None);
        assert_eq!(missing(&["cat", "no-such-cat"]).unwrap(), "the program `no-such-cat` is not installed");
    }
}
