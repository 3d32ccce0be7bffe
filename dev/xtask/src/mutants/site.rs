//! Site: one edit of the sources that a test should notice, and its location.

use std::ops::Range;

use serde::Serialize;

/// Mutant that has no number yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Site {
    /// Path of the file from the workspace's root.
    pub(crate) file: String,
    /// Line of the edit, counted from 1.
    pub(crate) line: usize,
    /// Enclosing function, preceded by its type if it has one; for a constant, the name of the constant.
    pub(crate) function: String,
    /// Original text, on one line.
    pub(crate) original: String,
    /// Text of the mutant, on one line.
    pub(crate) mutated: String,
    /// Edits that write both versions: one edit, or one for each use of a constant.
    #[serde(skip)]
    pub(crate) edits: Vec<Edit>,
}

/// One place in a file with an original and a mutated version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    /// Path of the file from the workspace's root.
    pub(crate) file: String,
    /// Bytes of the file that the edit replaces.
    pub(crate) range: Range<usize>,
    /// Change that the edit makes to these bytes.
    pub(crate) kind: Kind,
}

/// Change that an edit makes to the bytes of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Replaces the expression by another.
    Instead(String),
    /// Leaves a statement out.
    LeftOut,
    /// Makes a condition with a pattern false.
    NotTaken,
    /// Inserts a statement at the start of a body.
    First(String),
}

impl Kind {
    /// Returns the mutated text, as people read it.
    pub(crate) fn mutated(&self) -> String {
        match self {
            Kind::Instead(text) | Kind::First(text) => one_line(text),
            Kind::LeftOut => "nothing".to_owned(),
            Kind::NotTaken => "false".to_owned(),
        }
    }
}

/// Returns a piece of source on one line, with single blanks.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
