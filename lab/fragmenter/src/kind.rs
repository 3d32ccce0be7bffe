//! What keeps pages from being moved: kinds, by Linux's nouns.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A kind of page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A task's pages that a pipe holds a reference to. They lie page by page where they were ordered.
    Pins,
    /// Pages that the kernel allocated for what was written to a pipe.
    Pipes,
    /// Blocks of four pages for datagrams that nobody receives.
    Sockets,
    /// Page tables of addresses at which nothing was written.
    PageTables,
    /// Slabs of `kmalloc` objects: short datagrams that nobody receives.
    Slab,
    /// A task's pages that nothing holds: compaction moves them. A control, by which the proof has to fail.
    Movable,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 6] = [Kind::Pins, Kind::Pipes, Kind::Sockets, Kind::PageTables, Kind::Slab, Kind::Movable];

    /// Those that are used if nobody names any.
    pub const UNMOVABLE: [Kind; 5] = [Kind::Pins, Kind::Pipes, Kind::Sockets, Kind::PageTables, Kind::Slab];

    /// How it is written.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Pins => "pins",
            Kind::Pipes => "pipes",
            Kind::Sockets => "sockets",
            Kind::PageTables => "page-tables",
            Kind::Slab => "slab",
            Kind::Movable => "movable",
        }
    }

    /// Whether each page is chosen by its frame number. Else the kernel allocates where it likes, and only the order is
    /// ours.
    pub fn is_exact(self) -> bool {
        matches!(self, Kind::Pins | Kind::Movable)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == text);
        kind.ok_or_else(|| {
            format!("`{text}` is no kind of page; give some of {}", Kind::ALL.map(Kind::name).join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_what_it_is_called() {
        assert!(Kind::ALL.iter().all(|kind| kind.name().parse() == Ok(*kind)));
        assert!("ping".parse::<Kind>().unwrap_err().contains("page-tables"));
    }
}
