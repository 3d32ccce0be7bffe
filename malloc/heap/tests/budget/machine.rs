//! A machine whose parts begin on a page each, so that they share lines in the same way wherever they lie.

use std::alloc::Layout;
use std::mem::{MaybeUninit, size_of_val};
use std::ops::Range;

use freehold::base::{CpuId, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Config, MinFree, PageAllocator, Range as Frames};
use freehold::platform::NoProbe;
use freehold::platform::host::Threads;
use freehold::policy::{PcpPolicy, Policy};

/// The engine on threads, with spin locks, and nobody who listens.
pub(crate) type Engine<'m> = PageAllocator<'m, Threads<NoProbe>>;

/// Frames of 4 GiB: a CPU's list of them has room for a huge page.
const FRAMES: u32 = 1 << 20;
/// Frames whose metadata lies together.
const SECTION: Order = Order::new(10);
/// Bytes of a page, and what the parts are aligned to.
const PAGE: usize = 4096;

/// What begins on a page of its own.
#[repr(align(4096))]
pub(crate) struct Apart<T>(pub T);

/// Addresses of a thing, and what it is called.
pub(crate) type Place = (&'static str, Range<u64>);

/// Hands `run` an engine with two CPUs, under this policy of per-CPU lists.
pub(crate) fn with_engine<R>(pcp: PcpPolicy, run: impl FnOnce(&Engine<'_>) -> R) -> R {
    let policy = Policy { pcp, ..Policy::FREEHOLD };
    let config = Config { cpu_nodes: &[NodeId(0); 2], end: Pfn::new(FRAMES), policy, ..Config::default() };
    let range = Frames { start: Pfn::new(0), end: Pfn::new(FRAMES), node: NodeId(0), kind: ZoneKind::Normal };
    let (mut fixed, mut frames) = (Vec::new(), Vec::new());
    let fixed = align_to_page(&mut fixed, config.metadata_layout::<Threads<NoProbe>>());
    let engine = PageAllocator::new(Threads::default(), &config, fixed).expect("it is valid");
    let engine = Box::new(Apart(engine));
    engine.0.online(&range, align_to_page(&mut frames, engine.0.online_layout(&range))).expect("it is valid");
    engine.0.release(range.start, range.end).expect("it is online");
    engine.0.set_up_watermarks(MinFree::BySize);
    run(&engine.0)
}

/// Room for so many bytes, from the first that begins a page.
fn align_to_page(room: &mut Vec<MaybeUninit<u8>>, layout: Layout) -> &mut [MaybeUninit<u8>] {
    room.resize(layout.size() + PAGE, MaybeUninit::uninit());
    let skipped = room.as_ptr().align_offset(PAGE);
    &mut room[skipped..skipped + layout.size()]
}

/// Where an engine has what it has, around a page.
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

/// From the first byte of one thing to the last of another.
fn extent<T>(first: &T, last: &T) -> Range<u64> {
    let [start, last_start] = [first, last].map(|thing| (&raw const *thing).addr() as u64);
    start..last_start + size_of_val(last) as u64
}
