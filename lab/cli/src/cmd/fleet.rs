//! `freehold fleet`: many simulated hosts that differ, under policy A and under each policy B.

use std::num::NonZeroU16;
use std::path::PathBuf;

use clap::Args;
use freehold_report::formats::{VerdictFormats, Views};
use freehold_report::report::Detail;
use freehold_report::terminal::Style;
use freehold_sim::fleet::report::{FleetReport, Listing};
use freehold_sim::fleet::state::{Place, State};
use freehold_sim::fleet::{Fleet, HOSTS_MAX};
use freehold_sim::plan::{Changes, Plan};

use super::{parse_age, parse_cpus, parse_memory, sim};
use crate::error::Error;

/// Default plan; the default policies below are about it.
const PLAN: &str = "webhost";
/// Default policies B on that plan.
const RIVALS: [&str; 2] = ["linux-6.12,highatomic=skip-costly", "linux-6.12,highatomic=reuse-first"];
/// Default number of hosts.
const HOSTS: u32 = 60;
/// Name of the built-in cost table.
const COSTS: &str = "reference";

/// Arguments of `freehold fleet`.
#[derive(Debug, Args)]
#[command(
    after_help = "Hosts differ by seed and by the random values of the keys in the plan's [fleet.draw]. A host has the \
                        same values under every policy. The same command continues an interrupted fleet: completed \
                        runs are kept in $XDG_STATE_HOME/freehold or ~/.local/state/freehold until the fleet is \
                        complete.\n\n\
                        Examples:\n  freehold fleet webhost --hosts 60 --memory 4GiB\n  \
                        freehold fleet webhost --hosts 20 --resume my.jsonl --json fleet.json\n  \
                        freehold fleet my-plan.toml --b linux-6.12,highatomic=give-back --hosts-table"
)]
pub struct FleetArgs {
    /// Built-in plan (see `freehold sim --list`), or a TOML file
    #[arg(value_name = "PLAN", default_value = PLAN)]
    plan: String,

    /// Number of hosts
    #[arg(long, value_name = "N", default_value_t = HOSTS, value_parser = clap::value_parser!(u32).range(1..=HOSTS_MAX.into()))]
    hosts: u32,

    /// Memory of a host, for example 4GiB [default: memory in the plan]
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    memory: Option<String>,

    /// Fragmentation of each host's memory at the start: 0 is all free, 60 the median of servers, 100 the maximum
    #[arg(long, value_name = "0..100", value_parser = parse_age(), allow_negative_numbers = true)]
    #[arg(conflicts_with = "start")]
    age: Option<u8>,

    /// Snapshot, or recording, whose start state is the memory of each host at the start
    #[arg(long, value_name = "FILE")]
    start: Option<String>,

    /// Number of CPUs of a host, 1 to 512 [default: number in the plan]
    #[arg(long, value_name = "N", value_parser = parse_cpus)]
    cpus: Option<NonZeroU16>,

    /// Policy A, as SET[,field=value...]; see `freehold policies` [default: policy in the plan]
    #[arg(long, value_name = "NAME")]
    a: Option<String>,

    /// Policy B; may be repeated [default: policies in the plan; for webhost: skip-costly and reuse-first]
    #[arg(long, value_name = "NAME")]
    b: Vec<String>,

    /// Change a key of the plan on all hosts, for example workload.think_ns=100; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Seed of the fleet; another seed gives other hosts
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Cost table: `reference`, or a file that `freehold calibrate` wrote
    #[arg(long, value_name = "NAME|FILE", default_value = COSTS)]
    costs: String,

    /// Simulate a tenth of the time, as a test; a web host runs at least twice the time in which its memory fills
    #[arg(long)]
    quick: bool,

    /// Keep completed runs in FILE and continue from FILE; without --resume, they are in a file that is removed at the
    /// end
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,

    /// Also list every host
    #[arg(long)]
    hosts_table: bool,

    /// Print all details: each measure with its verdict
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    formats: VerdictFormats,
}

/// Prints the report. The saved state is kept until the report has been written, and with `--resume` also afterwards.
pub(crate) fn run(args: &FleetArgs, style: Style) -> Result<(), Error> {
    let (report, state) = simulated(args)?;
    args.formats.emit(&report, style)?;
    state.conclude();
    Ok(())
}

/// Simulates the fleet and returns the report. Removes the saved state, unless `--resume` is given.
pub(crate) fn answer(args: &FleetArgs) -> Result<Box<dyn Views>, Error> {
    let (report, state) = simulated(args)?;
    state.conclude();
    Ok(Box::new(report))
}

fn simulated(args: &FleetArgs) -> Result<(FleetReport, State), Error> {
    let costs = sim::costs(&args.costs)?;
    let plan = Plan::open(&args.plan, &changes(args))?;
    let plan = if args.quick { plan.shortened() } else { plan };
    let fleet = Fleet::new(plan, costs, args.hosts, args.seed)?;
    let place = args.resume.clone().map_or(Place::Default, Place::File);
    args.formats.try_all([])?;
    let (report, state) = fleet.simulate(&place)?;
    let listing = if args.hosts_table { Listing::Hosts } else { Listing::Fleet };
    let detail = if args.all { Detail::All } else { Detail::Differences };
    Ok((report.shown(listing, detail), state))
}

/// Returns the changes that the command line makes to the plan.
fn changes(args: &FleetArgs) -> Changes {
    let rivals =
        if args.b.is_empty() && args.plan == PLAN { RIVALS.map(str::to_owned).to_vec() } else { args.b.clone() };
    Changes {
        set: args.set.clone(),
        memory: args.memory.clone(),
        age: args.age,
        start: args.start.clone(),
        cpus: args.cpus.iter().map(|cpus| cpus.get()).collect(),
        a: args.a.clone(),
        b: rivals,
        seeds: None,
    }
}
