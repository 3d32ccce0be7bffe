//! Boundary values of the arguments of `init` and `add_memory`.

use std::ops::Range;

use freehold::base::{Gfp, Order, ZoneKind};
use freehold::kernel::{Boot, Cpu, Region, RegionKind, SetupError};
use freehold::page::OnlineError;

use super::{END, END_MAX, Hw, set_up};
use crate::kernel::machine::{Equipped, Hooks, MIB, Machine, PagesAlone, audit, init, install};

/// Sets up a machine of 32 MiB, uses it, and checks it; or returns the error.
fn try_boot(map: &[Region], boot: &Boot<'_>) -> Result<(), SetupError> {
    install::<Equipped>(Hooks::default());
    init::<Equipped>(map, 32, boot)?;
    let before = audit::<Equipped>();
    for order in [Order::ZERO, Order::new(5)] {
        drop(Hw::kernel().alloc_pages(Gfp::KERNEL, order));
    }
    let cache = Hw::kernel().cache::<u64>("numbers");
    drop(cache.as_ref().map(|cache| cache.alloc(1, Gfp::KERNEL)));
    drop(cache);
    assert_eq!(audit::<Equipped>(), before);
    Ok(())
}

#[test]
fn limits_of_zones() {
    let map = [Region::usable(0, 32 * MIB)];
    let zones = |dma_end, dma32_end| try_boot(&map, &Boot { dma_end, dma32_end, ..Boot::default() });
    for (dma_end, dma32_end) in [
        (0, 0),
        (1, 1),
        (0, u64::MAX),
        (u64::MAX, u64::MAX),
        (u64::MAX, 0),
        (32 * MIB, 8 * MIB),
        (16 * MIB, 8 * MIB),
        (4 * MIB, 4 * MIB),
        (u64::MAX - 1, 1),
    ] {
        assert_eq!(zones(dma_end, dma32_end), Ok(()), "zones that end at {dma_end:#x} and {dma32_end:#x}");
    }
    // A limit inside a pageblock would put it into two zones.
    for dma_end in [4 * MIB + 1, 4 * MIB + 4096, 5 * MIB, 6 * MIB] {
        let result = zones(dma_end, 16 * MIB);
        let is_clear = matches!(result, Ok(()) | Err(SetupError::Online(OnlineError::SharedPageblock { .. })));
        assert!(is_clear, "a zone that ends at {dma_end:#x}: {result:?}");
    }
}

/// The zone DMA32 is empty if its end is below that of zone DMA.
#[test]
fn limit_of_dma32_below_that_of_dma() {
    install::<Equipped>(Hooks::default());
    let boot = Boot { dma_end: 16 * MIB, dma32_end: 8 * MIB, ..Boot::default() };
    init::<Equipped>(&[Region::usable(0, 32 * MIB)], 32, &boot).unwrap();
    // SAFETY: the zones are only read.
    let zones = unsafe { Hw::kernel().pages() }.unwrap().zones();
    let present =
        |kind| zones.iter().filter(|zone| zone.kind() == kind).map(freehold::page::Zone::present).sum::<u64>();
    assert_eq!((present(ZoneKind::Dma), present(ZoneKind::Dma32), present(ZoneKind::Normal)), (4095, 0, 4096));
}

#[test]
fn odd_memory_maps() {
    let odd = |start, end| Region { start, end, kind: RegionKind::Usable };
    let rest = Region::usable(4 * MIB, 28 * MIB);
    let pages: Vec<Region> = (0..200).map(|at| Region::usable(8192 * at, 4096)).chain([rest]).collect();
    let one_byte_short = [odd(4 * MIB + 1, 32 * MIB - 1)];
    let maps: [&[Region]; 8] = [
        &[odd(1, 32 * MIB)],
        &one_byte_short,
        &[rest, rest, rest],
        &[Region::usable(u64::MAX, u64::MAX), rest],
        &[odd(u64::MAX - 1, u64::MAX), rest],
        &[Region::usable(1 << 44, 1 << 20), Region::reserved(0, 4 * MIB), rest],
        &[Region::reserved(u64::MAX, 0), Region::usable(0, 0), rest],
        &pages,
    ];
    for (at, map) in maps.iter().enumerate() {
        assert_eq!(try_boot(map, &Boot::default()), Ok(()), "map {at}");
    }
    let whole = [Region::usable(0, 32 * MIB)];
    for reserved in [0..u64::MAX, 0..32 * MIB, 1..32 * MIB] {
        let boot = Boot { reserved: std::slice::from_ref(&reserved), ..Boot::default() };
        assert_eq!(try_boot(&whole, &boot), Err(SetupError::NoMemory));
    }
    for reserved in [0..0, u64::MAX..u64::MAX, 5 * MIB..5 * MIB, 32 * MIB..u64::MAX, 0..1] {
        let boot = Boot { reserved: std::slice::from_ref(&reserved), ..Boot::default() };
        assert_eq!(try_boot(&whole, &boot), Ok(()), "{reserved:?} is reserved");
    }
}

