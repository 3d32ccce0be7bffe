//! Tables of counts, and the golden files with which they are compared.

use std::fmt::Display;
use std::path::Path;
use std::{env, fs};

use crate::counts::{COLUMNS, Counts};

/// Width of a scene's name in characters.
const NAME: usize = 36;

/// A table of counts as text.
pub(crate) struct Table(String);

impl Table {
    /// Creates a table with only a header.
    pub(crate) fn new(header: &str) -> Table {
        Table(header.to_owned())
    }

    /// Begins a group of rows with a title.
    pub(crate) fn begin(&mut self, about: &str) {
        self.0 += &format!("\n# {about}\n{:<NAME$}{COLUMNS}\n", "");
    }

    /// Adds a row.
    pub(crate) fn show(&mut self, name: impl Display, counts: &Counts) {
        self.0 += &format!("{:<NAME$}{counts}\n", name.to_string());
    }

    /// Compares the table with its golden file, or writes the file if `BLESS` is set.
    ///
    /// # Panics
    /// If they differ.
    pub(crate) fn compare_or_bless(&self, file: &Path) {
        if cfg!(debug_assertions) {
            println!("left out: the budget is that of an optimised build; this one has\n{}", self.0);
        } else if env::var_os("BLESS").is_some() {
            fs::write(file, &self.0).expect("the golden file can be written");
        } else {
            let golden = Table(fs::read_to_string(file).expect("the golden file is there"));
            let difference = self.difference(&golden);
            assert!(
                difference.is_empty(),
                "{} differs from this build (- file, + build):\n{difference}",
                file.display()
            );
        }
    }

    fn lacks(&self, line: &str) -> bool {
        self.0.lines().all(|other| other != line)
    }

    /// Returns the lines that only one of the two tables has.
    pub(crate) fn difference(&self, golden: &Table) -> String {
        let gone = golden.0.lines().filter(|line| self.lacks(line)).map(|line| format!("-{line}\n"));
        let new = self.0.lines().filter(|line| golden.lacks(line)).map(|line| format!("+{line}\n"));
        let is_moved = self.0 != golden.0;
        let found: String = gone.chain(new).collect();
        if is_moved && found.is_empty() { "lines are in another order\n".to_owned() } else { found }
    }
}
