//! `freehold age`: draws a machine's memory at random as workloads leave it, and writes it as a snapshot; or, with
//! `--apply`, brings the memory of this machine into that state.

use std::path::PathBuf;

use clap::Args;
use freehold_fragmenter::{EndReason, FragmentReport};
use freehold_report::formats::{Formats, Views};
use freehold_report::terminal::Style;
use freehold_sim::machine::Machine;
use freehold_sim::plan::{Bytes, MachineSpec};
use freehold_sim::start::report::StartReport;
use freehold_sim::start::shares::{Percent, Shares};
use freehold_sim::start::{self, Layout, PAGEBLOCK_PAGES, age};

use super::apply::{self, Amount, ApplyArgs};
use super::replace::ReplaceArgs;
use super::{parse_age, parse_cpus};
use crate::error::Error;

/// Default memory of the machine.
const MEMORY: Bytes = Bytes::mib(4096);
/// Size of a pageblock in MiB.
const PAGEBLOCK_MIB: u64 = 2;
/// Pages per MiB.
const PAGES_PER_MIB: u32 = 256;

/// Arguments of `freehold age`.
#[derive(Debug, Args)]
#[command(
    after_help = "The age is the fragmentation of memory, not a time. At 0 all memory is free. At 60 a third of \
                        the pageblocks have unmovable pages, as published for production servers. From 80 on no \
                        pageblock is free. At 100 no large block can be allocated. The same age and seed give the \
                        same memory on every machine.\n\n\
                        With --apply, the fragmentation is undone when the command ends, also after Ctrl-C and \
                        kill -9. Only the types of pageblocks remain: a pageblock that the kernel claimed for its own \
                        pages stays unmovable until a movable request claims it.\n\n\
                        Examples:\n  \
                        freehold age                                             print the figures of age 60\n  \
                        freehold age --age 80 --memory 16GiB -o old.parquet      write a file for --start\n  \
                        freehold age --age 60 --fixed-blocks 50 -o half.parquet  unmovable pages in half of memory\n  \
                        freehold age --like host.parquet                         print the figures of a snapshot\n  \
                        freehold sim webhost --memory 4GiB --age 60              simulate a machine of age 60\n  \
                        sudo freehold age --age 60 --apply -- ./benchmark        run on this machine, fragmented\n\n\
                        Exit status with --apply: that of COMMAND, or 128 and the number of the signal that killed \
                        COMMAND. 0 if --for or Ctrl-C ended the fragmentation. 1 if --check failed or is inconclusive. \
                        127 if there is no such program, and 126 if it cannot be started."
)]
pub struct AgeArgs {
    /// Fragmentation of memory
    #[arg(long, value_name = "0..100", value_parser = parse_age(), allow_negative_numbers = true)]
    #[arg(default_value_t = 60, conflicts_with = "like")]
    age: u8,

    /// Generate memory like that of a snapshot, or of the start of a recording, with its figures for each kind of
    /// pageblock in each eighth of memory. If a share is given too, only the totals are used
    #[arg(long, value_name = "FILE")]
    like: Option<PathBuf>,

    /// Memory of the machine [default: 4GiB, or the memory of --like]. With --apply: free memory to fragment, as a size
    /// or in percent of the free memory [default: 80%]; more is used for a short time while holes are filled
    #[arg(long, value_name = "SIZE")]
    memory: Option<Amount>,

    /// Number of nodes; each node has the same memory
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8),
          conflicts_with = "apply")]
    nodes: u8,

    /// Number of CPUs (1 to 512), which determines the limits of the per-CPU lists
    #[arg(long, value_name = "N", default_value = "32", value_parser = parse_cpus, conflicts_with = "apply")]
    cpus: std::num::NonZeroU16,

    /// Seed; another seed generates other memory with the same figures
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    shares: ShareArgs,

    /// Write the memory as a snapshot; a file of this name is replaced only with --force
    #[arg(long, short, value_name = "FILE", conflicts_with = "apply")]
    out: Option<PathBuf>,

    #[command(flatten)]
    replace: ReplaceArgs,

    #[command(flatten)]
    apply: ApplyArgs,

    #[command(flatten)]
    formats: Formats,
}

/// Shares that take the place of the age's, in percent.
#[derive(Debug, Args)]
struct ShareArgs {
    /// Pageblocks with pages that can be neither moved nor reclaimed, in percent of all pageblocks
    #[arg(long, value_name = "PERCENT")]
    fixed_blocks: Option<Percent>,

    /// Pages that can be neither moved nor reclaimed, in percent of memory
    #[arg(long, value_name = "PERCENT")]
    fixed: Option<Percent>,

    /// Pageblocks without a page in use, in percent of all pageblocks
    #[arg(long, value_name = "PERCENT")]
    free_blocks: Option<Percent>,

    /// Free pages, in percent of memory
    #[arg(long, value_name = "PERCENT")]
    free: Option<Percent>,

