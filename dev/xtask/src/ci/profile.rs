//! Heap profiles, checked with a program whose memory is known for each function: `malloc/preload/tests/profile.c`.
//!
//! Samples are random, so the sums of small blocks are right within five standard errors. Blocks much larger than the
//! sampling interval are all sampled. Function names are those that binutils' `addr2line` finds at the addresses.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::sandbox::Sandbox;
use crate::command;
use crate::error::{Error, on_file};
use crate::workspace;

/// Mean bytes between two samples.
const MEAN: f64 = 4096.0;
/// Memory held by the program: function, bytes, and tolerance as a share of the bytes.
const SMALL: (&str, f64, f64) = ("hold_small", 4e6, 0.17);
const LARGE: (&str, f64, f64) = ("hold_large", 1e7, 0.01);
const MORE: (&str, f64, f64) = ("hold_more", 4e6, 0.17);
const NO_MORE: (&str, f64, f64) = ("hold_more", 0.0, 0.0);
const NOTHING: (&str, f64, f64) = ("hold_nothing", 0.0, 0.0);

/// Way to have a profile written, and the memory that each written file must show. Files are named by the end of their
/// name.
type Way = (&'static str, &'static [(&'static str, &'static [(&'static str, f64, f64)])]);
const WAYS: [Way; 5] = [
    ("exit", &[("", &[SMALL, LARGE, NO_MORE, NOTHING])]),
    ("dump", &[("", &[SMALL, LARGE, NO_MORE, NOTHING]), (".dump", &[SMALL, LARGE, MORE, NOTHING])]),
    ("signal", &[("", &[SMALL, LARGE, NO_MORE, NOTHING])]),
    ("fork", &[("", &[SMALL, LARGE, NO_MORE, NOTHING]), (".CHILD", &[SMALL, LARGE, MORE, NOTHING])]),
    ("storm", &[("", &[SMALL, LARGE, NO_MORE]), (".dump", &[SMALL, LARGE, NO_MORE])]),
];
/// Options of the malloc under which the program runs.
const OPTIONS: [&str; 2] = ["return=helper", "sections=locks"];
/// Seconds after which a run counts as hung.
const PATIENCE: &str = "100";

/// Runs the program in all ways if it can be compiled. Returns the number of programs that ran: 1, or 0 if `gcc` or
/// `addr2line` is missing.
///
/// # Errors
/// Returns an error if a profile differs from the known memory.
pub(crate) fn run(sandbox: &Sandbox) -> Result<usize, Error> {
    if let Some(missing) = ["gcc", "addr2line"].into_iter().find(|program| !sandbox.has(program)) {
        println!("  skipped: profile.c, because `{missing}` is not installed");
        return Ok(0);
    }
    let program = sandbox.scratch.join("profile");
    let mut compile = Command::new("gcc");
    compile.args(["-O1", "-fno-builtin", "-no-pie", "-pthread", "-Wall", "-Wextra", "-Werror"]);
    command::run(compile.arg(workspace::root().join("malloc/preload/tests/profile.c")).arg("-o").arg(&program))?;
    for (number, options) in OPTIONS.iter().enumerate() {
        for (way, files) in &WAYS {
            let file = sandbox.scratch.join(format!("{way}-{number}.heap"));
            let options = format!("{options},profile={},profile-rate=4096,profile-signal=12", file.display());
            // The library is preloaded only below `timeout`. Otherwise `timeout` would write a profile of its own over
            // the program's.
            let [library, options] = sandbox.settings(&options);
            let (name, file_name) = (program.to_string_lossy(), file.to_string_lossy());
            let words = ["timeout", PATIENCE, "env", &library, &options, &name, way, &file_name];
            command::output(&mut sandbox.command(&words, None)?)?;
            for (ending, known) in *files {
                let file = profile_file(&file, ending)?;
                hold(&bytes_by_function(&program, &file)?, known)
                    .map_err(|sentence| Error::Failed(format!("profile.c {way}: {}: {sentence}", file.display())))?;
            }
        }
    }
    println!("  profile.c: the profiles are right under {}", OPTIONS.join(" and "));
    check_names(sandbox, &program)?;
    Ok(1)
}

/// Checks that `freehold run --profile` writes a file for pprof that contains function names.
fn check_names(sandbox: &Sandbox, program: &Path) -> Result<(), Error> {
    let file = sandbox.scratch.join("profile.pb.gz");
    let mut run = Command::new(&sandbox.freehold);
    run.args(["run", "--set", "profile-rate=4096", "--profile"]).arg(&file).arg("--").arg(program).args(["exit", "-"]);
    command::output(&mut run)?;
    let output = Command::new("gzip").arg("-dc").arg(&file).output();
    let unpacked = output.map_err(|error| Error::Failed(format!("cannot start gzip: {error}")))?.stdout;
    for name in ["inuse_space", "hold_small", "hold_large"] {
        if !unpacked.windows(name.len()).any(|window| window == name.as_bytes()) {
            return Err(Error::Failed(format!("the profile of `freehold run --profile` lacks {name}")));
        }
    }
    Ok(())
}

/// Returns the path of the profile with this ending. The name of a child's profile ends in the child's process ID.
fn profile_file(file: &Path, ending: &str) -> Result<PathBuf, Error> {
    let name = file.to_string_lossy();
    if ending != ".CHILD" {
        return Ok(format!("{name}{ending}").into());
    }
    let folder = file.parent().expect("the path has a folder");
    let files = fs::read_dir(folder).map_err(on_file("read", folder))?.flatten().map(|entry| entry.path());
    let mut children = files.filter(|path| {
        let number = path.to_str().and_then(|path| path.strip_prefix(&*name)?.strip_prefix('.'));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    });
    children.next().ok_or_else(|| Error::Failed(format!("profile.c fork: a child wrote no profile beside {name}")))
}

/// Returns the bytes that each function holds, estimated from the samples of a profile.
fn bytes_by_function(program: &Path, file: &Path) -> Result<BTreeMap<String, f64>, Error> {
    let text = fs::read_to_string(file).map_err(on_file("read", file))?;
    let samples: Vec<(f64, &str)> = text.lines().filter_map(sample).collect();
    let is_whole = text.starts_with("heap profile: ") && text.contains("\nMAPPED_LIBRARIES:\n");
    if !is_whole || samples.is_empty() {
        return Err(Error::Failed(format!("{} is not a profile", file.display())));
    }
    let mut addresses: Vec<_> = samples.iter().map(|(_, address)| *address).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let mut lines = Command::new("addr2line");
    let names = command::text(lines.args(["-f", "-e"]).arg(program).args(&addresses))?;
    // `addr2line` prints two lines for each address: the function's name and the source line.
    let names: BTreeMap<_, _> = addresses.into_iter().zip(names.lines().step_by(2)).collect();
    let mut held = BTreeMap::new();
    for (bytes, address) in samples {
        *held.entry(names[address].to_owned()).or_default() += bytes;
    }
    Ok(held)
}

/// Returns the bytes that a line's sample represents, and the address that allocated its block; `None` if the line is
/// no sample.
fn sample(line: &str) -> Option<(f64, &str)> {
    let (bytes, rest) = line.strip_prefix("1: ")?.split_once(" [0: 0] @ ")?;
    let bytes: f64 = bytes.parse().ok()?;
    Some((bytes / -(-bytes / MEAN).exp_m1(), rest.split(' ').next()?))
}

/// Checks that functions hold the known bytes, within their tolerances.
fn hold(held: &BTreeMap<String, f64>, known: &[(&str, f64, f64)]) -> Result<(), String> {
    known.iter().try_for_each(|(name, bytes, share)| {
        let said = held.get(*name).copied().unwrap_or_default();
        let is_right = (said - bytes).abs() <= bytes * share;
        if is_right {
            Ok(())
        } else {
            Err(format!("`{name}` holds {bytes} bytes, but {said:.0} according to the samples"))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planted_profile_difference_is_detected() {
        let held = BTreeMap::from([("a".to_owned(), 110.0), ("b".to_owned(), 1.0)]);
        assert_eq!(hold(&held, &[("a", 100.0, 0.1), ("c", 0.0, 0.0)]), Ok(()));
        assert!(hold(&held, &[("a", 100.0, 0.09)]).is_err());
        assert!(hold(&held, &[("b", 0.0, 0.0)]).unwrap_err().contains("`b` holds 0 bytes"));
        assert!(hold(&held, &[("c", 5.0, 0.5)]).is_err());
    }

    #[test]
    fn sample_is_scaled_to_the_estimated_bytes() {
        let (bytes, address) = sample("1: 200 [0: 0] @ 0x401136 0x401200").unwrap();
        assert!((bytes - 4196.8).abs() < 0.1, "{bytes}");
        assert_eq!(address, "0x401136");
        assert_eq!((sample("heap profile: 1: 2 [0: 0] @ heap_v2/4096"), sample("")), (None, None));
    }
}
