//! `freehold bench corruption`: programs that misuse their memory, under several mallocs.

use freehold_bench::corruption;
use freehold_report::terminal::Style;
use freehold_workloads::corruption::cases;

use super::malloc::{expect_alone, libraries, this_program};
use super::{BenchArgs, CORRUPTION, CaseEntry, Entry, Listing};
use crate::cmd::run::find_library;
use crate::error::Error;

/// Step between the cases that a quick run tries.
const QUICK_STEP: usize = 20;

/// Runs the programs and prints the outcomes.
pub(super) fn run(args: &BenchArgs, style: Style) -> Result<(), Error> {
    if args.list {
        return Ok(args.formats.emit(&Listing { benches: vec![entry()] }, style)?);
    }
    expect_alone(args, CORRUPTION)?;
    let request = corruption::Request {
        program: this_program()?,
        cases: if args.quick { cases().step_by(QUICK_STEP).collect() } else { cases().collect() },
        library: find_library()?,
        others: libraries(args)?,
    };
    args.formats.try_all([])?;
    Ok(args.formats.emit(&corruption::measure(&request)?, style)?)
}

/// Returns the entry for the list of benchmarks.
pub(super) fn entry() -> Entry {
    let about = "kind of misuse / bytes of a block";
    let cases = cases().map(|name| CaseEntry { name, about: about.into(), operation: "case" });
    let asks = "memory misuse that mallocs detect";
    let b = "every other malloc that is installed";
    Entry { name: CORRUPTION, asks, a: "freehold", b, cases: cases.collect() }
}
