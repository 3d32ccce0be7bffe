//! A machine whose parts start at page boundaries, so that their cache lines do not depend on their addresses.

use std::alloc::Layout;
use std::mem::{MaybeUninit, size_of_val};
use std::ops::Range;

use freehold::base::{CpuId, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Config, MinFree, PageAllocator, Range as Frames};
use freehold::platform::NoProbe;
use freehold::platform::host::Threads;
use freehold::policy::{PcpPolicy, Policy};

/// The engine on threads, with spin locks and without a probe.
pub(crate) type Engine<'m> = PageAllocator<'m, Threads<NoProbe>>;

/// Frames of 4 GiB. With this size a CPU's list has room for a huge page.
const FRAMES: u32 = 1 << 20;
/// Frames whose metadata is contiguous.
const SECTION: Order = Order::new(10);
/// Bytes of a page, and the alignment of the parts.
const PAGE: usize = 4096;

/// A value that starts at a page boundary.
#[repr(align(4096))]
pub(crate) struct Apart<T>(pub T);

/// Name of a part, and its address range.
pub(crate) type Place = (&'static str, Range<u64>);

/// Calls `run` with an engine of two CPUs, under a policy of per-CPU lists.
pub(crate) fn with_engine<R>(pcp: PcpPolicy, run: impl FnOnce(&Engine<'_>) -> R) -> R {
    let policy = Policy { pcp, ..Policy::FREEHOLD };
    let config = Config { cpu_nodes: &[NodeId(0); 2], end: Pfn::new(FRAMES), policy, ..Config::default() };
    let range = Frames { start: Pfn::new(0), end: Pfn::new(FRAMES), node: NodeId(0), kind: ZoneKind::Normal };
    let (mut fixed, mut frames) = (Vec::new(), Vec::new());
    let fixed = align_to_page(&mut fixed, config.metadata_layout::<Threads<NoProbe>>());
    let engine =
        PageAllocator::new(Threads::default(), &config, fixed).expect("the configuration and the memory must be valid");
    let engine = Box::new(Apart(engine));
    engine
        .0
        .online(&range, align_to_page(&mut frames, engine.0.online_layout(&range)))
        .expect("the configuration and the memory must be valid");
    engine.0.release(range.start, range.end).expect("the frames must be online");
    engine.0.set_up_watermarks(MinFree::BySize);
    run(&engine.0)
}

/// Returns room for a layout, starting at the first page boundary.
fn align_to_page(room: &mut Vec<MaybeUninit<u8>>, layout: Layout) -> &mut [MaybeUninit<u8>] {
    room.resize(layout.size() + PAGE, MaybeUninit::uninit());
    let skipped = room.as_ptr().align_offset(PAGE);
    &mut room[skipped..skipped + layout.size()]
}

/// Returns the address ranges of an engine's parts, as far as they concern a page.
pub(crate) fn places(engine: &Engine<'_>, page: Pfn) -> Vec<Place> {
    let zone = engine.zone(NodeId(0), ZoneKind::Normal);
    let [here, there] = [CpuId(0), CpuId(1)].map(|cpu| engine.pcp(cpu, zone));
    let frames = page.align_down(SECTION)..page.align_down(SECTION).offset(SECTION.pages() - 1);
    let map = engine.map();
    vec![
        ("CPU 0's lists and its stack", extent(here, here)),
        ("CPU 1's lists", extent(there, there)),
        ("the zone", extent(zone, zone)),
        ("frames", extent(map.frame(frames.start), map.frame(frames.end))),
        ("pageblocks", extent(map.pageblock(frames.start), map.pageblock(frames.end))),
        ("the allocator", extent(engine, engine)),
    ]
}

/// Returns the range from the first byte of one value to the last byte of another.
fn extent<T>(first: &T, last: &T) -> Range<u64> {
    let [start, last_start] = [first, last].map(|thing| (&raw const *thing).addr() as u64);
    start..last_start + size_of_val(last) as u64
}
