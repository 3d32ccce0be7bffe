//! Stages of the gate in their order, and the functions of the shorter ones.

use std::path::Path;
use std::process::Command;

use super::{book, boot, loom, malloc, python, readme, sanitizer, smoke, soak, spelling, uncoupled};
use crate::baremetal;
use crate::command;
use crate::error::Error;
use crate::mutants;
use crate::stage::{AfterFailure, Outcome, Run, Stage};
use crate::tidy;
use crate::workspace::cargo;

/// The gate, which ends at the first failure.
pub(crate) static RUN: Run = Run { task: "ci", stages: &STAGES, after_failure: AfterFailure::Stop };

/// All stages of the gate in their order. The quickest are first.
static STAGES: [Stage; 21] = [
    Stage { name: "fmt", summary: "sources are formatted", budget: 10, run: fmt },
    Stage {
        name: "tidy",
        summary: "circles, sizes, openings, unsafe, links, words, dead files",
        budget: 10,
        run: tidy,
    },
    Stage { name: "spelling", summary: "no word is misspelled", budget: 10, run: spelling::run },
    Stage {
        name: "core",
        summary: "the core builds without any feature, and therefore without std",
        budget: 60,
        run: core,
    },
    Stage { name: "aarch64", summary: "the sections of another processor are assembled", budget: 240, run: aarch64 },
    Stage { name: "clippy", summary: "clippy reports nothing on any target", budget: 240, run: clippy },
    Stage { name: "tests", summary: "the README's test command, with doc tests", budget: 1200, run: tests },
    Stage {
        name: "uncoupled",
        summary: "the core's unit tests with flag values that do not coincide; integration tests run nightly",
        budget: 120,
        run: uncoupled::sample,
    },
    Stage {
        name: "loom",
        summary: "no page or object is lost in any order of steps; three long tests run nightly",
        budget: 300,
        run: loom::sample,
    },
    Stage {
        name: "sanitizer",
        summary: "no race in tests with threads, and a planted race is reported; some long tests run nightly",
        budget: 300,
        run: sanitizer::sample,
    },
    Stage {
        name: "soak",
        summary: "sections interrupted at each instruction; budget of fast paths; stress with threads, signals and \
                  moves",
        budget: 300,
        run: soak::run,
    },
    Stage { name: "mutants", summary: "tests notice a few deliberate mistakes in the core", budget: 300, run: mutants },
    Stage { name: "docs", summary: "documentation builds without a warning", budget: 180, run: docs },
    Stage { name: "compare", summary: "the README's first command", budget: 240, run: compare },
    Stage { name: "smoke", summary: "every command of `freehold` runs", budget: 300, run: smoke::run },
    Stage {
        name: "book",
        summary: "the book builds, its links are valid, and its tutorial and example policy work",
        budget: 240,
        run: book::run,
    },
    Stage {
        name: "python",
        summary: "the wheel returns the same results as the command, in a new environment, and its notebook runs",
        budget: 480,
        run: python::run,
    },
    Stage {
        name: "malloc",
        summary: "real programs and tests of conformance with C run under the malloc",
        budget: 240,
        run: malloc::run,
    },
    Stage { name: "bench", summary: "the harness judges known differences correctly", budget: 120, run: bench },
    Stage {
        name: "baremetal",
        summary: "a small kernel on the engine boots, with interrupts that allocate at any point",
        budget: 240,
        run: baremetal::stage,
    },
    Stage {
        name: "boot",
        summary: "the pinned kernel boots, is recorded, and is replayed",
        budget: 300,
        run: boot::run,
    },
];

fn passed(command: &mut Command) -> Result<Outcome, Error> {
    command::run(command).map(|()| Outcome::Passed)
}

fn fmt() -> Result<Outcome, Error> {
    passed(cargo().args(["fmt", "--all", "--check"]))
}

fn tidy() -> Result<Outcome, Error> {
    tidy::run().map(|()| Outcome::Passed)
}

