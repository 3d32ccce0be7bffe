//! A whole machine in memory, for tests, benchmarks, examples and the laboratory (feature `host`). It allocates the
//! engine's metadata, which a kernel would have to supply, and frees it at the end.

pub mod objects;

extern crate std;

use core::alloc::Layout;
use core::fmt;
use core::mem::MaybeUninit;
use std::boxed::Box;
use std::vec::Vec;

use crate::base::zeroed::ZeroedBytes;
use crate::base::{NodeId, Pfn, ZoneKind};
use crate::page::{Config, ConfigError, OnlineError, PageAllocator, Range};
use crate::platform::Platform;
use crate::slab::SlabError;

/// Error of building a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineError {
    /// The configuration is invalid.
    Config(ConfigError),
    /// A range of memory cannot come online.
    Online(OnlineError),
    /// The slab could not be created, for example because its CPU-local primitive has too many CPUs.
    Slab(SlabError),
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MachineError::Config(error) => error.fmt(f),
            MachineError::Online(error) => error.fmt(f),
            MachineError::Slab(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for MachineError {}

/// Builds an allocator whose `ranges` are online, with all frames still Reserved, and passes it to `run`. `run` has it
/// exclusively, so it may restore a recorded state before it shares the allocator.
///
/// # Errors
/// If the configuration or a range is invalid.
pub fn with_ranges<P: Platform, R>(
    platform: P,
    config: &Config<'_>,
    ranges: &[Range],
    run: impl FnOnce(&mut PageAllocator<'_, P>) -> R,
) -> Result<R, MachineError> {
    let mut fixed = bytes(config.metadata_layout::<P>(), 1);
    let layouts = ranges.iter().map(|range| config.online_layout(&(range.start..range.end)));
    let mut memory: Vec<_> = layouts.map(zeroed).collect();
    let mut allocator = PageAllocator::new(platform, config, &mut fixed).map_err(MachineError::Config)?;
    for (range, metadata) in ranges.iter().zip(&mut memory) {
        allocator.online_in(range, metadata.storage()).map_err(MachineError::Online)?;
    }
    Ok(run(&mut allocator))
}

/// Builds a machine of `pages` frames in one Normal zone on node 0, and passes its allocator to `run`. All frames are
/// free, and the watermarks are set by size.
///
/// # Errors
/// If the configuration is invalid.
pub fn with_memory<P: Platform, R>(
    platform: P,
    config: &Config<'_>,
    pages: u32,
    run: impl FnOnce(&PageAllocator<'_, P>) -> R,
) -> Result<R, MachineError> {
    let range = Range { start: Pfn::new(0), end: Pfn::new(pages), node: NodeId(0), kind: ZoneKind::Normal };
    with_ranges(platform, config, &[range], |allocator| {
        allocator.release(range.start, range.end)?;
        allocator.set_up_watermarks(crate::page::MinFree::BySize);
        Ok(run(allocator))
    })?
    .map_err(MachineError::Online)
}

/// Returns the zones of a PC with one node and `pages` frames from address 0 up, without holes: DMA below 16 MiB, DMA32
/// below 4 GiB, Normal above. For 4 KiB pages.
pub fn pc_ranges(pages: u32) -> Vec<Range> {
    const LIMITS: [(ZoneKind, u32, u32); 3] =
        [(ZoneKind::Dma, 0, 1 << 12), (ZoneKind::Dma32, 1 << 12, 1 << 20), (ZoneKind::Normal, 1 << 20, u32::MAX)];
    LIMITS
        .iter()
        .filter(|&&(_, start, _)| start < pages)
        .map(|&(kind, start, end)| Range {
            start: Pfn::new(start),
            end: Pfn::new(end.min(pages)),
            node: NodeId(0),
            kind,
        })
        .collect()
}

/// Allocates room for `count` pieces of this layout, and for the alignment of the first piece.
fn bytes(layout: Layout, count: usize) -> Box<[MaybeUninit<u8>]> {
    Box::new_uninit_slice(layout.size() * count + layout.align())
}

/// Allocates zeroed room for one piece of this layout, and for its alignment.
fn zeroed(layout: Layout) -> ZeroedBytes {
    ZeroedBytes::new(layout.size() + layout.align())
}
