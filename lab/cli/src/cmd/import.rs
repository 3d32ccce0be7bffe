//! `freehold import FILE`: converts a trace of perf or trace-cmd, or a text in the format of tracefs, into a recording.

use std::num::NonZeroU16;
use std::path::PathBuf;

use clap::Args;
use freehold_convert::{Import, MachineOverrides, SyntheticStart};
use freehold_report::formats::Formats;
use freehold_report::terminal::Style;
use freehold_sim::machine::Machine;
use freehold_sim::plan::Bytes;
use freehold_sim::start::{self, PAGEBLOCK_PAGES, age};

use super::replace::ReplaceArgs;
use super::{parse_age, parse_cpus};
use crate::error::Error;

/// Arguments of `freehold import`.
#[derive(Debug, Args)]
#[command(after_help = "FILE is a perf.data of `perf record` (from a file or a pipe), a trace.dat of trace-cmd \
                        (version 6 or 7), or the text output of `perf script`, trace_pipe or trace. The format is \
                        detected from the contents. A file that is damaged, is sampled, or covers only a part of the \
                        machine is refused, or imported with a note.\n\n\
                        Record with large buffers, on all CPUs, and with a common clock:\n  \
                        perf record -k CLOCK_MONOTONIC -m 16M -a -e 'kmem:mm_page*' -e 'vmscan:*' -- make\n  \
                        trace-cmd record -C mono -b 65536 -e kmem -e vmscan -e compaction make\n\n\
                        None of these files has the state of memory at the start. Record the state just before, with \
                        `freehold snapshot` or `cp /proc/kpageflags /proc/zoneinfo /proc/iomem FOLDER`, and pass it \
                        with --start. Otherwise the state is generated at random, and replays are less accurate.\n\n\
                        Examples:\n  freehold import perf.data\n  \
                        freehold import trace.dat --start before.parquet -o build.parquet\n  \
                        freehold import perf.data --start kpageflags --zoneinfo zoneinfo --iomem iomem\n  \
                        freehold replay perf.parquet")]
pub struct ImportArgs {
    /// File to import
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Recording to write; a file of this name is replaced only with --force [default: FILE with the extension
    /// `.parquet`]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,

    #[command(flatten)]
    replace: ReplaceArgs,

    /// State of memory at the first event: a snapshot of `freehold snapshot`, or a copy of /proc/kpageflags or of
    /// /sys/kernel/debug/page_owner
    #[arg(long, value_name = "FILE")]
    start: Option<PathBuf>,

    /// Memory of the machine, if no file contains its size
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,

    /// The kernel's release, as `uname -r` prints it
    #[arg(long, value_name = "RELEASE")]
    kernel: Option<String>,

    /// CPUs of the machine (1 to 512)
    #[arg(long, value_name = "N", value_parser = parse_cpus)]
    cpus: Option<NonZeroU16>,

    /// Copy of the machine's /proc/zoneinfo: zones, watermarks, and limits of per-CPU lists
    #[arg(long, value_name = "FILE")]
    zoneinfo: Option<PathBuf>,

    /// Copy of the machine's /proc/pagetypeinfo: number of pageblocks of each type
    #[arg(long, value_name = "FILE")]
    pagetypeinfo: Option<PathBuf>,

    /// Copy of the machine's /proc/iomem, made by root: addresses of memory
    #[arg(long, value_name = "FILE")]
    iomem: Option<PathBuf>,

    /// Fragmentation of memory that is generated at random: see `freehold age`
    #[arg(long, value_name = "0..100", value_parser = parse_age(), default_value_t = 60)]
    #[arg(allow_negative_numbers = true, conflicts_with = "start")]
    age: u8,

    /// Seed; another seed generates other memory of the same age
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    formats: Formats,
}

/// Reads the file, draws the start if it is missing, writes the recording, and prints a summary.
pub(crate) fn run(args: &ImportArgs, style: Style) -> Result<(), Error> {
    let out = args.out.clone().unwrap_or_else(|| args.file.with_extension("parquet"));
    args.formats.try_all([args.file.as_path(), out.as_path()])?;
    if out.canonicalize().is_ok_and(|there| args.file.canonicalize().is_ok_and(|file| file == there)) {
        return Err(Error::Input(format!(
            "{} is an input and would be overwritten; give another --out",
            out.display()
        )));
    }
    args.replace.check(&out)?;
    let import = Import::read(&args.file, &out, &args.machine_overrides(), args.start.as_deref())?;
    let start = import.needs_synthetic_start().then(|| draw_start(args, &import)).transpose()?;
    let summary = import.write(&out, start)?;
    Ok(args.formats.emit(&summary, style)?)
}

impl ImportArgs {
    fn machine_overrides(&self) -> MachineOverrides {
        MachineOverrides {
            memory: self.memory.map(Bytes::get),
            kernel: self.kernel.clone(),
            cpus: self.cpus.map(NonZeroU16::get),
            zoneinfo: self.zoneinfo.clone(),
            pagetypeinfo: self.pagetypeinfo.clone(),
            iomem: self.iomem.clone(),
        }
    }
}

/// Number of pageblocks above which a start is drawn more coarsely: 256 GiB. A start of many runs would take minutes to
/// write.
const BLOCKS_LARGE: u64 = 1 << 17;
/// Number of pageblocks that are then drawn, and repeated.
const BLOCKS_REPEATED: u64 = 1 << 15;

/// Draws a machine of the imported machine's size, with memory of the requested age. Returns an error if the number of
/// pages does not fit 32 bits.
fn draw_start(args: &ImportArgs, import: &Import) -> Result<SyntheticStart, Error> {
    let blocks = import.pageblocks();
    let pages = u32::try_from(blocks * u64::from(PAGEBLOCK_PAGES)).map_err(|_| {
        Error::Input("cannot generate a start state for a machine of this size; give --start and --zoneinfo".to_owned())
    })?;
    let (start, detail) = match blocks > BLOCKS_LARGE {
        true => {
            let part = start::draw_start(&age::layout(args.age, BLOCKS_REPEATED), args.seed);
            (
                part.joined().repeated_to(pages / PAGEBLOCK_PAGES),
                ", 64 GiB repeated, each use of a pageblock in one piece",
            )
        }
        false => (start::draw_start(&age::layout(args.age, blocks), args.seed), ""),
    };
    let machine = Machine { pages, nodes: 1 };
    Ok(SyntheticStart {
        how: format!("generated at age {}, seed {}{detail}", args.age, args.seed),
        facts: start::facts(&start, &machine, import.cpus()),
        rows: start::state_rows(&start).collect(),
    })
}
