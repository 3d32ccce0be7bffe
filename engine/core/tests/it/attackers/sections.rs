//! The table of sections. Each pointer in it is offset to below its array by the number of the section's first frame.
//! The memory here is small enough for Miri to check every pointer. It starts at a high frame number, and only the
//! second section of the table comes online.

use freehold::base::{Gfp, Order, Pfn, ZoneKind};
use freehold::page::{Config, MinFree};
use freehold::platform::host::run_on_cpu;

use crate::attackers::machine::{Memory, build, range};

/// First frame of the table, and first frame of the section that comes online.
const FIRST: u32 = 0xf000_0000;
const SECOND: u32 = FIRST + (1 << 15);

#[test]
fn metadata_sections_are_found_from_any_frame() {
    run_on_cpu(freehold::base::CpuId(0));
    let config = Config {
        first: Pfn::new(FIRST),
        end: Pfn::new(SECOND + 1024),
        pageblock_order: Order::new(5),
        ..Config::default()
    };
    let ranges = [range(ZoneKind::Normal, 0, SECOND + 32, SECOND + 1000)];
    let mut memory = Memory::new(&config, &ranges);
    let (engine, _) = build(&config, &ranges, &mut memory);
    engine.release(Pfn::new(SECOND + 32), Pfn::new(SECOND + 500)).expect("the frames must be Reserved");
    engine.set_up_watermarks(MinFree::Pages(8));
    let map = *engine.map();
    for pfn in [0, FIRST - 1, FIRST, SECOND - 1, SECOND + 1024, u32::MAX].map(Pfn::new) {
        assert!(map.try_frame(pfn).is_none() && map.block_around(pfn).is_none() && engine.state(pfn).is_none());
        engine.free_pages(pfn, Order::ZERO).expect_err("the block is not allocated, so the call must fail");
    }
    assert_eq!(map.pageblocks().count(), 32);
    let slices = map.frames(&(Pfn::new(SECOND)..Pfn::new(SECOND + 1024)));
    assert_eq!(slices.flatten().filter(|frame| !frame.word().is_absent()).count(), 968);
    let block = engine.alloc_pages(Gfp::KERNEL, Order::new(2)).expect("enough memory must be free");
    engine.split_page(block, Order::new(2)).expect("the test holds these pages");
    engine.free_contig_range(block..block.offset(4)).expect("the test holds these pages");
    engine
        .offline(Pfn::new(SECOND + 480)..Pfn::new(SECOND + 1000))
        .expect("the range must be free to be taken offline");
    engine
        .online(&range(ZoneKind::Movable, 0, SECOND + 992, SECOND + 1024), &mut [])
        .expect("the range is offline, so it can be onlined");
    engine.check().expect("the check must find no error");
    drop(engine);
    assert_eq!(
        map.frames_max(),
        u64::from(FIRST)..u64::from(SECOND + 1024),
        "the map must keep its sections after the engine is dropped"
    );
    assert!(map.try_frame(Pfn::new(SECOND)).is_some());
}
