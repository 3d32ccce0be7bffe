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
    freehold heap $(pgrep redis-server)          sizes, blocks, and what pins them\n  \
    freehold heap 1234 --blocks 50 --json -      more blocks, for a program to read\n\n\
    Works for every process whose malloc is Freehold, however it was started, if it may be read as by a debugger: with \
    CAP_SYS_PTRACE, or as its user where kernel.yama.ptrace_scope is 0. Nothing is asked of the process, and it is not \
    stopped: the allocator's tables are copied, and no object. What keeps a block of 2 MiB from going back to the \
    system is what lies in it.")]
pub struct HeapArgs {
    /// The number of the process
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
