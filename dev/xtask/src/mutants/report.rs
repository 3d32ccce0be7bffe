//! Report of a run: each mutant that no test noticed, and the counts at the end.

use std::fs;
use std::path::Path;

use serde::Serialize;

use super::equivalent::Equivalent;
use super::site::Site;
use super::trial::Fate;
use crate::error::{Error, on_file};

/// Report of a whole run, as it is written to JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Report<'s> {
    /// Seed that the mutants were drawn by.
    pub(crate) seed: u64,
    /// Number of sites to draw from.
    pub(crate) sites: usize,
    /// Number of tests that ran.
    pub(crate) tests: usize,
    /// Number of mutants that were drawn and refused by the compiler.
    pub(crate) refused: usize,
    /// All mutants that were tried.
    pub(crate) mutants: Vec<MutantReport<'s>>,
}

/// Result of one mutant.
#[derive(Debug, Serialize)]
pub(crate) struct MutantReport<'s> {
    /// The edit and its location.
    #[serde(flatten)]
    site: &'s Site,
    /// Ending of the trial.
    ending: Ending,
    /// Name of the test that noticed the mutant.
    #[serde(skip_serializing_if = "Option::is_none")]
    noticed_by: Option<String>,
    /// Number of tests that executed the site and passed, if all of them passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    tests_passed: Option<usize>,
    /// Whether the mutant is listed as equivalent.
    is_listed: bool,
}

/// Ending of the trial of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Ending {
    Caught,
    TimedOut,
    Survived,
    NotCovered,
}

impl<'s> MutantReport<'s> {
    /// Creates the report of a mutant from its fate and the list of equivalent mutants.
    pub(crate) fn new(site: &'s Site, fate: Fate, listed: &[Equivalent]) -> MutantReport<'s> {
        let (ending, noticed_by, tests_passed) = match fate {
            Fate::Caught(test) => (Ending::Caught, Some(test), None),
            Fate::TimedOut(test) => (Ending::TimedOut, Some(test), None),
            Fate::Survived(tests) => (Ending::Survived, None, Some(tests)),
            Fate::NotCovered => (Ending::NotCovered, None, None),
        };
        let is_listed = listed.iter().any(|entry| entry.is_about(site));
        MutantReport { site, ending, noticed_by, tests_passed, is_listed }
    }

    fn is_unnoticed(&self) -> bool {
        matches!(self.ending, Ending::Survived | Ending::NotCovered)
    }
}

impl Report<'_> {
    /// Prints the counts, and checks the result.
    ///
    /// # Errors
    /// Returns [`Error::Failed`] if an unlisted mutant was not noticed, or if a mutant listed as equivalent was
    /// noticed.
    pub(crate) fn conclude(&self) -> Result<(), Error> {
        println!("{}", self.counts());
        let wrong = self.mutants.iter().find(|tried| tried.is_listed && !tried.is_unnoticed());
        if let Some(MutantReport { site, noticed_by, .. }) = wrong {
            let (place, test) = (place(site), noticed_by.as_deref().unwrap_or("a test"));
            return Err(Error::Failed(format!("{place} is listed as equivalent, but {test} notices it")));
        }
        match self.mutants.iter().filter(|tried| tried.is_unnoticed() && !tried.is_listed).count() {
            0 => Ok(()),
            1 => Err(Error::Failed(
                "1 mutant was not noticed; add a test, or list it as equivalent with an argument".to_owned(),
            )),
            count => Err(Error::Failed(format!(
                "{count} mutants were not noticed; add tests, or list them as equivalent with an argument"
            ))),
        }
    }

    fn counts(&self) -> String {
        format!(
            "mutants: {} tried of {} possible, with {} tests: {} caught, {} timed out, {} survived, {} not covered, \
             {} listed as equivalent; {} more did not compile",
            self.mutants.len(),
            self.sites,
            self.tests,
            self.count_unlisted(Ending::Caught),
            self.count_unlisted(Ending::TimedOut),
            self.count_unlisted(Ending::Survived),
            self.count_unlisted(Ending::NotCovered),
            self.mutants.iter().filter(|tried| tried.is_listed).count(),
            self.refused
        )
    }

    /// Counts the mutants with this ending that are not listed as equivalent.
    fn count_unlisted(&self, ending: Ending) -> usize {
        self.mutants.iter().filter(|tried| tried.ending == ending && !tried.is_listed).count()
    }

    /// Writes the report as JSON.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(self).expect("a report consists of text and numbers");
        fs::write(path, text + "\n").map_err(on_file("write", path))
    }
}

/// Returns the message about a mutant that no test noticed, unless the mutant is listed as equivalent.
pub(crate) fn complaint(site: &Site, fate: &Fate, listed: &[Equivalent]) -> Option<String> {
    let what = match fate {
        Fate::Caught(_) | Fate::TimedOut(_) => return None,
        Fate::Survived(1) => "survived 1 test".to_owned(),
        Fate::Survived(tests) => format!("survived {tests} tests"),
        Fate::NotCovered => "not covered".to_owned(),
    };
    let Site { original, mutated, .. } = site;
    let text = format!("{}: {what}\n    original  {original}\n    mutant    {mutated}", place(site));
    (!listed.iter().any(|entry| entry.is_about(site))).then_some(text)
}

/// Returns the location of a mutant in a form that editors can jump to.
pub(crate) fn place(site: &Site) -> String {
    format!("{}:{}: {}", site.file, site.line, site.function)
}
