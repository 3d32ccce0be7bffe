//! One machine with blocks and frames of every kind, at places that the attacks know.
//!
//! ```text
//!   2048  DMA, node 0          Normal, node 0, with holes around 3072..3100 and after 4010
//!         2304..2400 Reserved  2560..2688 a CMA area
//!   4096  Movable, node 0      whole
//!   6144  Normal, node 1       blocks of every kind: see `Town`
//!  34816  Normal, node 1       in a separate section, half of it Reserved
//! ```
//!
//! The first frame is 2048, which is not a multiple of the section size. Pageblocks have 32 frames.

use freehold::Policy;
use freehold::base::{Gfp, NodeId, Order, Pfn, State, ZoneKind};
use freehold::page::{CmaArea, Config, MinFree, Range};
use freehold::platform::host::{CheckedSpinLock, run_on_cpu};

use crate::attackers::machine::{Bytes, Engine, Memory, build, range};

pub(super) const FIRST: u32 = 2048;
pub(super) const END: u32 = 34_944;
/// Nodes of the three CPUs.
pub(super) const CPU_NODES: [NodeId; 3] = [NodeId(0), NodeId(1), NodeId(0)];

const RANGES: [(ZoneKind, u8, u32, u32); 6] = [
    (ZoneKind::Dma, 0, FIRST, 2304),
    (ZoneKind::Normal, 0, 2304, 3072),
    (ZoneKind::Normal, 0, 3100, 4010),
    (ZoneKind::Movable, 0, 4096, 5120),
    (ZoneKind::Normal, 1, 6144, 7168),
    (ZoneKind::Normal, 1, 34_816, 34_880),
];
const RELEASED: [(u32, u32); 7] =
    [(FIRST, 2304), (2400, 2560), (2688, 3072), (3100, 4010), (4096, 5120), (6144, 7168), (34_816, 34_848)];
pub(super) const AREA: (u32, u32) = (2560, 2688);

/// First frames of blocks, named by their kind.
pub(super) const PAGE: u32 = 6144;
pub(super) const MOVABLE: u32 = 6150;
pub(super) const FROZEN: u32 = 6208;
pub(super) const COMPOUND: u32 = 6272;
pub(super) const SHARED: u32 = 6408;
pub(super) const COUNTED_OUT: u32 = 6592;
pub(super) const SLAB: u32 = 6496;
pub(super) const POISONED: u32 = 6528;
pub(super) const WITHHELD: u32 = 6560;
pub(super) const RESERVED: u32 = 2304;
pub(super) const HOLE: u32 = 3080;
pub(super) const LENT: u32 = 2564;

/// Returns the frames that are likely sources of errors: every kind of block, frames inside it and next to it, every
/// border, and the limits of the number range.
pub(super) fn places() -> Vec<u32> {
    let kinds =
        [PAGE, MOVABLE, FROZEN, COMPOUND, SHARED, COUNTED_OUT, SLAB, POISONED, WITHHELD, RESERVED, HOLE, LENT, 2399];
    let borders = [FIRST, 2304, 2400, AREA.0, AREA.1, 3072, 3100, 4010, 4096, 5120, 6144, 7168, 34_816, 34_848, END];
    let ends = [0, 1, FIRST - 1, 65_535, 1 << 31, u32::MAX - 1024, u32::MAX - 1023, u32::MAX - 1, u32::MAX];
    let centres = kinds.into_iter().chain(borders).chain(ends);
    let mut places: Vec<u32> =
        centres.flat_map(|place| [place.saturating_sub(1), place, place.saturating_add(1)]).collect();
    places.sort_unstable();
    places.dedup();
    places
}

pub(super) fn config(policy: Policy) -> Config<'static> {
    Config {
        cpu_nodes: &CPU_NODES,
        nodes: 2,
        first: Pfn::new(FIRST + 5),
        end: Pfn::new(END - 7),
        pageblock_order: Order::new(5),
        policy,
        ..Config::default()
    }
}

