//! Trials of the packages. Each builds a package, installs it in a clean root, runs the command, and removes the package
//! again. No file of the package may remain.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::root::{self, Root};
use crate::command;
use crate::error::{Error, on_file};
use crate::package::{VERSION, archive, crates, deb, wheel};
use crate::stage::Outcome;

/// Version of the package that is upgraded.
const EARLIER: &str = "0.0.1";
/// Name of a recording that the command contains, which its comparison prints.
const RECORDING: &str = "pressure";
/// Files that the Debian package installs, besides the command.
const INSTALLED: [&str; 6] = [
    "usr/lib/freehold/libfreehold.so",
    "usr/share/man/man1/freehold-compare.1.gz",
    "usr/share/bash-completion/completions/freehold",
    "usr/lib/systemd/system/freehold-flight.service",
    "usr/lib/systemd/system/freehold-snapshot.timer",
    "usr/share/doc/freehold/copyright",
];

/// Builds the packages of the libraries. Cargo builds each outside the workspace.
pub(super) fn crates() -> Result<Outcome, Error> {
    crates::build().map(|_| Outcome::Passed)
}

/// Unpacks the archive where nothing else is, and then in a Debian.
pub(super) fn archive() -> Result<Outcome, Error> {
    if let Some(reason) = archive::missing().or_else(root::missing) {
        return Ok(Outcome::Skipped(reason));
    }
    let file = archive::build()?;
    let alone = Root::empty("static")?;
    run_answers(&alone, &unpack(&file, &alone)?)?;
    let debian = Root::debian("static-debian")?;
    let before = debian.files()?;
    let program = unpack(&file, &debian)?;
    run_answers(&debian, &program)?;
    run_malloc(&debian, &program)?;
    let unpacked = debian.path(program.trim_end_matches("/bin/freehold"));
    fs::remove_dir_all(&unpacked).map_err(on_file("remove", &unpacked))?;
    check_removed(&debian, &before)?;
    Ok(Outcome::Passed)
}

/// Installs the Debian package of an earlier version, upgrades it, and removes it.
pub(super) fn deb() -> Result<Outcome, Error> {
    if let Some(reason) = deb::missing().or_else(root::missing) {
        return Ok(Outcome::Skipped(reason));
    }
    let root = Root::debian("deb")?;
    let packages = [root.add(&deb::build(EARLIER)?)?, root.add(&deb::build(VERSION)?)?];
    let before = root.files()?;
    for (package, version) in packages.iter().zip([EARLIER, VERSION]) {
        command::output(&mut root.command(&["dpkg", "--install", package]))?;
        let query = ["dpkg-query", "--show", "--showformat=${Version} ${db:Status-Status}", "freehold"];
        expect(&mut root.command(&query), &format!("{version} installed"))?;
        run_answers(&root, "/usr/bin/freehold")?;
        run_malloc(&root, "/usr/bin/freehold")?;
    }
    if let Some(missing) = INSTALLED.iter().find(|file| !root.path(file).is_file()) {
        return Err(Error::Failed(format!("the package did not install {missing}")));
    }
    // Until a purge, Debian remembers which units were enabled.
    command::output(&mut root.command(&["dpkg", "--purge", "freehold"]))?;
    check_removed(&root, &before)?;
    Ok(Outcome::Passed)
}

/// Installs the wheel in a new virtual environment without a network, installs it again over itself, and removes it.
pub(super) fn wheel() -> Result<Outcome, Error> {
    if let Some(reason) = root::missing() {
        return Ok(Outcome::Skipped(reason));
    }
    let tools = match wheel::install_tools() {
        Ok(tools) => tools,
        Err(error) => return Ok(Outcome::Skipped(format!("cannot install maturin: {error}"))),
    };
    let root = Root::debian("wheel")?;
    let package = root.add(&wheel::build_with(&tools)?)?;
    command::output(&mut root.command(&["python3", "-m", "venv", "/venv"]))?;
    let before = root.files()?;
    let install = ["/venv/bin/pip", "install", "--no-index", "--no-deps", "--no-cache-dir", &package];
    let started = Instant::now();
    command::output(&mut root.command(&install))?;
    command::output(&mut root.command(&["/venv/bin/freehold", "compare"]))?;
    println!("  from pip install to a verdict: {:.1} s", started.elapsed().as_secs_f64());
    command::output(&mut root.command(&[&install[..], &["--force-reinstall"]].concat()))?;
    run_answers(&root, "/venv/bin/freehold")?;
    run_malloc(&root, "/venv/bin/freehold")?;
    expect(&mut root.command(&["/venv/bin/python", "-m", "freehold", "--version"]), VERSION)?;
    expect(&mut root.command(&["/venv/bin/python", "-c", "import freehold; print(freehold.__version__)"]), VERSION)?;
    command::output(&mut root.command(&["/venv/bin/pip", "uninstall", "--yes", "freehold"]))?;
    check_removed(&root, &before)?;
    Ok(Outcome::Passed)
}

/// Runs the command on the recordings that it contains.
pub(super) fn run_answers(root: &Root, program: &str) -> Result<(), Error> {
    expect(&mut root.command(&[program, "--version"]), VERSION)?;
    expect(&mut root.command(&[program, "compare"]), RECORDING)
}

/// Runs a program of the root under the malloc.
pub(super) fn run_malloc(root: &Root, program: &str) -> Result<(), Error> {
    command::output(&mut root.command(&[program, "run", "--", "true"]))?;
    let maps = ["run", "--", "cat", "/proc/self/maps"];
    expect(&mut root.command(&[&[program], &maps[..]].concat()), "libfreehold")
}

/// Unpacks the archive into the root's top folder, and returns the path of the command in the root.
fn unpack(archive: &Path, root: &Root) -> Result<String, Error> {
    command::run(
        Command::new("tar").args(["--extract", "--file"]).arg(archive).arg("--directory").arg(root.path("/")),
    )?;
    let name = archive.file_name().unwrap_or_default().to_string_lossy();
    Ok(format!("/{}/bin/freehold", name.trim_end_matches(".tar.gz")))
}

/// Checks that a command succeeds and that its output contains `text`.
fn expect(command: &mut Command, text: &str) -> Result<(), Error> {
    let output = command::text(command)?;
    match output.contains(text) {
        true => Ok(()),
        false => Err(Error::Failed(format!("`{}` did not print `{text}`:\n{output}", command::line(command)))),
    }
}

/// Checks that a root has the same files as before an installation.
fn check_removed(root: &Root, before: &BTreeSet<String>) -> Result<(), Error> {
    let after = root.files()?;
    let remaining: Vec<&str> = after.difference(before).map(String::as_str).collect();
    let lost: Vec<&str> = before.difference(&after).map(String::as_str).collect();
    match (remaining.is_empty(), lost.is_empty()) {
        (true, true) => Ok(()),
        (false, _) => Err(Error::Failed(format!("after the removal there remain {}", remaining.join(", ")))),
        (true, false) => Err(Error::Failed(format!("the removal also removed {}", lost.join(", ")))),
    }
}
