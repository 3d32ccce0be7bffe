//! Kinds of pages, by the reason why they cannot be moved, named after Linux's terms.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A kind of page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A task's pages that a pipe holds a reference to. Each page is placed in the requested frame.
    Pins,
    /// Pages that the kernel allocated for data in a pipe.
    Pipes,
    /// Blocks of four pages for datagrams that are never received.
    Sockets,
    /// Page tables of addresses that were never written.
    PageTables,
    /// Slabs of `kmalloc` objects: short datagrams that are never received.
    Slab,
    /// A task's pages without other references, which compaction moves: a control for which the proof must fail.
    Movable,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 6] = [Kind::Pins, Kind::Pipes, Kind::Sockets, Kind::PageTables, Kind::Slab, Kind::Movable];

    /// Kinds that are used by default.
    pub const UNMOVABLE: [Kind; 5] = [Kind::Pins, Kind::Pipes, Kind::Sockets, Kind::PageTables, Kind::Slab];

    /// Returns the name of the kind.
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

    /// Returns whether each page is chosen by its frame number. Otherwise the kernel chooses the frames, and only the
    /// order of allocation is controlled.
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
            format!("`{text}` is not a kind of page; give some of {}", Kind::ALL.map(Kind::name).join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_names_round_trip() {
        assert!(Kind::ALL.iter().all(|kind| kind.name().parse() == Ok(*kind)));
        assert!("ping".parse::<Kind>().unwrap_err().contains("page-tables"));
    }
}