/// The machine under attack, and its CMA area.
pub(super) struct Town<'a, 'm, 'h> {
    pub engine: &'a Engine<'m, 'h>,
    pub area: &'a CmaArea<'m, CheckedSpinLock>,
}

/// Builds the machine, and passes it and [`SPARE`] pieces of spare bytes to `run`.
pub(super) fn with_town<R>(
    policy: Policy,
    run: impl for<'m> FnOnce(&Town<'_, 'm, '_>, &mut dyn Iterator<Item = &'m mut Bytes>) -> R,
) -> R {
    let config = config(policy);
    let ranges: Vec<Range> = RANGES.iter().map(|&(kind, node, start, end)| range(kind, node, start, end)).collect();
    let mut memory = Memory::new(&config, &ranges);
    let mut bitmap = vec![core::mem::MaybeUninit::uninit(); 64];
    memory.spare = (0..SPARE).map(|_| Box::new_uninit_slice(512)).collect();
    run_on_cpu(freehold::base::CpuId(1));
    let (engine, mut spare) = build(&config, &ranges, &mut memory);
    let area = engine
        .reserve_cma(Pfn::new(AREA.0)..Pfn::new(AREA.1), Order::new(2), &mut bitmap)
        .expect("the frames must be Reserved");
    for (start, end) in RELEASED {
        engine.release(Pfn::new(start), Pfn::new(end)).expect("the range is Reserved");
    }
    engine.set_up_watermarks(MinFree::Pages(64));
    settle(&engine);
    run(&Town { engine: &engine, area: &area }, &mut spare)
}

/// Number of pieces of spare metadata bytes.
pub(super) const SPARE: usize = if cfg!(miri) { 64 } else { 1300 };

/// Allocates the block at `pfn`, which must be free.
fn take_block(engine: &Engine<'_, '_>, pfn: u32, order: u8, gfp: Gfp) {
    let taken = engine.isolate_free_page(Pfn::new(pfn), Order::new(order), gfp);
    assert_eq!(taken, Ok(true), "block {pfn} is free");
}

/// Sets up a block of every kind at its place.
fn settle(engine: &Engine<'_, '_>) {
    take_block(engine, PAGE, 0, Gfp::KERNEL);
    take_block(engine, MOVABLE, 0, Gfp::HIGHUSER_MOVABLE);
    let frozen = Pfn::new(FROZEN)..Pfn::new(FROZEN + 32);
    engine.alloc_contig_frozen_range(frozen, Gfp::KERNEL).expect("the range must be free");
    take_block(engine, COMPOUND, 4, Gfp::KERNEL | Gfp::COMP);
    take_block(engine, SHARED, 3, Gfp::KERNEL);
    engine.get_page(Pfn::new(SHARED)).expect("the test holds this block");
    take_block(engine, COUNTED_OUT, 0, Gfp::KERNEL);
    let mut state = State::Allocated {
        order: Order::ZERO,
        refs: u32::MAX,
        movable: false,
        compound: false,
        poisoned: false,
        slab: false,
    };
    engine.damage().set_state(Pfn::new(COUNTED_OUT), state);
    take_block(engine, SLAB, 2, Gfp::KERNEL);
    if let State::Allocated { order, refs, slab, .. } = &mut state {
        (*order, *refs, *slab) = (Order::new(2), 0, true);
    }
    engine.damage().set_state(Pfn::new(SLAB), state);
    take_block(engine, POISONED, 3, Gfp::KERNEL);
    engine.poison(Pfn::new(POISONED + 2)).expect("the frames must be online");
    engine.poison(Pfn::new(WITHHELD)).expect("the frames must be online");
    take_block(engine, LENT, 0, Gfp::HIGHUSER_MOVABLE);
    // Leaves some pages on this CPU's lists. Under policies in which CPUs own pageblocks, this CPU then owns some.
    let pages = [(); 3].map(|()| engine.alloc_pages(Gfp::KERNEL, Order::ZERO).expect("enough memory must be free"));
    pages.into_iter().for_each(|page| engine.free_pages(page, Order::ZERO).expect("the test holds these pages"));
}
