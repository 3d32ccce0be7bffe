//! C's promises, and C++'s, held against the malloc: programs in `crates/preload/tests` that check each name, and forks,
//! signals, threads and a limited address space.

use std::process::Command;

use super::malloc::Place;
use crate::command;
use crate::error::Error;
use crate::workspace;

/// A program, and how it is compiled.
struct Program {
    source: &'static str,
    compiler: &'static str,
    /// What it is run with, each once.
    runs: &'static [Run],
}

/// One run of a program.
struct Run {
    argument: &'static str,
    limit: Limit,
}

/// How much address space a run has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// As much as there is.
    None,
    /// So many KiB, from its start on.
    KiB(&'static str),
}

const fn free(argument: &'static str) -> Run {
    Run { argument, limit: Limit::None }
}

const fn limited(argument: &'static str) -> Run {
    Run { argument, limit: Limit::KiB("400000") }
}

const PROGRAMS: [Program; 3] = [
    Program { source: "conformance.c", compiler: "gcc", runs: &[free("all")] },
    Program { source: "conformance.cc", compiler: "g++", runs: &[free("all"), limited("all")] },
    Program {
        source: "storms.c",
        compiler: "gcc",
        runs: &[
            free("forks"),
            free("signals"),
            free("threads"),
            free("limit"),
            limited("threads"),
            limited("limit"),
            limited("forks"),
        ],
    },
];

/// What the programs are run under.
const OPTIONS: [&str; 4] = ["return=frees", "return=helper", "sections=locks", "hardened=on"];
/// Without, what is checked is whether the checks are right.
const WITHOUT: [&str; 2] = ["conformance.c", "conformance.cc"];
/// Seconds after which a run has hung.
const PATIENCE: &str = "100";
/// Sets a limit, and becomes what follows.
const LIMITER: &str = "ulimit -v \"$0\" && exec \"$@\"";

/// Compiles and runs all for which there is a compiler; says how many programs that were.
///
/// # Errors
/// When one cannot be compiled, or finds something wrong.
pub fn run(place: &Place) -> Result<usize, Error> {
    let mut count = 0;
    for program in &PROGRAMS {
        if place.has(program.compiler) {
            program.check(place)?;
            count += 1;
        } else {
            println!("  {} is left out: `{}` is not here", program.source, program.compiler);
        }
    }
    Ok(count)
}

impl Program {
    fn check(&self, place: &Place) -> Result<(), Error> {
        let source = workspace::root().join("crates/preload/tests").join(self.source);
        let program = place.scratch.join(self.source.replace('.', "-"));
        let mut compile = Command::new(self.compiler);
        compile.args(["-O1", "-fno-builtin", "-pthread", "-Wall", "-Wextra", "-Werror"]);
        command::run(compile.arg(source).arg("-o").arg(&program))?;
        let program = program.to_string_lossy();
        if WITHOUT.contains(&self.source) {
            command::output(
                place.command(&["timeout", PATIENCE, &program, "glibc"], None)?.current_dir(&place.scratch),
            )?;
        }
        for options in OPTIONS {
            for run in self.runs {
                let words = run.words(&program);
                let mut command = place.command(&words, Some(options))?;
                command::output(command.current_dir(&place.scratch))
                    .map_err(|error| Error::Failed(format!("{} under {options}: {error}", self.source)))?;
            }
        }
        println!("  {} finds nothing wrong under {}", self.source, OPTIONS.join(" and "));
        Ok(())
    }
}

impl Run {
    fn words<'w>(&self, program: &'w str) -> Vec<&'w str> {
        let limiter: &[&str] = match &self.limit {
            Limit::None => &[],
            Limit::KiB(size) => &["sh", "-c", LIMITER, size],
        };
        let timed = ["timeout", PATIENCE].iter().chain(limiter);
        timed.copied().chain([program, self.argument]).collect()
    }
}
