//! What is said: each mutant that no test noticed, and counts at the end.

use std::fs;
use std::path::Path;

use serde::Serialize;

use super::equivalent::Equivalent;
use super::site::Site;
use super::trial::Fate;
use crate::error::{Error, on_file};

/// A whole run of mutants, as JSON has it.
#[derive(Debug, Serialize)]
pub(crate) struct Report<'s> {
    /// Seed that the mutants were drawn by.
    pub(crate) seed: u64,
    /// Number of sites to draw from.
    pub(crate) sites: usize,
    /// Number of tests that ran.
    pub(crate) tests: usize,
    /// Drawn, and refused by the compiler.
    pub(crate) refused: usize,
    /// Every mutant that was tried.
    pub(crate) mutants: Vec<MutantReport<'s>>,
}

/// What became of one mutant.
#[derive(Debug, Serialize)]
pub(crate) struct MutantReport<'s> {
    /// The edit, and where it is.
    #[serde(flatten)]
    site: &'s Site,
    /// How the trial of it ended.
    ending: Ending,
    /// Name of the test that noticed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    noticed_by: Option<String>,
    /// Tests that met it and passed, where all did.
    #[serde(skip_serializing_if = "Option::is_none")]
    tests_passed: Option<usize>,
    /// Whether it is listed as one that no test can notice.
    is_listed: bool,
}

/// How the trial of a mutant ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Ending {
    Caught,
    TimedOut,
    Survived,
    NotCovered,
}

impl<'s> MutantReport<'s> {
    /// Judges one by its fate and the list.
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
    /// Prints the counts, and says whether all is well.
    ///
    /// # Errors
    /// [`Error::Failed`] if a mutant was not noticed that should be, or one was noticed that nothing can notice.
    pub(crate) fn conclude(&self) -> Result<(), Error> {
        println!("{}", self.counts());
        let wrong = self.mutants.iter().find(|tried| tried.is_listed && !tried.is_unnoticed());
        if let Some(MutantReport { site, noticed_by, .. }) = wrong {
            let (place, test) = (place(site), noticed_by.as_deref().unwrap_or("a test"));
            return Err(Error::Failed(format!("{place} is listed as equivalent, and yet {test} notices it")));
        }
        match self.mutants.iter().filter(|tried| tried.is_unnoticed() && !tried.is_listed).count() {
            0 => Ok(()),
            1 => Err(Error::Failed("1 mutant was not noticed; test for it, or argue why no test can".to_owned())),
            count => {
                Err(Error::Failed(format!("{count} mutants were not noticed; test for them, or argue why no test can")))
            }
        }
    }

    fn counts(&self) -> String {
        format!(
            "mutants: {} tried of {} places to err, with {} tests: {} caught, {} ended for time, {} survived, \
             {} not covered, {} listed as equivalent; {} more did not compile",
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

    /// Writes all of it as JSON.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(self).expect("a report has text and numbers only");
        fs::write(path, text + "\n").map_err(on_file("write", path))
    }
}

/// What is said of a mutant that no test noticed, unless it is listed.
pub(crate) fn complaint(site: &Site, fate: &Fate, listed: &[Equivalent]) -> Option<String> {
    let what = match fate {
        Fate::Caught(_) | Fate::TimedOut(_) => return None,
        Fate::Survived(1) => "survived 1 test".to_owned(),
        Fate::Survived(tests) => format!("survived {tests} tests"),
        Fate::NotCovered => "not covered".to_owned(),
    };
    let Site { original, mutated, .. } = site;
    let text = format!("{}: {what}\n    there is  {original}\n    tried     {mutated}", place(site));
    (!listed.iter().any(|entry| entry.is_about(site))).then_some(text)
}

/// Where a mutant is, so that editors can jump to it.
pub(crate) fn place(site: &Site) -> String {
    format!("{}:{}: {}", site.file, site.line, site.function)
}
