//! The Python wheel: builds it, installs it into a new virtual environment, and runs its tests and its notebook there.
//!
//! The gate builds the wheel with the profile `dev`. Its features differ from those of the command, so all crates are
//! compiled again, and that is faster without optimisation. The nightly test runs thousands of simulations, so its
//! wheel is optimised. `lab/python/requirements.txt` pins the packages of the tests.
//! Without Python or a package index, the stage is skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::smoke;
use crate::command;
use crate::error::{Error, on_file};
use crate::stage::Outcome;
use crate::workspace;

/// Folder of the Python package.
const CRATE: &str = "lab/python";

/// Test of a cluster that only the nightly run includes.
const NIGHTLY: &str = "tests/nightly_sweep_many.py";

/// Runs the tests of the gate.
///
/// # Errors
/// Returns the error of the first step that fails.
pub(crate) fn run() -> Result<Outcome, Error> {
    in_environment("dev", |python| tests(python, &[]))
}

/// Runs a sweep of ten thousand tasks on a cluster.
///
/// # Errors
/// Returns the error of the first step that fails.
pub(crate) fn nightly() -> Result<Outcome, Error> {
    in_environment("release", |python| tests(python, &[NIGHTLY]))
}

/// Builds the wheel with this profile, installs it into a new environment, and calls `trial` with the environment's
/// Python.
fn in_environment(profile: &str, trial: impl FnOnce(&Path) -> Result<(), Error>) -> Result<Outcome, Error> {
    let folder = workspace::target().join("python");
    let environment = folder.join("environment");
    remove(&environment)?;
    if let Err(error) = command::output(Command::new("python3").args(["-m", "venv"]).arg(&environment)) {
        return Ok(Outcome::Skipped(format!(
            "cannot create an environment; run `apt-get install python3-venv` ({})",
            short(&error)
        )));
    }
    let python = environment.join("bin/python");
    let requirements = workspace::root().join(CRATE).join("requirements.txt");
    if let Err(error) = command::output(pip(&python).args(["--quiet", "--requirement"]).arg(&requirements)) {
        return Ok(Outcome::Skipped(format!("cannot install the packages of the tests ({})", short(&error))));
    }
    let wheel = wheel(profile, &environment, &folder.join("wheels"))?;
    command::run(pip(&python).args(["--quiet", "--no-deps", "--no-index"]).arg(&wheel))?;
    trial(&python)?;
    Ok(Outcome::Passed)
}

/// Builds the wheel in `folder`, which is emptied first, and returns its path.
fn wheel(profile: &str, environment: &Path, folder: &Path) -> Result<PathBuf, Error> {
    remove(folder)?;
    let manifest = workspace::root().join(CRATE).join("Cargo.toml");
    let mut build = Command::new(environment.join("bin/maturin"));
    build.args(["build", "--quiet", "--locked", "--profile", profile, "--compatibility", "linux"]);
    build
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--interpreter")
        .arg(environment.join("bin/python"))
        .arg("--out")
        .arg(folder);
    command::run(build.current_dir(workspace::root()).env("CARGO_TARGET_DIR", workspace::target()))?;
    let entries = fs::read_dir(folder).map_err(on_file("read", folder))?;
    let wheels = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let wheel = wheels.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "whl"));
    wheel.ok_or_else(|| Error::Failed("maturin built no wheel".to_owned()))
}

/// Runs the tests, which compare the results in Python with the output of the command `freehold`.
fn tests(python: &Path, files: &[&str]) -> Result<(), Error> {
    let mut tests = Command::new(python);
    tests.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"]).args(files).env("FREEHOLD", smoke::freehold()?);
    command::run(tests.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(workspace::root().join(CRATE)))
}

fn pip(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--disable-pip-version-check"]);
    command
}

fn remove(folder: &Path) -> Result<(), Error> {
    match folder.exists() {
        true => fs::remove_dir_all(folder).map_err(on_file("remove", folder)),
        false => Ok(()),
    }
}

/// Returns the last line of an error. The earlier lines are pip's progress.
fn short(error: &Error) -> String {
    error.to_string().lines().last().unwrap_or_default().trim().to_owned()
}
