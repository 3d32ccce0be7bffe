//! A site: one edit of the sources that a test should notice, and where it is written.

use std::ops::Range;

use serde::Serialize;

/// A mutant, before it has a number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Site {
    /// The file, from the workspace's root.
    pub(crate) file: String,
    /// Line of the edit, counted from 1.
    pub(crate) line: usize,
    /// The function around it, after the type that it belongs to; the constant's name for a constant.
    pub(crate) function: String,
    /// What stands there, on one line.
    pub(crate) original: String,
    /// What would stand there instead, on one line.
    pub(crate) mutated: String,
    /// What is written to have both: one edit, or one at each use of a constant.
    #[serde(skip)]
    pub(crate) edits: Vec<Edit>,
}

/// One place in one file that can be had in two ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    /// The file, from the workspace's root.
    pub(crate) file: String,
    /// Bytes of the file that the edit replaces.
    pub(crate) range: Range<usize>,
    /// What the edit does to these bytes.
    pub(crate) kind: Kind,
}

/// What an edit does to the bytes of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Another expression stands there.
    Instead(String),
    /// A statement is left out.
    LeftOut,
    /// A condition with a pattern does not hold.
    NotTaken,
    /// A statement comes before all others of a body.
    First(String),
}

impl Kind {
    /// The bytes after the edit, as people read them.
    pub(crate) fn mutated(&self) -> String {
        match self {
            Kind::Instead(text) | Kind::First(text) => one_line(text),
            Kind::LeftOut => "nothing".to_owned(),
            Kind::NotTaken => "false".to_owned(),
        }
    }
}

/// A piece of source on one line, with single blanks.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
