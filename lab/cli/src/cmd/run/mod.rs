//! `freehold run`: runs a program whose malloc is Freehold.

mod child;
mod image;
mod left_out;
mod library;
mod obstacle;
mod profiled;
mod program;

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum};
use freehold_malloc::process::options::Options;

use crate::error::Error;
use left_out::LeftOut;
pub(crate) use library::find_library;
use obstacle::Obstacle;

/// Environment variable with the library's options.
const OPTIONS: &str = "FREEHOLD_OPTIONS";
/// Environment variable with the libraries that the dynamic loader preloads.
const PRELOAD: &str = "LD_PRELOAD";

/// Arguments of `freehold run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    freehold run -- python3 train.py\n  \
    freehold run --stats -- make -j8\n  \
    freehold run --set keep=64M,huge-pages=wanted -- redis-server\n  \
    freehold run --profile heap.pb.gz -- python3 train.py    # then: go tool pprof heap.pb.gz\n  \
    freehold run --limit 512M -- ./server\n  \
    freehold run --hardened -- ./a.out\n\n\
    The program and its child processes get their memory from Freehold: malloc, calloc, realloc, free, new, delete and \
    related functions. Statically linked programs have no loader, and the loader ignores preloaded libraries in \
    set-user-ID programs. Both keep their malloc.\n\n\
    Options are read from the variable FREEHOLD_OPTIONS, and --set adds to them:\n  \
    return=frees|helper|never     returns memory to the system: at frees, in a helper thread that starts with the \
    program's first thread, or never [here: helper]\n  \
    keep=SIZE                     free memory that frees keep, in addition to a sixteenth of the memory in use; the \
    helper ignores it [4M]\n  \
    limit=SIZE                    most memory of the malloc, at least 4M; requests beyond it fail with ENOMEM [none]\n  \
    age=MILLISECONDS              time after which the helper returns unused memory; frees wait for an eighth of it \
    [2000]\n  \
    cpus=NUMBER                   maximum number of CPUs that cache objects at a time [64]\n  \
    huge-pages=system|wanted      system: the system's default; wanted: request huge pages [system]\n  \
    sections=auto|locks           auto: restartable sequences if the system has them; locks: locks [auto]\n  \
    system-calls=all|few          few: only mmap, munmap, madvise, mprotect, futex, sched_yield and getrandom, \
    for programs under a filter of system calls [all]\n  \
    hardened=off|on               detect memory misuse, and terminate the program with a report [off]\n  \
    stats=off|exit|long|sizes     print statistics at exit; long: not of brief, small processes; sizes: also for each \
    size [off]\n  \
    profile=PATH                  file for a heap profile by call site, as text that pprof reads; %p is the process, \
    %n the number of profiles that it wrote before [none]\n  \
    profile-rate=SIZE             mean number of bytes between two samples [512K]\n  \
    profile-signal=NUMBER         signal that writes a profile, such as 12 (USR2) [only at exit]\n\n\
    A line of --stats has the process, its peak and final resident memory, its CPU time, and the malloc's memory in \
    MiB: objects in use or cached, idle parts of slabs, runs of pages, free memory, and memory returned to the system. \
    A process that ends by _exit or a signal prints nothing. The command waits for the program, except with --stats=all.\n\n\
    With --profile, this command waits for the program and converts its profiles to FILE, in pprof's format and with \
    names of functions. FILE is the last profile of the program itself. If FILE contains %p, the profiles of child \
    processes are written too; if FILE contains %n, the profiles that signals requested. A program that a signal \
    terminates writes only the profiles that signals requested.\n\n\
    Exit status: that of the program. 127 if there is no such program, 126 if it cannot be started, and 2 if an option \
    is invalid.")]
