//! Configurations with every field at its limits. Each is either refused with an error, or builds a machine that works.
//! The computation of the metadata layout never panics, however wrong the configuration is.

use freehold::Policy;
use freehold::base::{CpuId, Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Config, MinFree};
use freehold::platform::host::run_on_cpu;
use freehold::policy::Numbers;

use crate::attackers::machine::{Host, Memory, build, range};
use crate::attackers::races::PCP;

const SMALL: Config<'static> = Config {
    cpu_nodes: &[NodeId(0), NodeId(0)],
    distances: &[],
    nodes: 1,
    first: Pfn::new(0),
    end: Pfn::new(4096),
    page_size: 4096,
    pageblock_order: Order::new(5),
    cache_slice: 512,
    policy: Policy::FREEHOLD,
};

/// Builds the machine of a valid configuration, and uses all of its memory.
fn try_out(config: &Config<'_>, what: &str) {
    run_on_cpu(CpuId(0));
    let start = config.first.raw().next_multiple_of(1024);
    let ranges = [range(ZoneKind::Normal, 0, start, start + 1024)];
    let mut memory = Memory::new(config, &ranges);
    let (engine, _) = build(config, &ranges, &mut memory);
    engine.release(Pfn::new(start), Pfn::new(start + 1024)).expect("the frames must be Reserved");
    engine.set_up_watermarks(MinFree::Pages(16));
    for (order, cpu) in [(0, 0), (3, 1), (10, 0), (0, 1)] {
        let order = Order::new(order);
        let blocks: Vec<_> =
            core::iter::from_fn(|| engine.alloc_pages(Gfp::KERNEL | Gfp::NOWAIT, order).ok()).collect();
        run_on_cpu(CpuId(cpu));
        blocks.into_iter().for_each(|block| engine.free_pages(block, order).expect("the test holds these pages"));
        engine.cpu_ids().for_each(|cpu| engine.decay_pcp(cpu, engine.zone(NodeId(0), ZoneKind::Normal)));
        engine.check().unwrap_or_else(|violation| panic!("{what}: {violation}"));
        engine.drain_all_pages();
    }
    let census = engine.check().unwrap_or_else(|violation| panic!("{what}: {violation}"));
    assert_eq!(census.free, 1024, "{what}");
}

#[test]
fn extreme_policy_numbers_are_safe() {
    type Set = fn(&mut Numbers, u32);
    let numbers: [(&str, Set); 7] = [
        ("pcp_batch", |numbers, value| numbers.pcp_batch = Some(value)),
        ("pcp_high_fraction", |numbers, value| numbers.pcp_high_fraction = Some(value)),
        ("pcp_free_high", |numbers, value| numbers.pcp_free_high = Some(value)),
        ("watermark_scale_factor", |numbers, value| numbers.watermark_scale_factor = Some(value)),
        ("watermark_boost_factor", |numbers, value| numbers.watermark_boost_factor = Some(value)),
        ("compaction_extfrag_threshold", |numbers, value| numbers.compaction_extfrag_threshold = Some(value)),
        ("compaction_proactiveness", |numbers, value| numbers.compaction_proactiveness = Some(value)),
    ];
    for pcp in PCP {
        for (name, set) in numbers {
            for value in [0, 1, 1 << 20, 1 << 27, u32::MAX / 4, u32::MAX] {
                let mut policy = Policy { pcp, ..Policy::FREEHOLD };
                set(&mut policy.numbers, value);
                try_out(&Config { policy, ..SMALL }, &format!("{pcp:?}, {name} of {value}"));
            }
        }
    }
}

#[test]
fn extreme_config_fields_are_safe() {
    let nodes: Vec<NodeId> = (0..63).map(NodeId).collect();
    let distances = vec![255; 63 * 63];
    let configs = [
        ("pageblocks of order 3", Config { pageblock_order: Order::new(3), ..SMALL }),
        ("pageblocks of order 10", Config { pageblock_order: Order::MAX, ..SMALL }),
        ("small pages", Config { page_size: 1024, ..SMALL }),
        ("huge pages", Config { page_size: 1 << 31, ..SMALL }),
        ("no cache", Config { cache_slice: 0, ..SMALL }),
        ("a large cache", Config { cache_slice: u32::MAX, ..SMALL }),
        ("memory that starts high", Config { first: Pfn::new(2047), ..SMALL }),
        ("memory at the end", Config { first: Pfn::new(0xffff_f000), end: Config::END_MAX, ..SMALL }),
        ("63 nodes", Config { nodes: 63, cpu_nodes: &nodes, distances: &distances, ..SMALL }),
    ];
    configs.iter().for_each(|(what, config)| try_out(config, what));
}

#[test]
fn invalid_configurations_are_errors_without_panics() {
    let many = vec![NodeId(0); 65_536];
    let wrong = [
        Config { cpu_nodes: &[], ..SMALL },
        Config { cpu_nodes: &many, ..SMALL },
        Config { cpu_nodes: &[NodeId(255)], ..SMALL },
        Config { nodes: 0, ..SMALL },
        Config { nodes: 64, ..SMALL },
        Config { distances: &[1; 3], ..SMALL },
        Config { page_size: 0, ..SMALL },
        Config { page_size: u32::MAX, ..SMALL },
        Config { pageblock_order: Order::ZERO, ..SMALL },
        Config { first: Pfn::new(4096), ..SMALL },
        Config { first: Pfn::new(u32::MAX), end: Pfn::new(0), ..SMALL },
        Config { end: Pfn::new(u32::MAX), ..SMALL },
        Config { first: Pfn::new(u32::MAX), end: Pfn::new(u32::MAX), ..SMALL },
    ];
    for (at, config) in wrong.iter().enumerate() {
        let layout = config.metadata_layout::<Host<'_>>();
        for (start, end) in [(0, 1), (0, u32::MAX), (u32::MAX, 0), (u32::MAX - 1, u32::MAX)] {
            _ = config.online_layout(&(Pfn::new(start)..Pfn::new(end)));
        }
        let mut bytes: Box<[core::mem::MaybeUninit<u8>]> = Box::new_uninit_slice(layout.size().min(1 << 24));
        let refusal = freehold::PageAllocator::new(Host::default(), config, &mut bytes);
        assert!(refusal.is_err(), "configuration {at} is wrong");
    }
}
