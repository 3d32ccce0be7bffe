//! Setup of an allocator: configurations that are refused, memory that comes online in parts, frames that are adopted.

use core::mem::MaybeUninit;

use freehold::base::{CpuId, Gfp, NodeId, Order, Pfn, State, ZoneKind};
use freehold::page::{Config, ConfigError, MinFree, Mobility, OnlineError, PageAllocator, Range};
use freehold::platform::host::Solo;
use freehold::platform::{NoProbe, Platform};
use freehold::policy::{Numbers, Policy};

use crate::common::{Host, Memory, build, range, with_machine};

const SMALL: Config<'static> = Config {
    cpu_nodes: &[NodeId(0)],
    distances: &[],
    nodes: 1,
    first: Pfn::new(0),
    end: Pfn::new(1 << 16),
    page_size: 4096,
    pageblock_order: Order::new(9),
    cache_slice: 512,
    policy: Policy::LINUX_6_12,
};

fn refusal(config: &Config<'_>) -> Option<ConfigError> {
    let mut metadata = vec![MaybeUninit::uninit(); 1 << 20];
    PageAllocator::new(Host::default(), config, &mut metadata).err()
}

#[test]
fn invalid_configurations_are_errors() {
    assert_eq!(refusal(&SMALL), None);
    assert_eq!(refusal(&Config { cpu_nodes: &[], ..SMALL }), Some(ConfigError::Cpus));
    assert_eq!(refusal(&Config { nodes: 0, ..SMALL }), Some(ConfigError::Nodes));
    assert_eq!(refusal(&Config { cpu_nodes: &[NodeId(1)], ..SMALL }), Some(ConfigError::Nodes));
    assert_eq!(refusal(&Config { distances: &[10, 20], ..SMALL }), Some(ConfigError::Nodes));
    assert_eq!(refusal(&Config { page_size: 512, ..SMALL }), Some(ConfigError::PageSize));
    assert_eq!(refusal(&Config { page_size: 5000, ..SMALL }), Some(ConfigError::PageSize));
    assert_eq!(refusal(&Config { pageblock_order: Order::new(2), ..SMALL }), Some(ConfigError::PageblockOrder));
}

#[test]
fn metadata_of_the_reported_size_is_sufficient() {
    let layout = SMALL.metadata_layout::<Host<'_>>();
    let mut bytes = vec![MaybeUninit::uninit(); layout.size() + layout.align()];
    let start = bytes.as_ptr().align_offset(layout.align());
    let enough = PageAllocator::new(Host::default(), &SMALL, &mut bytes[start..start + layout.size()]);
    assert!(enough.is_ok());
    drop(enough);
    let short = PageAllocator::new(Host::default(), &SMALL, &mut bytes[start..start + layout.size() - 200]);
    assert_eq!(short.err(), Some(ConfigError::Metadata));
}

/// Returns the range of frames `[start, end)` in the Normal zone of node 0.
fn normal(start: u32, end: u32) -> Range {
    range(ZoneKind::Normal, 0, start, end)
}

fn not_reserved(pfn: u32) -> Result<(), OnlineError> {
    Err(OnlineError::NotReserved { pfn: Pfn::new(pfn) })
}

#[test]
fn invalid_ranges_are_errors() {
    let memory = [normal(0, 1024 + 100)];
    let mut metadata = Memory::new(&SMALL, &memory);
    let engine = build(&SMALL, &memory, &mut metadata);
    for wrong in [normal(64, 64), normal(0, (1 << 16) + 1), range(ZoneKind::Normal, 1, 0, 64)] {
        assert_eq!(engine.online(&wrong, &mut []), Err(OnlineError::Range), "empty, too long, or on no node");
    }
    let new_section = normal(1 << 15, (1 << 15) + 64);
    assert_eq!(
        engine.online(&new_section, &mut []),
        Err(OnlineError::Metadata),
        "a new section needs memory for its metadata"
    );
    let shared = OnlineError::SharedPageblock { pfn: Pfn::new(1024) };
    assert_eq!(engine.online(&range(ZoneKind::Movable, 0, 1200, 1300), &mut []), Err(shared));
    let old_section = range(ZoneKind::Movable, 0, 1536, 2048);
    assert_eq!(engine.online(&old_section, &mut []), Ok(()), "the section already exists, so it needs no metadata");

    assert_eq!(engine.release(Pfn::new(0), Pfn::new(512)), Ok(()));
    assert_eq!(engine.release(Pfn::new(500), Pfn::new(600)), not_reserved(500), "released twice");
    assert_eq!(engine.release(Pfn::new(1 << 15), Pfn::new((1 << 15) + 1)), not_reserved(1 << 15), "never online");
    assert_eq!(engine.adopt(Pfn::new(3), Order::ZERO, Mobility::Fixed), not_reserved(3));
    assert_eq!(engine.adopt(Pfn::new(514), Order::new(2), Mobility::Fixed), Err(OnlineError::Range), "not aligned");
    engine.check().expect("the check must find no error after a refused call");
}

#[test]
fn each_adopted_page_is_as_movable_as_requested() {
    let ranges = [normal(0, 512)];
    let mut memory = Memory::new(&SMALL, &ranges);
    let engine = build(&SMALL, &ranges, &mut memory);
    for (start, mobility, is_movable) in [(16, Mobility::Movable, true), (32, Mobility::Fixed, false)] {
        engine.adopt_each(Pfn::new(start), Pfn::new(start + 16), mobility).expect("the frames are Reserved");
        for pfn in (start..start + 16).map(Pfn::new) {
            let state = engine.state(pfn);
            let is_page =
                matches!(state, Some(State::Allocated { order: Order::ZERO, movable, .. }) if movable == is_movable);
            assert!(is_page, "{pfn}: {state:?}");
        }
    }
    engine.check().expect("the check must find no error");
}