pub struct RunArgs {
    /// Print the memory and CPU time of the program, and of each child process that lived at least 1 s or used 64 MiB,
    /// on stderr when it exits; the last line counts the others. `all`: of every process
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "long")]
    stats: Option<StatsChoice>,

    /// Detect memory misuse: writes beyond a block or after its free, double and invalid frees. The program is then
    /// terminated with a report. Costs 16 bytes a block, some MiB of freed blocks in quarantine, and time
    #[arg(long, conflicts_with = "profile")]
    hardened: bool,

    /// Let requests fail with ENOMEM when the malloc of a process would use more than SIZE bytes, such as 512M. The
    /// least SIZE is 4M. Freed memory is reused or returned to the system first
    #[arg(long, value_name = "SIZE")]
    limit: Option<String>,

    /// Write a sampled heap profile by call site to FILE when the program exits, for pprof
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,

    /// Options of the allocator, for example keep=64M; may be repeated
    #[arg(long, value_name = "KEY=VALUE,...")]
    set: Vec<String>,

    /// Print the path of the library, for LD_PRELOAD, and exit
    #[arg(long, exclusive = true)]
    print_library: bool,

    /// Program to run, with its arguments
    #[arg(last = true, required_unless_present = "print_library", value_name = "CMD")]
    command: Vec<OsString>,
}

/// Processes whose statistics are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StatsChoice {
    /// The program, and child processes that lived at least 1 s or used 64 MiB.
    Long,
    /// Every process.
    All,
}

/// Replaces this process by the program, and returns only if that fails. With `--profile` or `--stats`, runs the
/// program as a child and waits for it; with `--print-library`, only prints the path.
pub(crate) fn run(args: &RunArgs) -> Result<(), Error> {
    let library = find_library()?;
    if args.print_library {
        return Ok(freehold_report::output::print(format!("{}\n", library.display()).as_bytes())?);
    }
    let Some(mut command) = command(&args.command) else {
        return Err(Error::Input("no program given; give a program after --".to_owned()));
    };
    let mut options = options(args)?;
    let left_out = (args.stats == Some(StatsChoice::Long)).then(LeftOut::create).transpose()?;
    options.extend(left_out.iter().map(LeftOut::options));
    preload(&library, &mut command);
    let result = match &args.profile {
        Some(file) => profiled::run(command, &options, file),
        None if left_out.is_some() => {
            command.env(OPTIONS, options);
            child::run(command).and_then(|(_, status)| child::pass_on(status))
        }
        None => {
            let error = command.env(OPTIONS, options).exec();
            Err(child::cannot_run(&command, error))
        }
    };
    if let Some(left_out) = left_out {
        left_out.report();
    }
    result
}

/// Builds a command from its words; `None` without words.
fn command(words: &[OsString]) -> Option<Command> {
    let (program, arguments) = words.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments);
    Some(command)
}

/// Returns the options of the library: the ones in the environment, which may replace the default `return=helper`, and
/// then those of the command line.
fn options(args: &RunArgs) -> Result<String, Error> {
    let limit = args.limit.as_deref().map(limit_option).transpose()?;
    for given in &args.set {
        Options::check(given.as_bytes()).map_err(|wrong| {
            let wrong = String::from_utf8_lossy(wrong);
            Error::Input(format!("--set: invalid option `{wrong}`; {}", Options::KNOWN))
        })?;
    }
    let inherited = env::var(OPTIONS).unwrap_or_default();
    let stats = args.stats.map(|choice| match choice {
        StatsChoice::Long => "stats=long",
        StatsChoice::All => "stats=exit",
    });
    let hardened = args.hardened.then_some("hardened=on");
    let parts = ["return=helper", &inherited]
        .into_iter()
        .chain(stats)
        .chain(hardened)
        .chain(limit.as_deref())
        .chain(args.set.iter().map(String::as_str));
    Ok(parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(","))
}

/// Returns the option for a limit of memory.
fn limit_option(size: &str) -> Result<String, Error> {
    let option = format!("limit={size}");
    let is_usable = !size.contains(',') && Options::check(option.as_bytes()).is_ok();
    is_usable.then_some(option).ok_or_else(|| {
        Error::Input(format!("--limit: `{size}` is not usable; give a size of at least 4M, such as 512M or 2G"))
    })
}

/// Lets the command preload the library. If the program keeps its own malloc, reports the reason, and leaves the
/// library out if it would prevent the program from running.
fn preload(library: &Path, command: &mut Command) {
    let obstacle = program::find_obstacle(command.get_program());
    if let Some(obstacle) = obstacle {
        eprintln!("freehold: `{}` {obstacle}", command.get_program().display());
    }
    if obstacle.is_none_or(Obstacle::allows_preload) {
        command.env(PRELOAD, preload_list(library));
    }
}

/// Returns the list of preloaded libraries, with this library first.
fn preload_list(library: &Path) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}
