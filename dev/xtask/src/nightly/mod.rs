//! `cargo xtask nightly`: checks that take too long for the gate. Its stages run like those of the gate, and each is
//! independent of the others.
//!
//! The seed of the mutants is the day, so that each night tries others. The run prints the seed, with which the
//! surviving mutants can be tried again.

mod dependencies;
mod install;
mod interpreter;

use std::time::{SystemTime, UNIX_EPOCH};

use crate::baremetal;
use crate::ci::{boot, loom, python, sanitizer, soak, storm, uncoupled};
use crate::command;
use crate::error::Error;
use crate::mutants;
use crate::stage::{AfterFailure, Outcome, Run, Stage};
use crate::weigh;
use crate::workspace::cargo;

/// Mutants per night.
const MUTANTS: u32 = 300;
/// Seconds in a day.
const DAY: u64 = 24 * 60 * 60;
/// Steps of the long soak, which take some minutes.
const STEPS: u64 = 1_000_000_000;

/// The nightly run, which reports the failures of all its stages.
pub(crate) static RUN: Run = Run { task: "nightly", stages: &STAGES, after_failure: AfterFailure::Continue };

static STAGES: [Stage; 17] = [
    Stage {
        name: "miri",
        summary: "the core's unit tests have no undefined behaviour",
        budget: 900,
        run: interpreter::run,
    },
    Stage {
        name: "address",
        summary: "no test of the core makes an invalid memory access",
        budget: 1800,
        run: sanitizer::address,
    },
    Stage { name: "sanitizer", summary: "no race in any test with threads", budget: 900, run: sanitizer::full },
    Stage { name: "loom", summary: "no page or object is lost in any order of steps", budget: 900, run: loom::full },
    Stage {
        name: "uncoupled",
        summary: "all tests of pages, with flag values that do not coincide",
        budget: 900,
        run: uncoupled::full,
    },
    Stage { name: "models", summary: "ten times the random steps of the core's tests", budget: 900, run: models },
    Stage { name: "soak", summary: "minutes of stress with threads, signals and moves", budget: 900, run: long_soak },
    Stage {
        name: "malloc-soak",
        summary: "half an hour of threads, forks, limits and failed system calls under the preloaded malloc",
        budget: 2400,
        run: storm::run,
    },
    Stage {
        name: "baremetal",
        summary: "a small kernel boots on every processor, also with an interrupt between any two instructions",
        budget: 600,
        run: baremetal::nightly,
    },
    Stage {
        name: "weigh",
        summary: "the engine's code in a kernel is within its limit",
        budget: 600,
        run: weigh::nightly,
    },
    Stage {
        name: "flight",
        summary: "flight recorders in a booted kernel react to their triggers",
        budget: 600,
        run: boot::flights,
    },
    Stage { name: "sweep", summary: "a sweep of ten thousand tasks", budget: 900, run: sweep },
    Stage { name: "cluster", summary: "a sweep of ten thousand tasks on a cluster", budget: 900, run: python::nightly },
    Stage {
        name: "install",
        summary: "every package can be installed in a clean root, used, upgraded and removed",
        budget: 3600,
        run: install::run,
    },
    Stage {
        name: "licences",
        summary: "licences and origins of all dependencies are those that deny.toml allows",
        budget: 60,
        run: dependencies::licences,
    },
    Stage {
        name: "advisory",
        summary: "no dependency has a known security advisory",
        budget: 120,
        run: dependencies::advisories,
    },
    Stage { name: "mutants", summary: "tests notice deliberate mistakes in the core", budget: 5400, run: mutants },
];

/// Repeats the core's random tests ten times as often as usual, and tries every case where the gate tries a sample.
fn models() -> Result<Outcome, Error> {
    let tests = ["model::", "contig::", "preempt::", "slab::migration::", "attackers::panics::"];
    let command = ["test", "--package", "freehold", "--test", "it", "--"];
    command::run(cargo().env("TEST_FACTOR", "10").args(command).args(tests)).map(|()| Outcome::Passed)
}

fn long_soak() -> Result<Outcome, Error> {
    soak::stress(STEPS).map(|()| Outcome::Passed)
}

fn sweep() -> Result<Outcome, Error> {
    let test = ["test", "--package", "freehold-cli", "--test", "it", "--", "--ignored", "sweep_many::"];
    command::run(cargo().args(test)).map(|()| Outcome::Passed)
}

fn mutants() -> Result<Outcome, Error> {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() / DAY);
    println!("  to repeat this run: cargo xtask mutants --count {MUTANTS} --seed {seed}");
    mutants::run(&mutants::Args::sample(MUTANTS, seed, 60)).map(|()| Outcome::Passed)
}