    /// Pageblocks that are a huge page of a task, in percent of all pageblocks
    #[arg(long, value_name = "PERCENT")]
    huge_blocks: Option<Percent>,
}

/// Prints the answer.
pub(crate) fn run(args: &AgeArgs, style: Style) -> Result<(), Error> {
    if !args.apply.is_asked() {
        return Ok(args.formats.emit(&drawn(args)?, style)?);
    }
    let (report, ended) = applied(args)?;
    args.apply.emit(&report, &args.formats, style)?;
    apply::judge(&report, ended)
}

/// Draws the requested start, writes it if an output file is given, and returns its figures. With `--apply`, brings
/// this machine's memory into that state for a time, and returns a report on that.
pub(crate) fn answer(args: &AgeArgs) -> Result<Box<dyn Views>, Error> {
    if !args.apply.is_asked() {
        return Ok(Box::new(drawn(args)?));
    }
    let (report, ended) = applied(args)?;
    apply::judge(&report, ended)?;
    Ok(Box::new(report))
}

fn drawn(args: &AgeArgs) -> Result<StartReport, Error> {
    args.out.as_deref().map_or(Ok(()), |out| args.replace.check(out))?;
    args.formats.try_all(args.like.as_deref())?;
    let like = layout_in(args)?;
    let (machine, pageblocks) = ordered(args, like.as_ref())?;
    let start = start::draw_start(&layout(args, like, pageblocks)?, args.seed);
    if let Some(out) = &args.out {
        start::write(&start, &machine, args.cpus.get(), out)?;
    }
    Ok(StartReport::new(subject(args, &machine), &start))
}

/// Brings this machine's memory into the drawn state for a time.
fn applied(args: &AgeArgs) -> Result<(FragmentReport, EndReason), Error> {
    args.formats.try_all(args.like.as_deref())?;
    let pageblocks = apply::pageblocks(args.memory)?;
    let start = start::draw_start(&layout(args, layout_in(args)?, pageblocks)?, args.seed);
    let what = format!("{} MiB of this machine's memory, {}", pageblocks * PAGEBLOCK_MIB, how_drawn(args));
    apply::apply(&args.apply, &start, what)
}

/// Returns the requested machine and the number of its pageblocks. Without `--memory`, its size is that of `like`.
/// Returns an error if no machine has the requested memory, nodes and CPUs.
fn ordered(args: &AgeArgs, like: Option<&Layout>) -> Result<(Machine, u64), Error> {
    let like = like.map(|layout| Bytes::mib(layout.total().pageblocks * PAGEBLOCK_MIB));
    let memory = args.memory.map(Amount::of_a_machine).transpose()?.or(like).unwrap_or(MEMORY);
    let spec = MachineSpec { memory: Some(memory), nodes: args.nodes, ..MachineSpec::default() };
    let machine = spec.machine(args.cpus.get());
    let machine = machine.map_err(|impossible| Error::Input(format!("--memory {}", impossible.sentence)))?;
    Ok((machine, u64::from(machine.pages_per_node() / PAGEBLOCK_PAGES) * u64::from(machine.nodes)))
}

/// Returns the requested layout of memory for a machine with this number of pageblocks. Returns an error if the
/// requested shares are impossible.
fn layout(args: &AgeArgs, like: Option<Layout>, pageblocks: u64) -> Result<Layout, Error> {
    let like = like.map(|layout| layout.scaled_to(pageblocks));
    let layout = like.unwrap_or_else(|| age::layout(args.age, pageblocks));
    args.shares.shares().apply_to_layout(layout).map_err(Error::Input)
}

/// Returns the layout of the snapshot, or of the start of the recording, in `--like`; `None` if the option is not
/// given.
fn layout_in(args: &AgeArgs) -> Result<Option<Layout>, Error> {
    let Some(path) = &args.like else { return Ok(None) };
    let start = start::read(path).map_err(|error| Error::Input(error.to_string()))?;
    Ok(Some(Layout::from_start(&start)))
}

fn subject(args: &AgeArgs, machine: &Machine) -> String {
    let written = args.out.as_ref().map(|out| format!(", written to {}", out.display())).unwrap_or_default();
    format!("A machine of {} MiB, {}{written}", machine.pages / PAGES_PER_MIB, how_drawn(args))
}

fn how_drawn(args: &AgeArgs) -> String {
    match &args.like {
        Some(path) => format!("generated like {}, seed {}", path.display(), args.seed),
        None => format!("generated at age {}, seed {}", args.age, args.seed),
    }
}

impl ShareArgs {
    fn shares(&self) -> Shares {
        Shares {
            fixed_pageblocks: self.fixed_blocks,
            fixed: self.fixed,
            free_pageblocks: self.free_blocks,
            free: self.free,
            huge_pageblocks: self.huge_blocks,
        }
    }
}
