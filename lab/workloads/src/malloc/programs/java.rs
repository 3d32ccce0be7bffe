//! A Java virtual machine: it compiles a program from source, and runs it on threads.

use std::fs;
use std::io;

use super::limit::Limit;
use super::subject::{measure, read_output, under_libc, under_malloc};
use crate::malloc::cost::Cost;

pub(super) const JAVA: &str = "java";
/// Rounds of each thread.
pub(super) const ROUNDS: usize = 40;
const SOURCE: &str = include_str!("scripts/Load.java");
/// Module that contains the compiler.
const COMPILER: &str = "jdk.compiler";

/// Runs the program for `rounds` rounds.
pub(super) fn java(rounds: usize, limit: Option<Limit>) -> io::Result<Cost> {
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("Load.java");
    fs::write(&source, SOURCE)?;
    let mut command = under_malloc(JAVA, limit)?;
    command.args(["-Xmx128m", "-XX:+UseSerialGC", "-Xshare:auto"]).arg(&source).arg(rounds.to_string());
    measure(command, rounds)
}

/// Returns a sentence if the virtual machine has no compiler.
pub(super) fn obstacle() -> Option<String> {
    let modules = read_output(under_libc(JAVA).arg("--list-modules")).unwrap_or_default();
    let has_compiler = modules.lines().any(|line| line.split('@').next() == Some(COMPILER));
    (!has_compiler).then(|| format!("the `{JAVA}` that is installed cannot run a source file"))
}
