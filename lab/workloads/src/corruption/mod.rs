//! Programs that misuse their memory, each in one way, to test whether the malloc detects it.
//!
//! ```text
//! blocks   C's functions by address, so that the compiler assumes nothing about them; blocks with known contents
//! kinds    kinds of misuse, each for some sizes
//! ```
//!
//! A case has some blocks of its size in use, and has freed others. It misuses memory once and continues: it allocates,
//! writes and frees like any program. At its end it reports whether it got memory twice, or whether another write
//! damaged its memory. A malloc that detects the misuse ends the process before that.

mod blocks;
mod kinds;
mod outcome;

use std::io::{self, Error, Write};

use clap::Args;
use freehold_timing::affinity;
use rustix::thread::sched_getcpu;

use blocks::{C, Life};
use kinds::{KINDS, Kind};
use outcome::end_corrupted;

pub use outcome::{CORRUPTED, HARMLESS};

/// Seconds after which the kernel ends a case that hangs.
const PATIENCE: u32 = 20;

/// Which case.
#[derive(Debug, Args)]
pub struct CorruptionArgs {
    /// Kind of misuse and size of the block, as `--list` prints them
    #[arg(required_unless_present = "list", value_name = "WAY/BYTES")]
    case: Option<String>,
    /// Print all cases
    #[arg(long)]
    list: bool,
}

/// A kind of misuse, and a size.
#[derive(Clone, Copy)]
struct Case {
    kind: &'static Kind,
    bytes: usize,
}

/// Returns the names of all cases, `WAY/BYTES`, by kind.
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

/// Runs a case, and prints its outcome unless the malloc ends the process. With `--list`, prints the names of all cases
/// instead.
///
/// # Errors
/// Returns an error if there is no such case, or if nothing can be printed.
pub fn run(args: &CorruptionArgs) -> io::Result<()> {
    let mut to = io::stdout();
    let Some(name) = args.case.as_ref().filter(|_| !args.list) else {
        return cases().try_for_each(|name| writeln!(to, "{name}"));
    };
    let case = all_cases()
        .find(|case| case.name() == *name)
        .ok_or_else(|| Error::other(format!("there is no case `{name}`; --list prints all cases")))?;
    blocks::end_after(PATIENCE);
    stay_on_this_cpu()?;
    let c = C::new();
    let mut life = Life::new(c, case.bytes);
    (case.kind.misuse)(c, case.bytes);
    if !life.goes_on() {
        end_corrupted();
    }
    writeln!(to, "{HARMLESS}")
}

/// Restricts the process to the CPU that it runs on. A malloc may check a freed block only when later frees on the same
/// CPU replace it in a queue, so a migration after the misuse would change the outcome.
fn stay_on_this_cpu() -> io::Result<()> {
    Ok(affinity::pin(sched_getcpu() as u16)?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn corruption_cases_are_numerous_and_unique() {
        let names: BTreeSet<String> = cases().collect();
        assert_eq!(names.len(), all_cases().count());
        assert!(names.len() >= 100, "{}", names.len());
    }

    #[test]
    fn program_without_misuse_continues() {
        for bytes in [16, 1000, 40_000] {
            assert!(Life::new(C::new(), bytes).goes_on());
        }
    }
}
