//! `freehold sim`: simulates a plan on one to hundreds of CPUs, under policy A and under each policy B.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use freehold_report::formats::{Document, VerdictFormats, Views};
use freehold_report::output;
use freehold_report::report::{self, Detail, Report, Table, Value, plot};
use freehold_report::terminal::Style;
use freehold_sim::costs::Costs;
use freehold_sim::plan::builtin::{BUILTINS, Builtin};
use freehold_sim::plan::{self, Changes, Outline, Plan};
use freehold_sim::report::SimReport;
use freehold_sim::report::vmstat::Counters;
use serde::Serialize;

use super::{parse_age, parse_cpus, parse_memory};
use crate::error::Error;

/// Arguments of `freehold sim`.
#[derive(Debug, Args)]
#[command(after_help = "The same plan, seeds and cost table give the same numbers on every machine.\n\n\
                        Examples:\n  freehold sim purge --cpus 1,32,512\n  \
                        freehold sim purge --set workload.cpus_per_purger=4 --picture purge.svg\n  \
                        freehold sim recording my.parquet --cpus 1,8,64\n  \
                        freehold sim recording my.parquet --start host.parquet\n  \
                        freehold sim webhost --memory 4GiB --age 60 --vmstat\n  \
                        freehold sim my-plan.toml --b freehold --json -")]
pub struct SimArgs {
    /// Built-in plan (see --list), or a TOML file
    #[arg(value_name = "PLAN", required_unless_present = "list")]
    plan: Option<String>,

    /// For the plan `recording`: the recording to play instead of the bundled build
    #[arg(value_name = "RECORDING")]
    recording: Option<String>,

    /// List the built-in plans
    #[arg(long)]
    list: bool,

    /// Numbers of CPUs, 1 to 512 each [default: numbers in the plan]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = parse_cpus)]
    cpus: Vec<std::num::NonZeroU16>,

    /// Memory of the machine, for example 4GiB [default: memory in the plan]
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    memory: Option<String>,

    /// Fragmentation of the machine's memory at the start of a run: 0 is all free, 60 the median of servers, 100 the
    /// maximum (see `freehold age`)
    #[arg(long, value_name = "0..100", value_parser = parse_age(), allow_negative_numbers = true)]
    #[arg(conflicts_with = "start")]
    age: Option<u8>,

    /// Snapshot, or recording, whose start state is the memory at the start of a run; the machine has the same size,
    /// unless --memory is given
    #[arg(long, value_name = "FILE")]
    start: Option<String>,

    /// Policy A, as SET[,field=value...]; see `freehold policies` [default: policy in the plan]
    #[arg(long, value_name = "NAME")]
    a: Option<String>,

    /// Policy B; may be repeated [default: policies in the plan]
    #[arg(long, value_name = "NAME")]
    b: Vec<String>,

    /// Number of seeds [default: number in the plan]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: Option<u32>,

    /// Change a key of the plan, for example workload.think_ns=100; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Cost table: `reference`, or a file that `freehold calibrate` wrote
    #[arg(long, value_name = "NAME|FILE", default_value = REFERENCE)]
    costs: String,

    /// Cost of moving a lock between CPUs, in percent of the cost in the table
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    lock_transfer_percent: u64,

    /// Simulate a tenth of the time with one seed (or --seeds), as a test; a web host runs at least twice the time in
    /// which its memory fills
    #[arg(long)]
    quick: bool,

    /// Draw the measures as functions of the number of CPUs, as FILE.svg; for an interactive page, see --html
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,

    /// Print all details: each measure with its verdict in every case
    #[arg(long, conflicts_with = "vmstat")]
    all: bool,

    /// Print a kernel's counters in the format of /proc/vmstat, instead of tables; also adds them to JSON
    #[arg(long, conflicts_with = "list")]
    vmstat: bool,

    #[command(flatten)]
    formats: VerdictFormats,
}

/// Name of the plan that plays a recording.
const RECORDING: &str = "recording";
/// Name of the built-in cost table.
const REFERENCE: &str = "reference";

/// Prints the answer.
pub(crate) fn run(args: &SimArgs, style: Style) -> Result<(), Error> {
    Ok(args.formats.emit(&*answer(args)?, style)?)
}

