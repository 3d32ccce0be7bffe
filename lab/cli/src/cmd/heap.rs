//! `freehold heap PID`: shows the heap of a live process whose malloc is Freehold.

use std::num::NonZeroU32;

use clap::Args;
use freehold_heap_inspector::{Caches, HeapMap, MapLimits, Target};
use freehold_report::formats::Formats;
use freehold_report::terminal::Style;

use crate::error::Error;

/// Arguments of `freehold heap`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    freehold run -- redis-server &\n  \
    freehold heap $(pgrep redis-server)          sizes, blocks, and the objects that pin them\n  \
    freehold heap 1234 --blocks 50 --json -      more blocks, as JSON\n\n\
    The command reads every process whose malloc is Freehold, independently of how the process was started. It needs \
    the permission of a debugger: CAP_SYS_PTRACE, or the same user if kernel.yama.ptrace_scope is 0. The process is \
    not stopped or changed: only the allocator's tables are copied, no contents of objects. The objects that are \
    listed for a block of 2 MiB prevent its return to the system.")]
pub struct HeapArgs {
    /// Process ID
    #[arg(value_name = "PID")]
    pid: NonZeroU32,

    /// List the N emptiest blocks
    #[arg(long, value_name = "N", default_value_t = 8)]
    blocks: usize,

    #[command(flatten)]
    formats: Formats,
}

/// Reads the heap once and prints its contents.
pub(crate) fn run(args: &HeapArgs, style: Style) -> Result<(), Error> {
    args.formats.try_all([])?;
    let mut target = Target::open(args.pid.get())?;
    let map = HeapMap::read(&mut target, &Caches::for_this_version()?, MapLimits { blocks: args.blocks })?;
    Ok(args.formats.emit(&map, style)?)
}
