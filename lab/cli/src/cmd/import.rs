//! `freehold import FILE`: converts a recording of perf or trace-cmd into a recording of Freehold.

use std::num::NonZeroU16;
use std::path::PathBuf;

use clap::Args;
use freehold_convert::{Import, MachineOverrides, SyntheticStart};
use freehold_report::formats::Formats;
use freehold_report::terminal::Style;
use freehold_sim::machine::Machine;
use freehold_sim::plan::Bytes;
use freehold_sim::start::{self, PAGEBLOCK_PAGES, age};

use super::{parse_age, parse_cpus};
use crate::error::Error;

/// Arguments of `freehold import`.
#[derive(Debug, Args)]
#[command(after_help = "FILE is a perf.data of `perf record` (to a file, or out of a pipe), a trace.dat of trace-cmd \
                        (version 6 or 7), or what `perf script`, trace_pipe or trace print; which one, its contents \
                        tell. A file that is damaged, sampled, or of a part of the machine is refused, or imported with a \
                        sentence that says so.\n\n\
                        Record with enough room, all CPUs, and a clock that they share:\n  \
                        perf record -k CLOCK_MONOTONIC -m 16M -a -e 'kmem:mm_page*' -e 'vmscan:*' -- make\n  \
                        trace-cmd record -C mono -b 65536 -e kmem -e vmscan -e compaction make\n\n\
                        How memory lay when it began stands in none of these files. Write it down just before, by \
                        `freehold snapshot` or `cp /proc/kpageflags /proc/zoneinfo /proc/iomem FOLDER`, and give it to \
                        --start; else it is drawn by chance, and a replay is the less true.\n\n\
                        Examples:\n  freehold import perf.data\n  \
                        freehold import trace.dat --start before.parquet -o build.parquet\n  \
                        freehold import perf.data --start kpageflags --zoneinfo zoneinfo --iomem iomem\n  \
                        freehold replay perf.parquet")]
pub struct ImportArgs {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The recording to write; an older one of this name is replaced once the new one is whole [default: FILE with the
    /// ending `.parquet`]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,

    /// How memory lay when the events began: a snapshot of `freehold snapshot`, or a copy of /proc/kpageflags or of
    /// /sys/kernel/debug/page_owner
    #[arg(long, value_name = "FILE")]
    start: Option<PathBuf>,

    /// Memory of the machine, where no file says how much it had
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,

    /// The kernel's release, as `uname -r` prints it
    #[arg(long, value_name = "RELEASE")]
    kernel: Option<String>,

    /// CPUs of the machine (1 to 512)
    #[arg(long, value_name = "N", value_parser = parse_cpus)]
    cpus: Option<NonZeroU16>,

    /// A copy of the machine's /proc/zoneinfo: zones, watermarks, and limits of per-CPU lists
    #[arg(long, value_name = "FILE")]
    zoneinfo: Option<PathBuf>,

    /// A copy of its /proc/pagetypeinfo: how many pageblocks there are of each type
    #[arg(long, value_name = "FILE")]
    pagetypeinfo: Option<PathBuf>,

    /// A copy of its /proc/iomem, as root sees it: where memory lies
    #[arg(long, value_name = "FILE")]
    iomem: Option<PathBuf>,

    /// How old memory is taken to be where it must be drawn: see `freehold age`
    #[arg(long, value_name = "0..100", value_parser = parse_age(), default_value_t = 60)]
    #[arg(allow_negative_numbers = true, conflicts_with = "start")]
    age: u8,

    /// Another seed draws other memory of the same age
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
        return Err(Error::Input(format!("{} is what is read, and would be lost; name another --out", out.display())));
    }
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

/// Draws a machine of the size that the events show, with memory of the requested age.
fn draw_start(args: &ImportArgs, import: &Import) -> Result<SyntheticStart, Error> {
    let blocks = import.pageblocks();
    let pages = u32::try_from(blocks * u64::from(PAGEBLOCK_PAGES)).map_err(|_| {
        Error::Input("no machine with so much memory can be drawn; give --start and --zoneinfo".to_owned())
    })?;
    let (start, detail) = match blocks > BLOCKS_LARGE {
        true => {
            let part = start::draw_start(&age::layout(args.age, BLOCKS_REPEATED), args.seed);
            (
                part.joined().repeated_to(pages / PAGEBLOCK_PAGES),
                ", 64 GiB of it again and again, each use of a pageblock in one piece",
            )
        }
        false => (start::draw_start(&age::layout(args.age, blocks), args.seed), ""),
    };
    let machine = Machine { pages, nodes: 1 };
    Ok(SyntheticStart {
        how: format!("drawn at age {}, seed {}{detail}", args.age, args.seed),
        facts: start::facts(&start, &machine, import.cpus()),
        rows: start::state_rows(&start).collect(),
    })
}
