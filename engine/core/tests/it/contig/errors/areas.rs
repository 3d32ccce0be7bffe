//! CMA areas that cannot be reserved.

use freehold::base::{Gfp, MigrateType, Order, Pfn, State, ZoneKind};
use freehold::page::{CmaError, MinFree, RangeError};

use crate::common::picture::Picture;
use crate::common::{self, Memory, range};
use crate::contig::errors::{empty_at, misaligned, out_of_range};
use crate::contig::scene::{BOTH, bitmap, config, state};
use crate::contig::span;

#[test]
fn cma_area_needs_unused_pageblocks_of_one_zone() {
    let config = config(BOTH[1]);
    let ranges = [range(ZoneKind::Dma32, 0, 0, 4096), range(ZoneKind::Normal, 0, 4096, 16384)];
    let mut memory = Memory::new(&config, &ranges);
    let mut bitmaps: Vec<_> = (0..16).map(|_| bitmap(8192, 0)).collect();
    let mut tiny = [core::mem::MaybeUninit::uninit(); 7];
    let mut rooms = bitmaps.iter_mut();
    let engine = common::build(&config, &ranges, &mut memory);
    let room = rooms.next().expect("enough memory must be left for the metadata");
    let area = engine.reserve_cma(span(8192, 10240), Order::ZERO, room).expect("the area can be reserved");
    engine.release(Pfn::new(12288), Pfn::new(12800)).expect("the frames must be online");
    engine.set_up_watermarks(MinFree::Pages(64));
    assert_eq!(area.range(), span(8192, 10240));
    assert_eq!((area.allocated(), engine.zones()[2].cma(), engine.zones()[2].free_cma()), (0, 2048, 2048));
    let before = Picture::take(&engine);
    let taken = [8192, 9728, 12288].map(|pfn| CmaError::NotReserved { pfn: Pfn::new(pfn), state: state(&engine, pfn) });
    let crosses = RangeError::CrossesZone { pfn: Pfn::new(4096), state: State::Reserved };
    for (start, end, order, error) in [
        (8192, 8192, 0, CmaError::Range(empty_at(8192))),
        (8192, 8191, 0, CmaError::Range(empty_at(8192))),
        (16384, 16896, 0, CmaError::Range(out_of_range(16384))),
        (15872, 16896, 0, CmaError::Range(out_of_range(16384))),
        (3584, 4608, 0, CmaError::Range(crosses)),
        (5000, 6144, 0, CmaError::Range(misaligned(5000, 512))),
        (5120, 6000, 0, CmaError::Range(misaligned(6000, 512))),
        (4608, 6144, 10, CmaError::Range(misaligned(4608, 1024))),
        // Overlaps with an existing area: the whole area, and either end. A common border is no overlap.
        (8192, 10240, 0, taken[0]),
        (7680, 8704, 0, taken[0]),
        (9728, 10752, 0, taken[1]),
        // Memory that is already released.
        (11776, 13312, 0, taken[2]),
    ] {
        let room = rooms.next().expect("enough memory must be left for the metadata");
        let refusal = engine.reserve_cma(span(start, end), Order::new(order), room).err();
        assert_eq!(refusal, Some(error), "{start}..{end} by {order}");
        before.expect(&engine, &format!("{start}..{end}: {error}"));
    }
    assert_eq!(engine.reserve_cma(span(5120, 6144), Order::ZERO, &mut tiny).err(), Some(CmaError::Metadata));
    before.expect(&engine, "a bitmap without room");
    for (start, end, order) in [(7680, 8192, 0), (10240, 10752, 9)] {
        let room = rooms.next().expect("enough memory must be left for the metadata");
        engine.reserve_cma(span(start, end), Order::new(order), room).expect("a neighbour of an area");
    }
    for block in (7680..10752).step_by(512) {
        assert_eq!(engine.map().pageblock(Pfn::new(block)).migratetype(), MigrateType::Cma);
    }
    let last = engine.cma_alloc(&area, 2048, 1, Gfp::KERNEL).expect("the area must be free");
    assert_eq!((last, state(&engine, 10240)), (Pfn::new(8192), state(&engine, 10240)));
    engine.check().expect("the check must find no error");
}
