//! Programs that misuse their memory, each in one way: does the malloc notice?
//!
//! ```text
//! blocks   C's functions by address, so that no compiler knows what they promise; blocks that know who they are
//! kinds    ways of misuse, each for some sizes
//! ```
//!
//! A case has some blocks of its size in use, and some that were given back. It does what it should not, once, and
//! lives on: it allocates, writes and frees as any program does. At its end it says whether memory that it was given
//! twice, or that another wrote to, did it any harm. A malloc that notices ends it before.

mod blocks;
mod kinds;
mod outcome;

use std::io::{self, Error, Write};

use clap::Args;

use blocks::{C, Life};
use kinds::{KINDS, Kind};
use outcome::end_corrupted;

pub use outcome::{CORRUPTED, HARMLESS};

/// Seconds after which a case has hung: the kernel ends it.
const PATIENCE: u32 = 20;

/// Which case.
#[derive(Debug, Args)]
pub struct CorruptionArgs {
    /// The way of misuse and the size of the block, as `--list` has them
    #[arg(required_unless_present = "list", value_name = "WAY/BYTES")]
    case: Option<String>,
    /// Print all cases
    #[arg(long)]
    list: bool,
}

/// A way of misuse, and a size.
#[derive(Clone, Copy)]
struct Case {
    kind: &'static Kind,
    bytes: usize,
}

/// Names of all cases, `WAY/BYTES`, by way.
pub fn cases() -> impl Iterator<Item = String> {
    all_cases().map(|case| case.name())
}

fn all_cases() -> impl Iterator<Item = Case> {
    KINDS.iter().flat_map(|kind| kind.sizes.iter().map(move |&bytes| Case { kind, bytes }))
}

impl Case {
    fn name(self) -> String {
        format!("{}/{}", self.kind.name, self.bytes)
    }
}

/// Does it, unless somebody ends it, and prints what came of it.
///
/// # Errors
/// If there is no such case, or nothing can be printed.
pub fn run(args: &CorruptionArgs) -> io::Result<()> {
    let mut to = io::stdout();
    let Some(name) = args.case.as_ref().filter(|_| !args.list) else {
        return cases().try_for_each(|name| writeln!(to, "{name}"));
    };
    let case = all_cases()
        .find(|case| case.name() == *name)
        .ok_or_else(|| Error::other(format!("there is no case `{name}`; --list has them all")))?;
    blocks::end_after(PATIENCE);
    let c = C::new();
    let mut life = Life::new(c, case.bytes);
    (case.kind.misuse)(c, case.bytes);
    if !life.goes_on() {
        end_corrupted();
    }
    writeln!(to, "{HARMLESS}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn there_are_many_cases_each_with_a_name_of_its_own() {
        let names: BTreeSet<String> = cases().collect();
        assert_eq!(names.len(), all_cases().count());
        assert!(names.len() >= 100, "{}", names.len());
    }

    #[test]
    fn life_goes_on_where_nothing_is_misused() {
        for bytes in [16, 1000, 40_000] {
            assert!(Life::new(C::new(), bytes).goes_on());
        }
    }
}
