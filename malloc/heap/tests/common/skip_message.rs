//! Messages about tests that cannot run on this machine, so that a skipped test is not mistaken for a passed one.

use std::fmt::Display;
use std::io::{Write, stderr};

/// Writes the message to standard error directly, because the output of `println!` is hidden if a test passes.
pub(crate) fn left_out(what: impl Display) {
    writeln!(stderr(), "left out: {what}").expect("stderr can be written to");
}
