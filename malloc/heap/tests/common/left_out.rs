//! What cannot be tried on this machine is said aloud: silence would look like a proof.

use std::fmt::Display;
use std::io::{Write, stderr};

/// Says it even though the test passes: what such a test prints with `println!` is hidden.
pub(crate) fn left_out(what: impl Display) {
    writeln!(stderr(), "left out: {what}").expect("stderr can be written to");
}
