//! Versions of the packages that were built, read from a `Cargo.lock`.

/// Returns all versions of a package in the text of a `Cargo.lock`.
pub fn versions_of<'l>(lock_file: &'l str, package: &str) -> impl Iterator<Item = &'l str> {
    let name = format!("name = \"{package}\"");
    let lines = lock_file.lines().zip(lock_file.lines().skip(1));
    let versions = lines.filter(move |(line, _)| *line == name).map(|(_, next)| next);
    versions.filter_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_by_the_whole_name() {
        let text = "[[package]]\nname = \"spin\"\nversion = \"0.9.8\"\n\n[[package]]\nname = \"spin\"\nversion = \
                    \"0.12.1\"\n\n[[package]]\nname = \"spinning\"\nversion = \"1.0.0\"\n";
        assert_eq!(versions_of(text, "spin").collect::<Vec<_>>(), ["0.9.8", "0.12.1"]);
        assert_eq!(versions_of(text, "spi").count(), 0);
    }
}
