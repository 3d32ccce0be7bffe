//! The peers by name: a description, their cases, and the function that boots a machine. A new peer needs one row here.
//!
//! A peer lists only cases that it supports. Versions are read from `Cargo.lock`, so they are those that were built.

use freehold_peer_protocol::versions_of;
use serde::Serialize;

use crate::case::Case;
use crate::machine::{self, Machine};
use crate::peer::BootError;
use crate::peer::bitmap::Bitmap;
use crate::peer::buddy_alloc::LinkedBuddies;
use crate::peer::buddy_system::BuddySystem;
use crate::peer::floor::Array;
use crate::peer::frame_alloc::{Cached, Plain};
use crate::peer::free_list::SortedRanges;
use crate::peer::locked::Locked;
use crate::peer::talc::AlignedTalc;

/// Text of `Cargo.lock`, which contains the versions that were built.
const LOCK_FILE: &str = include_str!("../Cargo.lock");
/// Package of the peers that are implemented here.
const OWN_PACKAGE: &str = env!("CARGO_PKG_NAME");

/// Peer in the roster.
pub(crate) struct Candidate {
    /// Name on the command line and in reports.
    pub(crate) name: &'static str,
    /// Package that contains the allocator.
    pub(crate) package: &'static str,
    /// Cases that the peer supports.
    pub(crate) cases: &'static [Case],
    /// Description in one line.
    pub(crate) about: &'static str,
    /// Function that boots a machine with a number of frames for one of these cases.
    pub(crate) boot: fn(u32, Case) -> Result<Box<dyn Machine>, BootError>,
}

/// All peers; the lower bounds are last.
pub(crate) const ROSTER: [Candidate; 9] = [
    Candidate {
        name: "bitmap-allocator",
        package: "bitmap-allocator",
        cases: &Case::ALL,
        about: "tree of bitmaps, behind a spin lock",
        boot: machine::boot::<Locked<Bitmap>>,
    },
    Candidate {
        name: "buddy_system_allocator",
        package: "buddy_system_allocator",
        cases: &Case::ALL,
        about: "buddies in ordered trees, behind a spin lock",
        boot: machine::boot::<Locked<BuddySystem>>,
    },
    Candidate {
        name: "buddy-alloc",
        package: "buddy-alloc",
        cases: &Case::ALL,
        about: "buddies linked through their own memory, behind a spin lock",
        boot: machine::boot::<Locked<LinkedBuddies>>,
    },
    Candidate {
        name: "frame-alloc",
        package: "frame-alloc",
        cases: &Case::ALL,
        about: "buddies in bitmaps, without a lock",
        boot: machine::boot::<Plain>,
    },
    Candidate {
        name: "frame-alloc-depot",
        package: "frame-alloc",
        cases: &Case::ALL,
        about: "buddies in bitmaps behind the package's per-CPU cache of single frames, without a lock",
        boot: machine::boot::<Cached>,
    },
    Candidate {
        name: "free-list",
        package: "free-list",
        cases: &Case::PAIRS,
        about: "free ranges in a sorted array, behind a spin lock; no case of fills, because random frees take \
                quadratic time",
        boot: machine::boot::<Locked<SortedRanges>>,
    },
    Candidate {
        name: "talc",
        package: "talc",
        cases: &Case::ALL,
        about: "general allocator with requests for aligned blocks in twice the memory, behind a spin lock",
        boot: machine::boot::<Locked<AlignedTalc>>,
    },
    Candidate {
        name: "floor-array-lock",
        package: OWN_PACKAGE,
        cases: &Case::PAGES,
        about: "floor: array of free frames of one CPU, behind a spin lock",
        boot: machine::boot::<Locked<Array>>,
    },
    Candidate {
        name: "floor-array",
        package: OWN_PACKAGE,
        cases: &Case::PAGES,
        about: "floor: array of free frames of one CPU, without a lock",
        boot: machine::boot::<Array>,
    },
];

impl Candidate {
    /// Returns the peer of this name, and its position in the roster.
    pub(crate) fn find(name: &str) -> Option<(usize, &'static Candidate)> {
        const { &ROSTER }.iter().enumerate().find(|(_, candidate)| candidate.name == name)
    }

    /// Returns whether the peer supports `case`.
    pub(crate) fn offers(&self, case: Case) -> bool {
        self.cases.contains(&case)
    }
}

/// Peer as `--list` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct RosterRow {
    peer: &'static str,
    version: &'static str,
    cases: Vec<&'static str>,
    about: &'static str,
}

/// Returns the whole roster for `--list`, which prints it as JSON.
pub(crate) fn list() -> Vec<RosterRow> {
    let list = |candidate: &Candidate| RosterRow {
        peer: candidate.name,
        version: version_of(candidate.package),
        cases: candidate.cases.iter().map(|case| case.slug()).collect(),
        about: candidate.about,
    };
    ROSTER.iter().map(list).collect()
}

/// Returns the version of a package that was built.
///
/// # Panics
/// Panics if `Cargo.lock` does not contain the package. A test checks that it contains every package of the roster.
fn version_of(package: &str) -> &'static str {
    versions_of(LOCK_FILE, package).next().expect("Cargo.lock has every package of the roster")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_packages_have_one_version() {
        for (place, candidate) in ROSTER.iter().enumerate() {
            assert_eq!(Candidate::find(candidate.name).map(|(found, _)| found), Some(place));
            assert_eq!(versions_of(LOCK_FILE, candidate.package).count(), 1, "{}", candidate.package);
            assert!(!candidate.name.contains(char::is_whitespace), "a name is one word of a request");
        }
        assert!(Candidate::find("bitmap").is_none());
    }

    #[test]
    fn every_peer_runs_its_listed_cases() {
        for candidate in &ROSTER {
            for &case in candidate.cases {
                let mut machine = (candidate.boot)(1 << 13, case).unwrap();
                let sample = machine.sample(100).unwrap_or_else(|| panic!("{} at {}", candidate.name, case.slug()));
                assert_eq!(sample.operations, 100, "{} at {}", candidate.name, case.slug());
            }
        }
    }

    #[test]
    fn unlisted_cases_are_unsupported() {
        for candidate in ROSTER.iter().filter(|candidate| candidate.name != "free-list") {
            for case in Case::ALL.into_iter().filter(|case| !candidate.offers(*case)) {
                let sample = (candidate.boot)(1 << 13, case).ok().and_then(|mut machine| machine.sample(100));
                assert_eq!(sample, None, "{} at {}", candidate.name, case.slug());
            }
        }
    }
}
