//! Mutants that no test can detect, each with a reason: `dev/xtask/mutants/equivalent.toml`.
//!
//! An entry identifies a mutant without its line, so that it stays valid when lines move. An entry without a mutant is
//! an error.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::site::{Site, one_line};
use crate::error::{Error, on_file};

/// Mutant that is equivalent to the original program.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Equivalent {
    file: String,
    function: String,
    original: String,
    mutated: String,
    /// Reason for which the mutant behaves like the original, in a sentence.
    why: String,
}

/// List of equivalent mutants as the file contains it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    mutant: Vec<Equivalent>,
}

impl Equivalent {
    /// Returns whether the entry describes this mutant.
    pub(crate) fn is_about(&self, site: &Site) -> bool {
        self.file == site.file
            && self.function == site.function
            && one_line(&self.original) == site.original
            && one_line(&self.mutated) == site.mutated
    }

    /// Returns the edit, the function and the file, for people.
    pub(crate) fn name(&self) -> String {
        format!("`{}` for `{}` in {} ({})", self.mutated, self.original, self.function, self.file)
    }
}

/// Reads the list, which is empty if the file does not exist. Each entry must have a reason of at least four words, and
/// must describe an existing mutant.
///
/// # Errors
/// Returns an error if the file cannot be read, or if an entry is wrong.
pub(crate) fn read(path: &Path, sites: &[Site]) -> Result<Vec<Equivalent>, Error> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    parse(&fs::read_to_string(path).map_err(on_file("read", path))?, sites)
}

fn parse(text: &str, sites: &[Site]) -> Result<Vec<Equivalent>, Error> {
    let list: List = toml::from_str(text)
        .map_err(|error| Error::Failed(format!("cannot read the list of equivalent mutants: {error}")))?;
    for entry in &list.mutant {
        if entry.why.split_whitespace().count() < 4 {
            return Err(Error::Failed(format!("the list of equivalent mutants has no argument for {}", entry.name())));
        }
        if !sites.iter().any(|site| entry.is_about(site)) {
            let sentence = "is listed as equivalent, but this mutant does not exist any more; remove it from the list";
            return Err(Error::Failed(format!("{} {sentence}", entry.name())));
        }
    }
    Ok(list.mutant)
}

#[cfg(test)]
mod tests {
    use super::super::{EQUIVALENT, subject::Subject};
    use super::*;
    use crate::workspace;

    const ENTRY: &str =
        "[[mutant]]\nfile = \"a.rs\"\nfunction = \"A::b\"\noriginal = \"a <\\n b\"\nmutated = \"(a) <= (b)\"\n";

    fn site(mutated: &str) -> Site {
        Site {
            file: "a.rs".to_owned(),
            line: 7,
            function: "A::b".to_owned(),
            original: "a < b".to_owned(),
            mutated: mutated.to_owned(),
            edits: Vec::new(),
        }
    }

    #[test]
    fn listed_equivalent_mutants_exist() {
        let (_, sites) = Subject::core().read().unwrap();
        assert!(!read(&workspace::root().join(EQUIVALENT), &sites).unwrap().is_empty());
    }

    #[test]
    fn equivalent_entries_match_mutants_on_any_line() {
        let text = format!("{ENTRY}why = \"a never equals b here\"\n");
        let entries = parse(&text, &[site("(a) <= (b)")]).unwrap();
        assert!(entries[0].is_about(&site("(a) <= (b)")) && !entries[0].is_about(&site("(a) >= (b)")));
    }

    fn refuse(text: &str) -> String {
        parse(text, &[site("(a) >= (b)")]).unwrap_err().to_string()
    }

    #[test]
    fn entries_without_argument_or_mutant_are_refused() {
        assert!(refuse(&format!("{ENTRY}why = \"obvious\"\n")).contains("no argument"));
        assert!(refuse(&format!("{ENTRY}why = \"a never equals b here\"\n")).contains("does not exist any more"));
        assert!(refuse("[[mutnat]]\n").contains("cannot read the list"));
    }
}