#[test]
fn adopted_frames_are_allocated_and_freeable() {
    let memory = [range(ZoneKind::Normal, 0, 0, 4096)];
    let mut metadata = Memory::new(&SMALL, &memory);
    let engine = build(&SMALL, &memory, &mut metadata);
    let order = Order::new(4);
    engine.adopt(Pfn::new(16), order, Mobility::Movable).expect("the frames are Reserved");
    let state = State::Allocated { order, refs: 1, movable: true, compound: false, poisoned: false, slab: false };
    assert_eq!(engine.state(Pfn::new(16)), Some(state));
    assert_eq!(engine.allocated_block(Pfn::new(20)), Some((Pfn::new(16), order)));
    assert_eq!(engine.check().expect("the check must find no error").allocated, 16);
    engine.free_pages(Pfn::new(16), order).expect("the block is allocated");
    let census = engine.check().expect("the check must find no error");
    assert_eq!((census.free, census.allocated), (16, 0));
    assert_eq!(engine.zone(NodeId(0), ZoneKind::Normal).managed(), 16);
}

/// Allocates every page, and returns their number.
fn take_all_pages(engine: &PageAllocator<'_, Host<'_>>) -> usize {
    core::iter::from_fn(|| engine.alloc_pages(Gfp::NOWAIT | Gfp::MEMALLOC, Order::ZERO).ok()).count()
}

#[test]
fn later_onlined_memory_is_allocatable() {
    let (early, late) = (range(ZoneKind::Normal, 0, 0, 1 << 12), range(ZoneKind::Normal, 0, 1 << 15, 1 << 16));
    let mut first = Memory::new(&SMALL, &[early]);
    let engine = build(&SMALL, &[early], &mut first);
    let layout = engine.online_layout(&late);
    let mut second = vec![MaybeUninit::uninit(); layout.size() + layout.align()];
    engine.release(early.start, early.end).expect("the range is online");
    engine.set_up_watermarks(MinFree::Pages(0));
    let before = take_all_pages(&engine);
    assert!(before <= 1 << 12);
    engine.online(&late, &mut second).expect("the memory must suffice for the metadata");
    engine.release(late.start, late.end).expect("the range is online");
    engine.set_up_watermarks(MinFree::Pages(0));
    assert_eq!(engine.zone(NodeId(0), ZoneKind::Normal).span(), (early.start, late.end));
    assert_eq!(before + take_all_pages(&engine), (1 << 12) + (1 << 15));
    engine.check().expect("the check must find no error");
}

#[test]
fn cpu_on_a_memoryless_node_uses_the_nearest_node() {
    let cpu_nodes = [NodeId(0), NodeId(1), NodeId(2)];
    let config = Config { cpu_nodes: &cpu_nodes, nodes: 3, distances: &[10, 20, 40, 20, 10, 15, 40, 15, 10], ..SMALL };
    let memory = [range(ZoneKind::Normal, 0, 0, 2048), range(ZoneKind::Normal, 2, 2048, 4096)];
    with_machine(&config, &memory, MinFree::Pages(16), |engine| {
        for (cpu, home) in [(0, 0..2048), (1, 2048..4096), (2, 2048..4096)] {
            engine.platform().run_on(cpu);
            let page = engine.alloc_pages(Gfp::KERNEL, Order::ZERO).expect("enough memory must be free");
            assert!(home.contains(&page.raw()), "CPU {cpu} got page {page}");
            let local = engine.alloc_pages(Gfp::KERNEL | Gfp::THISNODE, Order::ZERO);
            assert_eq!(local.is_ok(), cpu != 1, "only node 1 has no memory");
        }
    });
}

/// A platform whose allocators always follow the rules of the pinned kernel.
struct Pinned(Solo);

impl Platform for Pinned {
    type Lock = <Solo as Platform>::Lock;
    type Probe = NoProbe;

    const POLICY: Option<Policy> = Some(Policy::LINUX_6_12);

    fn probe(&self) -> &NoProbe {
        self.0.probe()
    }

    fn cpu(&self) -> CpuId {
        self.0.cpu()
    }
}

/// Builds an allocator with this policy on the pinned platform, and returns the policy that the allocator uses.
fn policy_on_pinned(policy: Policy) -> Result<Policy, ConfigError> {
    let mut metadata = vec![MaybeUninit::uninit(); 1 << 20];
    let engine = PageAllocator::new(Pinned(Solo::new(NoProbe)), &Config { policy, ..SMALL }, &mut metadata)?;
    Ok(*engine.policy())
}

/// A platform with fixed rules refuses a configuration with other rules. The numbers still come from the configuration.
#[test]
fn platform_with_fixed_rules_rejects_other_policies() {
    assert_eq!(policy_on_pinned(Policy::FREEHOLD), Err(ConfigError::Policy));
    let numbers = Numbers { pcp_batch: Some(7), ..Numbers::default() };
    let policy = Policy { numbers, ..Policy::LINUX_6_12 };
    assert_eq!(policy_on_pinned(policy), Ok(policy));
}
