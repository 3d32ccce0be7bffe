//! `cargo xtask tidy`: checks that compilers and linters do not make.
//!
//! Each check is one file with one function from a [`Tree`] to [`Finding`]s, and a test that plants a violation and
//! expects a finding. A finding prints as `file:line: sentence`, so that editors can jump to it.
//!
//! | check | rule |
//! |---|---|
//! | [`circles`] | no circles of imports between files or between folders |
//! | [`sizes`] | files of at most 500 lines, functions of at most 70 |
//! | [`widths`] | lines of at most 160 characters |
//! | [`openings`] | every file opens with prose |
//! | [`unsafety`] | `unsafe` only in a few places, each use with its argument |
//! | [`links`] | links, anchors and paths in documents have existing targets |
//! | [`words`] | no paths or hosts that exist only on the author's machine |
//! | [`reach`] | every source file is part of some program |
//! | [`locks`] | lock files of all workspaces are up to date |
//! | [`manifests`] | feature `damage` is on for tests only; only `lab/python` depends on `lab/cli` |

mod circles;
mod links;
mod locks;
mod manifests;
mod markdown;
mod modules;
mod openings;
mod reach;
mod sizes;
mod tokens;
mod tree;
mod unsafety;
mod widths;
mod words;

use crate::error::Error;
use tree::{Finding, Tree};

/// All checks, in the order in which their findings are printed.
const CHECKS: [fn(&Tree) -> Vec<Finding>; 10] = [
    circles::check,
    sizes::check,
    widths::check,
    openings::check,
    unsafety::check,
    links::check,
    words::check,
    reach::check,
    manifests::check,
    locks::check,
];

/// Checks the whole workspace and prints the findings. Takes about a second.
///
/// # Errors
/// Returns [`Error::Failed`] if there is a finding.
pub(crate) fn run() -> Result<(), Error> {
    let tree = Tree::read()?;
    let findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: {} files, no findings", tree.len());
            Ok(())
        }
        1 => Err(Error::Failed("tidy: 1 finding".to_owned())),
        count => Err(Error::Failed(format!("tidy: {count} findings"))),
    }
}