/// Simulates the plan, writes the picture if one is requested, and returns the report; or returns the list of plans.
pub(crate) fn answer(args: &SimArgs) -> Result<Box<dyn Views>, Error> {
    if args.list {
        args.formats.try_all(args.recording.as_deref().map(Path::new))?;
        return Ok(Box::new(Listing::new()?));
    }
    let costs = costs(&args.costs)?.with_lock_transfer_percent(args.lock_transfer_percent);
    args.picture.as_deref().map_or(Ok(()), check_picture)?;
    let name = args.plan.as_deref().unwrap_or_default();
    let plan = adjusted(Plan::open(name, &changes(name, args)?)?, args);
    args.formats.try_all(args.recording.as_deref().map(Path::new))?;
    args.picture.as_deref().map_or(Ok(()), output::try_file)?;
    let detail = if args.all { Detail::All } else { Detail::Differences };
    let report = SimReport::simulate(plan, &costs)?.with_detail(detail);
    if let Some(path) = &args.picture {
        output::write_atomically(path, drawn(&report).as_bytes())?;
    }
    Ok(if args.vmstat { Box::new(Counters(report)) } else { Box::new(report) })
}

/// Draws the report as an SVG picture.
fn drawn(report: &SimReport) -> String {
    let plots: Vec<_> = (0..report.plan.points.len()).flat_map(|point| report.plots(point)).collect();
    plot::svg(&format!("{}: {}", report.plan.name, report.plan.title), &plots)
}

/// Returns the changes that the command line makes to the plan with this name. Returns an error if a recording is given
/// and the plan is not `recording`.
fn changes(name: &str, args: &SimArgs) -> Result<Changes, Error> {
    let file = match &args.recording {
        Some(file) if name != RECORDING => {
            return Err(Error::Input(format!(
                "the plan {name} takes no recording as an argument, only the plan `{RECORDING}` does; leave {file} \
                 out, or give `--set workload.file={file}`"
            )));
        }
        file => file.iter().map(|file| format!("workload.file={file}")),
    };
    Ok(Changes {
        set: file.chain(args.set.iter().cloned()).collect(),
        memory: args.memory.clone(),
        age: args.age,
        start: args.start.clone(),
        cpus: args.cpus.iter().map(|cpus| cpus.get()).collect(),
        a: args.a.clone(),
        b: args.b.clone(),
        seeds: args.seeds,
    })
}

/// Returns the plan with the requested number of seeds and length.
fn adjusted(plan: Plan, args: &SimArgs) -> Plan {
    let mut plan = if args.quick { plan.shortened() } else { plan };
    plan.seeds = args.seeds.unwrap_or(plan.seeds);
    plan
}

/// Returns the built-in cost table, or reads one from a file.
pub(crate) fn costs(name: &str) -> Result<Costs, Error> {
    if name == REFERENCE {
        return Ok(Costs::reference());
    }
    let text = fs::read_to_string(name).map_err(|error| {
        Error::Input(format!(
            "cannot read the cost table {name}: {error}; give a file that `freehold calibrate` wrote, or `{REFERENCE}`"
        ))
    })?;
    Ok(plan::read_costs(name, &text)?)
}

/// Refuses a file name that does not end in `.svg`.
fn check_picture(path: &Path) -> Result<(), Error> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("svg") => Ok(()),
        _ => Err(Error::Input(format!(
            "unknown picture format: {}; give a file name that ends in .svg, or use --html",
            path.display()
        ))),
    }
}

/// The built-in plans as a document.
#[derive(Debug, Serialize)]
struct Listing {
    plans: Vec<ListEntry>,
}

#[derive(Debug, Serialize)]
struct ListEntry {
    name: &'static str,
    #[serde(flatten)]
    outline: Outline,
}

impl Listing {
    fn new() -> Result<Listing, Error> {
        Ok(Listing { plans: BUILTINS.iter().map(ListEntry::new).collect::<Result<_, _>>()? })
    }
}

impl ListEntry {
    fn new(builtin: &Builtin) -> Result<ListEntry, Error> {
        Ok(ListEntry { name: builtin.name, outline: Plan::outline(builtin)? })
    }

    fn row(&self) -> Vec<Value> {
        let cpus = self.outline.cpus.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
        vec![Value::text(self.name), Value::text(&self.outline.title), Value::text(cpus)]
    }
}

impl Document for Listing {
    fn reports(&self) -> Cow<'_, [Report]> {
        let columns = ["plan", "description", "CPUs"].map(report::Column::words).to_vec();
        let table = Table {
            conclusions: vec!["The files of these plans are in plans/, to be copied and changed.".to_owned()],
            ..Table::new("", columns, self.plans.iter().map(ListEntry::row))
        };
        Cow::Owned(vec![Report { tables: vec![table], ..Report::default() }])
    }
}
