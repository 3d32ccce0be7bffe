//! `freehold bench malloc`: whole programs under Freehold's malloc and all other mallocs that are found.

use std::env;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use freehold_bench::{check_profile, whole};
use freehold_malloc::process::options::Options;
use freehold_report::terminal::Style;
use freehold_workloads::malloc::{Case, Table, cases};

use super::{BenchArgs, Entry, Listing, MALLOC, PROFILE, effort};
use crate::cmd::run::find_library;
use crate::error::Error;

/// Default tables. The other tables take minutes with some mallocs.
const TABLES: [Table; 4] = [Table::Loads, Table::Pairs, Table::Resident, Table::Start];

/// Measures mallocs and prints the results.
pub(super) fn run(args: &BenchArgs, style: Style) -> Result<(), Error> {
    if args.list {
        return Ok(args.formats.emit(&Listing { benches: vec![Entry::of_malloc()] }, style)?);
    }
    expect_alone(args, MALLOC)?;
    let (mut loads, mut left_out) = (Vec::new(), Vec::new());
    for case in chosen(args)? {
        match case.obstacle() {
            Some(reason) => left_out.push((case.name, reason)),
            None => loads.push(load(case)),
        }
    }
    if let ([], [(name, reason), ..]) = (loads.as_slice(), left_out.as_slice()) {
        return Err(Error::Input(format!("no load can be measured here; the load `{name}`: {reason}")));
    }
    let library = find_library()?;
    let others = args.with.iter().map(|given| parse_with(given, &library)).collect::<Result<Vec<_>, _>>()?;
    let request = whole::Request {
        program: this_program()?,
        loads,
        left_out,
        percent: if args.quick { 1 } else { 100 },
        others: libraries(args)?.into_iter().chain(others).collect(),
        library,
        rounds: args.runs.unwrap_or(whole::ROUNDS).min(if args.quick { 2 } else { u32::MAX }),
        seed: args.seed,
    };
    args.formats.try_all([])?;
    check_profile(PROFILE, effort(args))?;
    Ok(args.formats.emit(&whole::measure(&request)?, style)?)
}

/// Returns the cases that are in the requested tables and have the requested names. Without requested tables, names are
/// searched in all tables; without either, all cases of [`TABLES`] are returned.
fn chosen(args: &BenchArgs) -> Result<Vec<Case>, Error> {
    let all = cases();
    if let Some(name) = args.load.iter().find(|name| all.iter().all(|case| case.name != **name)) {
        let hint = freehold_policies::hint(name, all.iter().map(|case| case.name.as_str()));
        return Err(Error::Input(format!("there is no load `{name}`; {hint} (see `freehold bench {MALLOC} --list`)")));
    }
    let tables = match (args.table.as_slice(), args.load.is_empty()) {
        ([], true) => TABLES.as_slice(),
        ([], false) => Table::value_variants(),
        (named, _) => named,
    };
    let of_tables = all.into_iter().filter(|case| tables.contains(&case.table));
    Ok(of_tables.filter(|case| args.load.is_empty() || args.load.contains(&case.name)).collect())
}

/// Checks that no other benchmark and no policy is given.
pub(super) fn expect_alone(args: &BenchArgs, name: &str) -> Result<(), Error> {
    if args.names.len() == 1 && args.a.is_none() && args.b.is_empty() {
        return Ok(());
    }
    let advice = "give only this benchmark, and no policies";
    Err(Error::Input(format!("`{name}` measures programs and cannot run with other benchmarks; {advice}")))
}

pub(super) fn this_program() -> Result<PathBuf, Error> {
    env::current_exe().map_err(|error| Error::Input(format!("cannot find this program's own file: {error}")))
}

/// Returns the mallocs that were named with `--library`.
pub(super) fn libraries(args: &BenchArgs) -> Result<Vec<whole::Malloc>, Error> {
    args.library.iter().map(|given| parse_library(given)).collect()
}

/// Converts a case into a load of the benchmark.
fn load(case: Case) -> whole::Load {
    whole::Load { name: case.name, arguments: case.arguments, table: case.table, group: case.group }
}

fn parse_with(given: &str, library: &Path) -> Result<whole::Malloc, Error> {
    let (name, options) = given
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| Error::Input(format!("`{given}` is not NAME=OPTIONS; write it like locks=sections=locks")))?;
    Options::check(options.as_bytes()).map_err(|wrong| {
        let wrong = String::from_utf8_lossy(wrong);
        Error::Input(format!("--with: invalid option `{wrong}`; {}", Options::KNOWN))
    })?;
    Ok(whole::Malloc { options: options.to_owned(), ..whole::Malloc::from_library(name, library) })
}

fn parse_library(given: &str) -> Result<whole::Malloc, Error> {
    let (name, path) = given
        .split_once('=')
        .filter(|(name, path)| !name.is_empty() && !path.is_empty())
        .ok_or_else(|| Error::Input(format!("`{given}` is not NAME=PATH; write it like mine=/usr/lib/libmine.so")))?;
    Ok(whole::Malloc::from_library(name, Path::new(path)))
}
