//! `freehold bench`: times rival policies against each other until there is a verdict.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use freehold_bench::decide::Margin;
use freehold_bench::recipe::Recipe;
use freehold_bench::report::BenchReport;
use freehold_bench::{BENCHES, Bench, Effort, Request, Settings, check_profile};
use freehold_report::formats::{Document, VerdictFormats};
use freehold_report::report::{self, Column, Report, Value};
use freehold_report::terminal::Style;
use freehold_timing::clock::{self, Place};
use freehold_workloads::malloc::{Table, cases};
use serde::Serialize;

use crate::error::Error;

mod corruption;
mod malloc;

/// Name of the benchmark of mallocs under whole programs, which must be the only one named.
const MALLOC: &str = "malloc";
/// Name of the benchmark of programs that misuse their memory, which must be the only one named.
const CORRUPTION: &str = "corruption";

/// Profile that this program was built with, if its build script set it.
const PROFILE: Option<&str> = option_env!("FREEHOLD_PROFILE");

/// Default of the maximum runs of a comparison.
const RUNS: u32 = 320;

/// Arguments of `freehold bench`.
#[derive(Debug, Args)]
#[command(after_help = "A comparison takes at most --time, in most cases a few seconds. `slab` compares \
                  all slab policies at once instead. Each such contest takes ten times as long, and at most 40 runs. \
                  `slab` takes one policy B and replaces its `slab=` by each value in turn.\n\n\
                  `freehold bench malloc` measures whole programs under Freehold's malloc and all other mallocs that \
                  it finds: 9 rounds of each load, about ten minutes. The other tables are measured only if they are \
                  given with --table, because they take longer. `programs` runs programs of other projects, and \
                  `limits` runs them once with 64 MiB of memory. A program that is not installed is left out. Git \
                  repacks the repository of the current folder. The options are \
                  --table, --load, --runs, --seed, --quick, --library and --with.\n\n\
                  `freehold bench corruption` runs programs, each with one kind of memory misuse, under the same \
                  mallocs, and reports the mallocs that detect the misuse. Its options are --library and --quick.\n\n\
                  Measurements of speed need a `freehold` that was built with `cargo build --profile dist`. Otherwise \
                  only --quick, `harness` and `corruption` run.\n\n\
                  Exit status: 1 if `harness` gives a wrong verdict on a known difference.\n\n\
                  Examples:\n  freehold bench --list\n  \
                  freehold bench pages --b linux-6.12,pcp=owned-remote\n  \
                  freehold bench flags contig --markdown bench.md\n  \
                  freehold bench malloc --table pairs --table resident")]
pub struct BenchArgs {
    /// Benchmarks [default: all benchmarks of --list, except `malloc` and `corruption`]
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// List the benchmarks and their cases
    #[arg(long)]
    list: bool,

    /// Policy A, as SET[,field=value...]; each benchmark has a default
    #[arg(long, value_name = "NAME")]
    a: Option<String>,

    /// Policy B; may be repeated; each benchmark has a default
    #[arg(long, value_name = "NAME")]
    b: Vec<String>,

    /// Margin in percent: differences up to the margin are "no change"
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    margin: f64,

    /// Maximum runs of a comparison; each run builds both machines twice [default: 320]. For `malloc`: rounds
    /// [default: 9]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: Option<u32>,

    /// Maximum seconds for a comparison, unless ten runs take longer
    #[arg(long, value_name = "SECONDS", default_value_t = 8.0, allow_negative_numbers = true)]
    time: f64,

    /// CPU to measure on [default: the last CPU that this process may use]
    #[arg(long, value_name = "N")]
    cpu: Option<u16>,

    /// Seed of the order of samples and of the bootstrap
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Measure very little, as a test of the program
    #[arg(long)]
    quick: bool,

    /// Program with page allocators of other projects, if it is not in dev/peer-page-allocators
    #[arg(long, value_name = "PATH")]
    peers: Option<PathBuf>,

    /// Program with mallocs of other projects, if it is not in dev/peer-mallocs; may be repeated
    #[arg(long, value_name = "PATH")]
    mallocs: Vec<PathBuf>,

    /// For `malloc` and `corruption`: an additional malloc, as a library to preload; may be repeated
    #[arg(long, value_name = "NAME=PATH")]
    library: Vec<String>,

    /// For `malloc`: an additional run of Freehold, with options of FREEHOLD_OPTIONS; may be repeated
    #[arg(long, value_name = "NAME=OPTIONS")]
    with: Vec<String>,

    /// For `malloc`: a load to measure; may be repeated [default: all loads]
    #[arg(long, value_name = "LOAD")]
    load: Vec<String>,

    /// For `malloc`: a table to measure; may be repeated [default: loads, pairs, resident, start]
    #[arg(long, value_enum, value_name = "TABLE")]
    table: Vec<Table>,

    #[command(flatten)]
    formats: VerdictFormats,
}

