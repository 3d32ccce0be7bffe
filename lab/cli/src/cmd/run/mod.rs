//! `freehold run`: runs a program whose malloc is Freehold.

mod profiled;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use clap::Args;
use freehold_malloc::process::options::Options;
use freehold_report::output::write_atomically;

use crate::error::Error;

/// Library that this program carries; empty unless the program was built with the profile `dist`.
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libfreehold.so"));
/// File name of the library in an installation.
const NAME: &str = "libfreehold.so";
/// File name under which cargo builds the library.
const CARGO_NAME: &str = "libfreehold_preload.so";
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
    freehold run --profile heap.pb.gz -- python3 train.py    # and then: go tool pprof heap.pb.gz\n  \
    freehold run --hardened -- ./a.out\n\n\
    The program, and all that it starts, gets its memory from Freehold: malloc, calloc, realloc, free, new, delete and \
    their kin. Programs that are linked statically or run as another user are not changed; the loader ignores what is \
    preloaded there.\n\n\
    Options are those of the variable FREEHOLD_OPTIONS, which --set adds to:\n  \
    return=frees|helper|never     who gives memory back to the system [here: helper, a thread that starts \
    with the program's first]\n  \
    keep=SIZE                     free memory that is kept, beside a quarter of what is in use [8M]\n  \
    age=MILLISECONDS              how long it is kept when nobody uses it [2000]\n  \
    cpus=NUMBER                   CPUs that have objects at hand at a time, at most [64]\n  \
    huge-pages=system|wanted      whether to ask for huge pages [system]\n  \
    sections=auto|locks           restartable sequences where there are any, or locks [auto]\n  \
    hardened=off|on               whether to look for misuse of memory, and end the program with a report [off]\n  \
    stats=off|exit|sizes          whether to say at exit what was used, and of each size [off]\n  \
    profile=PATH                  where to write which calls hold the memory, as text that pprof reads; %p is the \
    process, %n how many it has written before [nowhere]\n  \
    profile-rate=SIZE             bytes between two samples, on average [512K]\n  \
    profile-signal=NUMBER         a signal that has a profile written, such as 12 (USR2) [only at exit]\n\n\
    With --profile the program is waited for, and the profiles that it left become FILE, in pprof's format and with names \
    of functions: the last one of the program itself, those of all that it starts if FILE has %p in it, and each that a \
    signal asked for if it has %n. A program that a signal ends leaves none but those.\n\n\
    Exit status: that of the program; 2 if it could not be started.")]
pub struct RunArgs {
    /// Say on standard error what each program used, when it ends: this one, and those that it starts
    #[arg(long)]
    stats: bool,

    /// Look for misuse of memory: writes beyond a block or after it was freed, double and invalid frees. A program that
    /// does so ends with a report. Costs 16 bytes a block, some MiB of freed blocks that are held, and time
    #[arg(long, conflicts_with = "profile")]
    hardened: bool,

    /// Write to FILE, when the program ends, which calls hold its memory: a sampled heap profile for pprof
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,

    /// Options for the allocator, such as keep=64M; may be given several times
    #[arg(long, value_name = "KEY=VALUE,...")]
    set: Vec<String>,

    /// Print where the library is, for LD_PRELOAD, and leave
    #[arg(long, exclusive = true)]
    print_library: bool,

    /// The program, and its arguments
    #[arg(last = true, required_unless_present = "print_library", value_name = "CMD")]
    command: Vec<OsString>,
}

/// Replaces this process by the program, and returns only if that fails. With `--profile`, runs the program as a child
/// and waits for it; with `--print-library`, only prints the path.
pub(crate) fn run(args: &RunArgs) -> Result<(), Error> {
    let library = find_library()?;
    if args.print_library {
        return Ok(freehold_report::output::print(format!("{}\n", library.display()).as_bytes())?);
    }
    let Some(mut command) = profiled::command(&args.command) else {
        return Err(Error::Input("no program is named; give one after --".to_owned()));
    };
    let options = options(args)?;
    command.env(PRELOAD, preload(&library));
    if let Some(file) = &args.profile {
        return profiled::run(command, &options, file);
    }
    let error = command.env(OPTIONS, options).exec();
    Err(Error::Input(format!("`{}` cannot be run: {error}", command.get_program().to_string_lossy())))
}

/// Returns the options of the library: the ones in the environment, which may replace the default `return=helper`, and
/// then those of the command line.
fn options(args: &RunArgs) -> Result<String, Error> {
    for given in &args.set {
        Options::check(given.as_bytes()).map_err(|wrong| {
            let wrong = String::from_utf8_lossy(wrong);
            Error::Input(format!("--set: `{wrong}` is not understood; {}", Options::KNOWN))
        })?;
    }
    let inherited = env::var(OPTIONS).unwrap_or_default();
    let stats = args.stats.then_some("stats=exit");
    let hardened = args.hardened.then_some("hardened=on");
    let parts = ["return=helper", &inherited]
        .into_iter()
        .chain(stats)
        .chain(hardened)
        .chain(args.set.iter().map(String::as_str));
    Ok(parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(","))
}

/// Returns the list of preloaded libraries, with this library first.
fn preload(library: &Path) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

/// Returns the path of the library: the one that this program carries, unpacked into the user's cache, or one beside
/// the program.
pub(crate) fn find_library() -> Result<PathBuf, Error> {
    let found = if LIBRARY.is_empty() { beside().ok_or_else(missing)? } else { unpack(LIBRARY)? };
    // The dynamic loader splits the list at spaces and colons.
    if found.as_os_str().as_encoded_bytes().iter().any(|byte| matches!(byte, b' ' | b':')) {
        let found = found.display();
        return Err(Error::Input(format!(
            "{found} cannot be preloaded, for the space or colon in it; set XDG_CACHE_HOME"
        )));
    }
    Ok(found)
}

fn missing() -> Error {
    Error::Input(format!(
        "this program carries no {NAME}, and there is none beside it; `cargo build --release` in a checkout makes both"
    ))
}

/// Searches the program's folder, the library folder of an installation, and the folder of a cargo build.
fn beside() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let folder = program.parent()?;
    let places = [folder.join(NAME), folder.join("../lib").join(NAME), folder.join(CARGO_NAME)];
    places.into_iter().find(|place| place.is_file())
}

/// Writes the library to the user's cache unless it is already there. The file is written atomically, under a name that
/// contains a fingerprint of its contents.
fn unpack(library: &[u8]) -> Result<PathBuf, Error> {
    let cache = absolute_folder("XDG_CACHE_HOME").or_else(|| absolute_folder("HOME").map(|home| home.join(".cache")));
    let Some(cache) = cache else {
        return Err(Error::Input("there is no home folder to keep the library in; set XDG_CACHE_HOME".to_owned()));
    };
    let folder = cache.join("freehold");
    let place = folder.join(format!("libfreehold-{:016x}.so", fingerprint(library)));
    if fs::read(&place).is_ok_and(|there| there == library) {
        return Ok(place);
    }
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(|error| Error::Input(format!("{}: {error}; set XDG_CACHE_HOME", folder.display())))?;
    write_atomically(&place, library)?;
    Ok(place)
}

/// Returns the folder that an environment variable names, if the name is absolute.
fn absolute_folder(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|folder| folder.is_absolute())
}

/// Returns a hash of the library, which most likely differs from that of any other library.
fn fingerprint(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
