//! Builds the copy, and removes the mutants that the compiler refuses.
//!
//! Sites are found without knowing types, so some edits are not valid Rust, such as the difference of two references.
//! The compiler reports the position of each error. The sites at that position are removed, and others are drawn. If no
//! site is at the position, all sites in the function around it are removed. The cause may be elsewhere in the
//! function: a value that is moved twice causes an error where it is used. The library is checked alone first, which is
//! fast.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::copy::{self, Places};
use super::draw::Drawn;
use super::site::Site;
use super::source::Source;
use super::subject::Subject;
use crate::error::Error;
use crate::workspace;

/// Test program that contains all mutants.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// Names of the package and of the program.
    pub(crate) name: String,
    /// Path of the program.
    pub(crate) path: PathBuf,
    /// Working directory that the tests expect: the folder of their package.
    pub(crate) folder: PathBuf,
}

/// Result of one attempt to build.
enum Attempt {
    /// The compiler accepted everything. After a build of the tests, these are the test programs.
    Built(Vec<Program>),
    /// The compiler refused these mutants, which must be removed.
    Refused(BTreeSet<u32>),
}

/// Mutants that compile, and the test programs that contain them all.
pub(crate) struct Built<'s> {
    /// Mutants in the programs, by number.
    pub(crate) mutants: BTreeMap<u32, &'s Site>,
    /// Test programs, one for each test target.
    pub(crate) programs: Vec<Program>,
    /// Number of mutants that the compiler refused.
    pub(crate) refused: usize,
}

/// Draws `count` mutants that compile, or all if there are fewer, and builds all tests with them.
///
/// # Errors
/// Returns an error if a compiler error cannot be attributed to a mutant, or if a file cannot be written.
pub(crate) fn build<'s>(
    subject: &Subject,
    sources: &[Source],
    mut drawn: Drawn<'s>,
    count: usize,
    jobs: usize,
) -> Result<Built<'s>, Error> {
    let mut refused = 0;
    let mut mutants: BTreeMap<u32, &Site> = drawn.by_ref().take(count).collect();
    loop {
        let places = copy::write(subject, sources, &mutants)?;
        let mut attempt = checked(subject, &places, jobs)?;
        if matches!(attempt, Attempt::Built(_)) {
            attempt = tests(subject, &places, jobs)?;
        }
        match attempt {
            Attempt::Built(programs) => return Ok(Built { mutants, programs, refused }),
            Attempt::Refused(ids) => {
                refused += ids.len();
                mutants.retain(|id, _| !ids.contains(id));
                let missing = count - mutants.len();
                mutants.extend(drawn.by_ref().take(missing));
            }
        }
    }
}

/// Checks whether the library compiles with all mutants in it.
fn checked(subject: &Subject, places: &Places, jobs: usize) -> Result<Attempt, Error> {
    attempt(subject, places, cargo(subject, jobs, "check").args(["--package", subject.package, "--lib"]))
}

/// Builds the tests of all packages.
fn tests(subject: &Subject, places: &Places, jobs: usize) -> Result<Attempt, Error> {
    attempt(subject, places, cargo(subject, jobs, "test").args(["--workspace", "--lib", "--tests", "--no-run"]))
}

/// Returns the command `cargo TASK` for the copy, with the settings that the copy needs. Lints are allowed, because the
/// original has been linted.
fn cargo(subject: &Subject, jobs: usize, task: &str) -> Command {
    let mut command = workspace::cargo();
    command.current_dir(subject.copy()).env("RUSTC_BOOTSTRAP", subject.package.replace('-', "_"));
    command.env("CARGO_ENCODED_RUSTFLAGS", "--cap-lints=allow").env_remove("CARGO_TARGET_DIR");
    command.args([task, "--quiet", "--offline", "--message-format=json", "--jobs", &jobs.to_string()]);
    command.arg("--target-dir").arg(subject.folder.join("build"));
    command
}

fn attempt(subject: &Subject, places: &Places, command: &mut Command) -> Result<Attempt, Error> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| build_error(&error.to_string()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let messages: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if output.status.success() {
        return Ok(Attempt::Built(messages.iter().filter_map(program).collect()));
    }
    let mut refused = BTreeSet::new();
    for message in errors(&messages) {
        let ids = blamed(subject, places, message);
        if ids.is_empty() && message["spans"].as_array().is_some_and(|spans| !spans.is_empty()) {
            return Err(build_error(message["rendered"].as_str().unwrap_or("an error without a message")));
        }
        refused.extend(ids);
    }
    if refused.is_empty() {
        Err(build_error(&String::from_utf8_lossy(&output.stderr)))
    } else {
        Ok(Attempt::Refused(refused))
    }
}

/// Returns the error of a copy with mutants that does not build.
fn build_error(said: &str) -> Error {
    Error::Failed(format!("the copy with mutants does not build: {said}"))
}

fn errors(messages: &[Value]) -> impl Iterator<Item = &Value> {
    let told = messages.iter().filter(|message| message["reason"] == "compiler-message");
    told.map(|message| &message["message"]).filter(|message| message["level"] == "error")
}

/// Returns the test program that a compiler message reports, if any.
fn program(message: &Value) -> Option<Program> {
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let path = message["executable"].as_str().filter(|_| is_test)?;
    let folder = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package = folder.file_name()?.to_string_lossy().into_owned();
    let name = format!("{package} {}", message["target"]["name"].as_str()?);
    Some(Program { name, path: PathBuf::from(path), folder })
}

/// Returns the mutants that an error is attributed to.
fn blamed(subject: &Subject, places: &Places, message: &Value) -> BTreeSet<u32> {
    let spans = message["spans"].as_array().map_or(&[][..], Vec::as_slice);
    let mut all = BTreeSet::new();
    for span in spans.iter().filter(|span| span["is_primary"] == true) {
        let (Some(file), Some(at)) = (span["file_name"].as_str(), span["byte_start"].as_u64()) else { continue };
        let Some(placed) = places.get(file) else { continue };
        let at = at as usize;
        let innermost =
            placed.iter().filter(|placed| placed.range.contains(&at)).min_by_key(|placed| placed.range.len());
        match innermost {
            Some(placed) => all.extend(&placed.ids),
            None => {
                let around = std::fs::read_to_string(subject.copy().join(file)).ok().and_then(|text| around(&text, at));
                let inside = around.unwrap_or(at..at);
                let inside = placed.iter().filter(|placed| inside.contains(&placed.range.start));
                all.extend(inside.flat_map(|placed| &placed.ids));
            }
        }
    }
    all
}

/// Returns the range of the innermost function around a byte.
fn around(text: &str, at: usize) -> Option<std::ops::Range<usize>> {
    struct Functions(Vec<std::ops::Range<usize>>);
    impl<'ast> Visit<'ast> for Functions {
        fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
            self.0.push(function.span().byte_range());
            visit::visit_item_fn(self, function);
        }
        fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
            self.0.push(function.span().byte_range());
            visit::visit_impl_item_fn(self, function);
        }
        fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
            self.0.push(function.span().byte_range());
            visit::visit_trait_item_fn(self, function);
        }
    }
    let mut functions = Functions(Vec::new());
    functions.visit_file(&syn::parse_file(text).ok()?);
    functions.0.into_iter().filter(|range| range.contains(&at)).min_by_key(|range| range.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn innermost_function_is_found() {
        let text = "fn a() {}\nimpl T { fn b() { fn c() { 1 } } }";
        let found = around(text, text.find('1').unwrap()).unwrap();
        assert_eq!(&text[found], "fn c() { 1 }");
        assert_eq!(around(text, text.find("impl").unwrap()), None);
    }
}