fn core() -> Result<Outcome, Error> {
    passed(cargo().args(["build", "--package", "freehold", "--no-default-features"]))
}

/// Builds the heap's tests for aarch64, if the toolchain has the standard library of that target.
///
/// Generic code is assembled only where it is used, so this stage builds the tests and not the library. It needs no
/// linker, so `true` replaces the linker. Incremental compilation is off, because it repeats an error of the assembler
/// after the code is corrected.
fn aarch64() -> Result<Outcome, Error> {
    const TARGET: &str = "aarch64-unknown-linux-gnu";
    let folder = Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    let folder = folder.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    if folder.is_empty() || !Path::new(&folder).is_dir() {
        return Ok(Outcome::Skipped(format!("the target is missing; run `rustup target add {TARGET}`")));
    }
    let mut command = cargo();
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "true").env("CARGO_INCREMENTAL", "0");
    passed(command.args(["test", "--no-run", "--package", "freehold-malloc", "--target", TARGET]))
}

/// Runs clippy on all targets, including the part of the wheel that needs Python. Checking this part needs no Python.
fn clippy() -> Result<Outcome, Error> {
    let words = ["clippy", "--workspace", "--all-targets", "--features", "freehold-python/extension"];
    passed(cargo().env("PYO3_NO_PYTHON", "1").args(words).args(["--", "--deny", "warnings"]))
}

fn tests() -> Result<Outcome, Error> {
    passed(&mut readme::commands()?.tests())
}

/// Tries five mutants, always the same ones for the same sources. Tests that take longer than a second run last.
fn mutants() -> Result<Outcome, Error> {
    mutants::run(&mutants::Args::sample(5, 1, 1)).map(|()| Outcome::Passed)
}

fn compare() -> Result<Outcome, Error> {
    passed(&mut readme::commands()?.compare())
}

/// The command, and the crates that only the command uses. Their documentation includes private items, because readers
/// of these crates read their internals.
const ROOMS: [&str; 17] = [
    "freehold-bench",
    "freehold-boot",
    "freehold-record",
    "freehold-disasm",
    "freehold-convert",
    "freehold-fiber",
    "freehold-fragmenter",
    "freehold-heap-inspector",
    "freehold-inspect",
    "freehold-cli",
    "freehold-workloads",
    "freehold-report",
    "freehold-pprof",
    "freehold-policies",
    "freehold-replay",
    "freehold-sim",
    "freehold-sweep",
];

/// Builds the documentation: first the programs and their crates with private items, then the libraries.
///
/// The order makes the library `freehold` overwrite the documentation of the program with the same name.
fn docs() -> Result<Outcome, Error> {
    command::run(rustdoc().args(["--workspace", "--bins", "--document-private-items"]))?;
    let rooms = ROOMS.iter().flat_map(|room| ["--package", room]);
    let inside = "--deny warnings --allow rustdoc::private_intra_doc_links";
    command::run(rustdoc().env("RUSTDOCFLAGS", inside).args(rooms).args(["--lib", "--document-private-items"]))?;
    let others = ROOMS.iter().flat_map(|room| ["--exclude", room]);
    passed(rustdoc().args(["--workspace", "--lib"]).args(others))
}

/// Returns the command that documents crates, with warnings as errors.
fn rustdoc() -> Command {
    let mut command = cargo();
    command.env("RUSTDOCFLAGS", "--deny warnings").args(["doc", "--no-deps"]);
    command
}

/// Compares the engine with itself, and with itself doing 3 % more or less work, on the real clock.
///
/// On a busy machine the harness may report that a comparison is undecided. A wrong verdict is measured once more with
/// another seed, because the harness may by design be wrong in 5 of 100 comparisons. Two wrong verdicts fail the stage.
fn bench() -> Result<Outcome, Error> {
    let freehold = smoke::freehold()?;
    let arguments = ["bench", "harness", "--runs", "40", "--time", "4", "--seed"];
    passed(Command::new(&freehold).args(arguments).arg("1"))
        .or_else(|_| passed(Command::new(&freehold).args(arguments).arg("2")))
}
