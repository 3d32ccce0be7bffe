//! Conformance of the malloc with C and C++: compiles and runs the programs in `malloc/preload/tests`.
//!
//! They check each function, forks, signals and threads, the start of the helper thread, statistics, the option
//! `limit`, limited address space and memory, mappings in the way of the malloc's ranges, and filters of system calls.

use std::path::Path;
use std::process::Command;

use super::group::Group;
use super::sandbox::Sandbox;
use crate::command;
use crate::error::Error;
use crate::workspace;

/// Test program, and how it is compiled and run.
struct Program {
    source: &'static str,
    compiler: &'static str,
    /// Whether the program opens a library, which the same source becomes with `-DPLUGIN`.
    has_plugin: bool,
    /// Runs of the program, each made once under each set of options.
    runs: &'static [Run],
}

/// One run of a program.
pub(super) struct Run {
    pub(super) argument: &'static str,
    pub(super) limit: Limit,
}

/// Limit on the address space or the memory of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// No limit.
    None,
    /// Limit of the address space in KiB, from the start of the run.
    KiB(&'static str),
    /// Limit of the malloc's own memory: the option `limit`.
    Malloc(&'static str),
    /// Control group with 72 MiB of memory.
    Group,
}

const fn unlimited(argument: &'static str) -> Run {
    Run { argument, limit: Limit::None }
}

const fn limited(argument: &'static str) -> Run {
    Run { argument, limit: Limit::KiB("400000") }
}

const fn limited_malloc(argument: &'static str, size: &'static str) -> Run {
    Run { argument, limit: Limit::Malloc(size) }
}

const PROGRAMS: [Program; 9] = [
    Program {
        source: "blocked.c",
        compiler: "gcc",
        has_plugin: false,
        runs: &[unlimited("once"), unlimited("far"), unlimited("often")],
    },
    Program { source: "conformance.c", compiler: "gcc", has_plugin: false, runs: &[unlimited("all")] },
    Program {
        source: "conformance.cc",
        compiler: "g++",
        has_plugin: false,
        runs: &[unlimited("all"), limited("all"), limited_malloc("all", "300M")],
    },
    Program {
        source: "helper.c",
        compiler: "gcc",
        has_plugin: true,
        runs: &[
            unlimited("stacks"),
            unlimited("cache"),
            unlimited("alone"),
            unlimited("alone-c11"),
            unlimited("exit"),
            unlimited("children"),
        ],
    },
    Program {
        source: "limits.c",
        compiler: "gcc",
        has_plugin: false,
        runs: &[unlimited("all"), unlimited("fill"), unlimited("late"), unlimited("locked")],
    },
    Program {
        source: "limit_option.c",
        compiler: "gcc",
        has_plugin: false,
        runs: &[
            limited_malloc("sizes", "64M"),
            limited_malloc("others", "64M"),
            limited_malloc("threads", "64M"),
            limited_malloc("signals", "64M"),
        ],
    },
    Program { source: "numbers.c", compiler: "gcc", has_plugin: false, runs: &[unlimited("all")] },
    Program {
        source: "sandbox.c",
        compiler: "gcc",
        has_plugin: false,
        runs: &[unlimited("seen"), unlimited("unseen")],
    },
    Program {
        source: "storms.c",
        compiler: "gcc",
        has_plugin: false,
        runs: &[
            unlimited("forks"),
            unlimited("handlers"),
            unlimited("signals"),
            unlimited("threads"),
            unlimited("limit"),
            limited("threads"),
            limited("limit"),
            limited("forks"),
            Run { argument: "turns", limit: Limit::Group },
        ],
    },
];

/// Options of the malloc; each program runs under every set.
pub(super) const OPTIONS: [&str; 4] = ["return=frees", "return=helper,cpus=1", "sections=locks", "hardened=on"];
/// Programs that also run without the malloc, to check that their own checks are right.
const WITHOUT: [&str; 3] = ["conformance.c", "conformance.cc", "sandbox.c"];
/// Seconds after which a run counts as hung.
const PATIENCE: &str = "100";
/// Shell command that sets a limit and executes its remaining arguments.
const LIMITER: &str = "ulimit -v \"$0\" && exec \"$@\"";
/// Shell command that joins a control group and executes its remaining arguments.
const JOINER: &str = "echo $$ >\"$0/cgroup.procs\" && exec \"$@\"";

/// Compiles and runs all programs whose compiler is installed, and returns their number.
///
/// # Errors
/// Returns an error if a program cannot be compiled, or if it reports a fault.
pub(crate) fn run(sandbox: &Sandbox) -> Result<usize, Error> {
    let mut count = 0;
    let group = Group::new();
    if group.is_none() {
        println!("  skipped: runs in a control group, because none can be created here");
    }
    for program in &PROGRAMS {
        if sandbox.has(program.compiler) {
            program.check(sandbox, group.as_ref())?;
            count += 1;
        } else {
            println!("  skipped: {}, because `{}` is not installed", program.source, program.compiler);
        }
    }
    Ok(count)
}

impl Program {
    fn check(&self, sandbox: &Sandbox, group: Option<&Group>) -> Result<(), Error> {
        let source = workspace::root().join("malloc/preload/tests").join(self.source);
        let program = sandbox.scratch.join(self.source.replace('.', "-"));
        command::run(compile(self.compiler, &source).arg("-o").arg(&program))?;
        if self.has_plugin {
            let plugin = program.with_extension("so");
            command::run(
                compile(self.compiler, &source).args(["-DPLUGIN", "-fPIC", "-shared"]).arg("-o").arg(&plugin),
            )?;
        }
        let program = program.to_string_lossy();
        if WITHOUT.contains(&self.source) {
            command::output(
                sandbox.command(&["timeout", PATIENCE, &program, "glibc"], None)?.current_dir(&sandbox.scratch),
            )?;
        }
        for options in OPTIONS {
            for run in self.runs {
                let Some(words) = run.words(PATIENCE, &[&program, run.argument], group) else { continue };
                let mut command = sandbox.command(&words, Some(&run.options(options)))?;
                command::output(command.current_dir(&sandbox.scratch))
                    .map_err(|error| Error::Failed(format!("{} under {options}: {error}", self.source)))?;
            }
        }
        println!("  {} passed under {}", self.source, OPTIONS.join(" and "));
        Ok(())
    }
}

/// Returns a command that compiles a source with all warnings as errors.
pub(super) fn compile(compiler: &str, source: &Path) -> Command {
    let mut compile = Command::new(compiler);
    compile.args(["-O1", "-fno-builtin", "-pthread", "-Wall", "-Wextra", "-Werror"]).arg(source);
    compile
}

impl Run {
    /// Returns the malloc's options for the run.
    pub(super) fn options(&self, base: &str) -> String {
        match self.limit {
            Limit::Malloc(size) => format!("{base},limit={size}"),
            Limit::None | Limit::KiB(_) | Limit::Group => base.to_owned(),
        }
    }

    /// Returns the words of the command that executes `program`, a program with its arguments, and kills it after
    /// `patience` seconds. Returns `None` if the run needs a control group and `group` is `None`.
    pub(super) fn words<'w>(
        &self,
        patience: &'w str,
        program: &[&'w str],
        group: Option<&'w Group>,
    ) -> Option<Vec<&'w str>> {
        let limiter = match &self.limit {
            Limit::None | Limit::Malloc(_) => vec![],
            Limit::KiB(size) => vec!["sh", "-c", LIMITER, size],
            Limit::Group => vec!["sh", "-c", JOINER, &group?.folder],
        };
        // A program that waits for itself may have blocked all signals that can be blocked.
        let killer = ["timeout", "--signal=KILL", patience];
        Some(killer.into_iter().chain(limiter).chain(program.iter().copied()).collect())
    }
}
