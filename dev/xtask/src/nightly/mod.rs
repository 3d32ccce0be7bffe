//! `cargo xtask nightly`: checks that take too long for the gate. Its stages run like those of the gate, and each is
//! independent of the others.
//!
//! The seed of the mutants is the day, so that each night tries others. The run prints the seed, with which the
//! surviving mutants can be tried again.

mod interpreter;

use std::time::{SystemTime, UNIX_EPOCH};

use crate::baremetal;
use crate::ci::{boot, loom, python, sanitizer, soak, uncoupled};
use crate::command;
use crate::error::Error;
use crate::mutants;
use crate::stage::{Outcome, Stage};
use crate::weigh;
use crate::workspace::cargo;

/// Mutants per night.
const MUTANTS: u32 = 300;
/// Seconds in a day.
const DAY: u64 = 24 * 60 * 60;
/// Steps of the long soak, which take some minutes.
const STEPS: u64 = 1_000_000_000;

/// All stages of the nightly run.
pub(crate) static STAGES: [Stage; 12] = [
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
    Stage { name: "soak", summary: "minutes of stress with threads, signals and moves", budget: 900, run: long_soak },
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
    Stage { name: "mutants", summary: "tests notice deliberate mistakes in the core", budget: 5400, run: mutants },
];

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
