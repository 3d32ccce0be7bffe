//! `freehold heap PID`: shows the heap of a live process whose malloc is Freehold.

mod watch;

use std::num::NonZeroU32;

use clap::Args;
use freehold_heap_inspector::{Caches, HeapMap, MapLimits, Target, openmetrics};
use freehold_report::formats::Formats;
use freehold_report::output;
use freehold_report::terminal::Style;

use crate::error::Error;

/// Arguments of `freehold heap`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    freehold run -- redis-server &\n  \
    freehold heap $(pgrep redis-server)          sizes, blocks, and the objects that pin them\n  \
    freehold heap 1234 --blocks 50 --json -      more blocks, as JSON\n  \
    freehold heap 1234 --watch 5                 live, cached, kept and returned memory every 5 s\n  \
    freehold heap 1234 --openmetrics > heap.prom the same numbers once, for Prometheus\n\n\
    The command reads every process whose malloc is Freehold, independently of how the process was started. It needs \
    the permission of a debugger: CAP_SYS_PTRACE, or the same user if kernel.yama.ptrace_scope is 0. The process is \
    not stopped or changed: only the allocator's tables are copied, no contents of objects. The objects that are \
    listed for a block of 2 MiB prevent its return to the system.\n\n\
    Memory is live (allocated by the program), cached (freed, in a cache of a CPU or a barn), kept (other free memory \
    that is resident) or returned (free and not resident: returned to the system, never written to, or swapped out). --watch \
    refreshes a screen on a terminal, with the sizes that have most live memory; elsewhere it prints one line each \
    time. It ends with the process, or by Ctrl-C. --openmetrics has the totals, and the parts by kind and size that \
    add up to them.")]
pub struct HeapArgs {
    /// Process ID
    #[arg(value_name = "PID")]
    pid: NonZeroU32,

    /// List the N emptiest blocks
    #[arg(long, value_name = "N", default_value_t = 8)]
    blocks: usize,

    /// Print live, cached, kept and returned memory every SECONDS (default: 1), until the process ends
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1")]
    #[arg(conflicts_with_all = ["json", "csv", "markdown", "html", "format"])]
    watch: Option<String>,

    /// Print live, cached, kept and returned memory in the OpenMetrics text format
    #[arg(long, conflicts_with_all = ["json", "csv", "markdown", "html", "format"])]
    openmetrics: bool,

    #[command(flatten)]
    formats: Formats,
}

/// Reads the heap once and prints its contents; with `--watch`, reads it until the process ends.
pub(crate) fn run(args: &HeapArgs, style: Style) -> Result<(), Error> {
    args.formats.try_all([])?;
    match &args.watch {
        Some(_) if args.openmetrics => {
            Err(Error::Input("--watch and --openmetrics exclude each other; give one of them".to_owned()))
        }
        Some(seconds) => watch::run(args.pid.get(), watch::interval(seconds)?, style),
        None => show(args, style),
    }
}

fn show(args: &HeapArgs, style: Style) -> Result<(), Error> {
    let mut target = Target::open(args.pid.get())?;
    let map = HeapMap::read(&mut target, &Caches::for_this_version()?, MapLimits { blocks: args.blocks })?;
    if args.openmetrics {
        return Ok(output::print(openmetrics::format(&map).as_bytes())?);
    }
    Ok(args.formats.emit(&map, style)?)
}
