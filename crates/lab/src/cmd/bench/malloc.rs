//! `freehold bench malloc`: whole programs under Freehold's malloc and under every other one that is here.

use std::env;
use std::path::Path;

use freehold_bench::whole;
use freehold_load::malloc::{Case, Table, cases};
use freehold_measure::terminal::Style;

use super::{BenchArgs, Entry, Listing, MALLOC};
use crate::cmd::run::find_library;
use crate::error::Error;

/// What is measured where no table is named. Some mallocs take minutes for the others.
const TABLES: [Table; 4] = [Table::Loads, Table::Pairs, Table::Resident, Table::Start];

/// Measures mallocs, and prints what came out.
pub(super) fn run(args: &BenchArgs, style: Style) -> Result<(), Error> {
    if args.list {
        return Ok(args.formats.emit(&Listing { benches: vec![Entry::of_malloc()] }, style)?);
    }
    if args.names.len() > 1 || args.a.is_some() || !args.b.is_empty() {
        let advice = "name it alone, and no policies";
        return Err(Error::Input(format!("`{MALLOC}` measures programs, and takes the machine for itself; {advice}")));
    }
    let program = env::current_exe().map_err(|error| Error::Input(format!("this program is nowhere: {error}")))?;
    let tables = if args.table.is_empty() { &TABLES } else { args.table.as_slice() };
    let (loads, left_out): (Vec<Case>, Vec<Case>) =
        cases().into_iter().filter(|case| tables.contains(&case.table)).partition(|case| missing(case).is_none());
    let request = whole::Request {
        program,
        loads: loads.into_iter().map(load).collect(),
        left_out: left_out.into_iter().filter_map(|case| Some((case.name.clone(), missing(&case)?))).collect(),
        percent: if args.quick { 1 } else { 100 },
        library: find_library()?,
        others: args.library.iter().map(|given| parse_library(given)).collect::<Result<_, _>>()?,
        rounds: if args.quick { args.runs.min(2) } else { args.runs.min(whole::ROUNDS) },
        seed: args.seed,
    };
    args.formats.try_all([])?;
    Ok(args.formats.emit(&whole::measure(&request)?, style)?)
}

/// A program that a case needs and that is not here.
fn missing(case: &Case) -> Option<String> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let is_here = |program: &str| env::split_paths(&folders).any(|folder| Path::new(&folder).join(program).is_file());
    case.needs.iter().find(|program| !is_here(program)).map(|program| (*program).to_owned())
}

/// A case as the benchmark knows it.
fn load(case: Case) -> whole::Load {
    let table = match case.table {
        Table::Loads => whole::Table::Loads,
        Table::Pairs => whole::Table::Pairs,
        Table::Resident => whole::Table::Resident,
        Table::Threads => whole::Table::Threads,
        Table::Start => whole::Table::Start,
        Table::Forks => whole::Table::Forks,
    };
    whole::Load { name: case.name, arguments: case.arguments, table, group: case.group }
}

fn parse_library(given: &str) -> Result<whole::Malloc, Error> {
    let (name, path) =
        given.split_once('=').filter(|(name, path)| !name.is_empty() && !path.is_empty()).ok_or_else(|| {
            Error::Input(format!("`{given}` names no library; give NAME=PATH, such as mine=/usr/lib/libmine.so"))
        })?;
    Ok(whole::Malloc { name: name.to_owned(), place: whole::Place::Library(path.into()) })
}