/// Runs the benchmarks and prints their results, or lists the benchmarks.
pub(crate) fn run(args: &BenchArgs, style: Style) -> Result<(), Error> {
    if args.names.iter().any(|name| name == MALLOC) {
        return malloc::run(args, style);
    }
    if args.names.iter().any(|name| name == CORRUPTION) {
        return corruption::run(args, style);
    }
    let given = [
        ("--library", !args.library.is_empty()),
        ("--with", !args.with.is_empty()),
        ("--load", !args.load.is_empty()),
        ("--table", !args.table.is_empty()),
    ];
    for (option, is_given) in given {
        if is_given {
            return Err(Error::Input(format!(
                "{option} is for the benchmark `{MALLOC}`; name `{MALLOC}`, or leave {option} out"
            )));
        }
    }
    let benches = chosen(&args.names)?;
    if args.list {
        let programs = args.names.is_empty().then(|| [Entry::of_malloc(), corruption::entry()]);
        let entries = benches.iter().map(|bench| Entry::new(bench)).chain(programs.into_iter().flatten());
        return Ok(args.formats.emit(&Listing { benches: entries.collect() }, style)?);
    }
    let settings = settings(args)?;
    settings.check_programs(&benches)?;
    let requests = benches.iter().map(|bench| request(bench, args, &settings)).collect::<Result<Vec<_>, _>>()?;
    let policies: Vec<_> =
        requests.iter().flat_map(|request| std::iter::once(&request.a).chain(&request.rivals)).collect();
    let methods: Vec<_> = benches.iter().map(|bench| bench.method).collect();
    let recipe = Recipe::new(&methods, &settings, &policies);
    args.formats.try_all([])?;
    let plans = benches.iter().zip(&requests).map(|(bench, request)| bench.plan(request));
    let plans = plans.collect::<Result<Vec<_>, _>>()?;
    if benches.iter().any(|bench| bench.has_figures()) {
        check_profile(PROFILE, settings.effort)?;
    }
    let planned = benches.iter().zip(&requests).zip(plans);
    let measured = planned.map(|((bench, request), plan)| bench.measure(request, plan));
    let report = BenchReport { recipe, benches: measured.collect::<Result<_, _>>()? };
    args.formats.emit(&report, style)?;
    let mut compared = report.benches.iter().flat_map(|result| &result.comparisons);
    compared.find(|compared| compared.is_wrong()).map_or(Ok(()), |wrong| Err(Error::WrongVerdict { case: wrong.case }))
}

/// Returns the benchmarks with these names, or all benchmarks.
fn chosen(names: &[String]) -> Result<Vec<&'static Bench>, Error> {
    if names.is_empty() { Ok(BENCHES.to_vec()) } else { names.iter().map(|name| find_bench(name)).collect() }
}

fn find_bench(name: &str) -> Result<&'static Bench, Error> {
    BENCHES.iter().find(|bench| bench.name == name).copied().ok_or_else(|| {
        let hint = freehold_policies::hint(name, BENCHES.iter().map(|bench| bench.name));
        Error::Input(format!("there is no benchmark `{name}`; {hint} (see `freehold bench --list`)"))
    })
}

fn effort(args: &BenchArgs) -> Effort {
    if args.quick { Effort::Quick } else { Effort::Full }
}

fn settings(args: &BenchArgs) -> Result<Settings, Error> {
    let margin = Margin::percent(args.margin).ok_or_else(|| {
        Error::Input(format!("the margin cannot be {} %; give a percentage above 0 and up to 100", args.margin))
    })?;
    let time = Duration::try_from_secs_f64(args.time).ok().filter(|time| !time.is_zero()).ok_or_else(|| {
        Error::Input(format!("a comparison cannot take {} seconds; give a number above 0", args.time))
    })?;
    let Place { cpu, partner } = clock::pin(args.cpu)?;
    Ok(Settings {
        effort: effort(args),
        margin,
        runs_max: args.runs.unwrap_or(RUNS) as usize,
        time,
        seed: args.seed,
        cpu,
        partner,
        peers: args.peers.clone(),
        mallocs: args.mallocs.clone(),
    })
}

fn request(bench: &Bench, args: &BenchArgs, settings: &Settings) -> Result<Request, Error> {
    let a = freehold_policies::parse(args.a.as_deref().unwrap_or(bench.a))?;
    let rivals = if args.b.is_empty() { vec![bench.b.to_owned()] } else { args.b.clone() };
    let rivals = rivals.iter().map(|name| freehold_policies::parse(name)).collect::<Result<_, _>>()?;
    Ok(Request { settings: settings.clone(), a, rivals })
}

/// List of the benchmarks, as a document.
#[derive(Debug, Serialize)]
struct Listing {
    benches: Vec<Entry>,
}

#[derive(Debug, Serialize)]
struct Entry {
    name: &'static str,
    asks: &'static str,
    a: &'static str,
    b: &'static str,
    cases: Vec<CaseEntry>,
}

#[derive(Debug, Serialize)]
struct CaseEntry {
    name: String,
    about: String,
    operation: &'static str,
}

impl Entry {
    fn new(bench: &Bench) -> Entry {
        let cases = (bench.cases)().into_iter();
        let cases = cases.map(|case| CaseEntry {
            name: case.name.to_owned(),
            about: case.about.to_owned(),
            operation: case.operation,
        });
        Entry { name: bench.name, asks: bench.asks, a: bench.a, b: bench.b, cases: cases.collect() }
    }

    fn of_malloc() -> Entry {
        let cases = cases().into_iter();
        let cases = cases.map(|case| CaseEntry { name: case.name, about: case.about, operation: "load" });
        let asks = "cost of whole programs under Freehold's malloc and under other mallocs";
        let b = "every other malloc that is installed";
        Entry { name: MALLOC, asks, a: "freehold", b, cases: cases.collect() }
    }
}

impl Entry {
    fn report(&self) -> Report {
        let columns = Column::several(&["case", "measured operation"], &[]);
        let rows = self.cases.iter().map(|case| vec![Value::text(&case.name), Value::text(&case.about)]);
        let subject = vec![format!("{}: {}", self.name, self.asks), format!("A = {}, B = {}", self.a, self.b)];
        Report { subject, tables: vec![report::Table::new("", columns, rows)], ..Report::default() }
    }
}

impl Document for Listing {
    fn reports(&self) -> Cow<'_, [Report]> {
        self.benches.iter().map(Entry::report).collect()
    }
}