#[test]
fn limits_of_later_memory_and_seeds() {
    let map = [Region::usable(0, 32 * MIB)];
    for end_max in [0, 1, 4095, 32 * MIB - 1, 33 * MIB, 33 * MIB + 1] {
        for seed in [0, 1, u64::MAX] {
            assert_eq!(try_boot(&map, &Boot { end_max, seed, ..Boot::default() }), Ok(()), "{end_max:#x}, seed {seed}");
        }
    }
    // All memory that has a frame number may be added later. That costs a table of sections only.
    for end_max in [u64::MAX, u64::MAX - 1, 1 << 44] {
        assert_eq!(try_boot(&map, &Boot { end_max, ..Boot::default() }), Ok(()), "{end_max:#x}");
    }
}

/// The direct map must begin at a multiple of the largest block.
#[test]
fn unaligned_direct_maps() {
    install::<PagesAlone>(Hooks::default());
    for direct_map in [1, 4096, (4 << 20) - 1, (4 << 20) + 1, usize::MAX, usize::MAX - 4095] {
        let boot = Boot { direct_map, ..Boot::default() };
        // SAFETY: `init` refuses the offset before it uses the memory.
        let refused = unsafe { Machine::<PagesAlone>::kernel().init([Region::usable(0, 32 * MIB)], &boot) };
        assert_eq!(refused, Err(SetupError::DirectMap { largest: 4 << 20 }));
    }
}

/// Adds memory. The call is refused unless the range is between the end of memory and the limit for added memory.
fn add(range: Range<u64>) -> Result<u32, SetupError> {
    // SAFETY: the machine of `set_up` has 64 MiB, so all memory that may be added is mapped, and nothing else uses it.
    unsafe { Hw::kernel().add_memory(range) }
}

#[test]
fn limits_of_added_memory() {
    let fixture = set_up();
    let (end, end_max) = (u64::from(END) << 12, u64::from(END_MAX) << 12);
    let before = (audit::<Equipped>(), fixture.kernel.stats());
    let last = u64::MAX - (2 * MIB - 1);
    for range in [0..0, end..end, end..end - 2 * MIB, last..0, last..2 * MIB] {
        assert!(matches!(add(range.clone()), Err(SetupError::Backwards { .. })), "{range:x?}");
    }
    for range in [1..end_max, end..end_max - 1, end + 4096..end_max, 0..u64::MAX, 1..last] {
        assert!(matches!(add(range.clone()), Err(SetupError::Misaligned { .. })), "{range:x?}");
    }
    let outside = SetupError::Online(OnlineError::Range);
    for range in [end_max..end_max + 2 * MIB, end..end_max + 2 * MIB, end..1 << 43, end..1 << 44, end..last, 0..last] {
        assert_eq!(add(range.clone()), Err(outside), "{range:x?}");
    }
    for range in [0..2 * MIB, end - 2 * MIB..end_max, 2 * MIB..4 * MIB] {
        let result = add(range.clone());
        assert!(matches!(result, Err(SetupError::Online(_))), "{range:x?}: {result:?}");
    }
    assert_eq!((audit::<Equipped>(), fixture.kernel.stats()), before);
    assert_eq!(add(end..end_max), Ok(END_MAX - END));
    assert_eq!(add(end..end_max), Err(SetupError::Online(OnlineError::Overlap { pfn: freehold::base::Pfn::new(END) })));
    audit::<Equipped>();
}

/// The rest of the last block above the limit has metadata of the page allocator, but none of the slab.
#[test]
fn memory_above_an_unaligned_end_is_refused() {
    install::<Equipped>(Hooks::default());
    let boot = Boot { end_max: 34 * MIB, ..Boot::default() };
    init::<Equipped>(&[Region::usable(18 * MIB, 14 * MIB)], 64, &boot).unwrap();
    assert_eq!(add(34 * MIB..36 * MIB), Err(SetupError::Online(OnlineError::Range)));
    assert_eq!(add(16 * MIB..18 * MIB), Err(SetupError::Online(OnlineError::Range)));
    assert_eq!(add(32 * MIB..34 * MIB), Ok(512));
    audit::<Equipped>();
}
