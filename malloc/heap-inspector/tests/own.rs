//! Inspection of this process, whose allocator is Freehold, as another process would inspect it.

use freehold_heap_inspector::{Caches, HeapMap, MapLimits, Target};
use freehold_malloc::Freehold;
use freehold_malloc::process::stats;
use freehold_report::formats::Document;

#[global_allocator]
static GLOBAL: Freehold = Freehold;

/// Bytes of an object. No other object of this test has this size.
const SIZE: usize = 1700;
/// Cache of these objects.
const CACHE: &str = "kmalloc-1792";
/// Bytes of the requests that the cache serves, as the report formats them.
const BYTES: &str = "1,537-1,792 B";
const OBJECTS: usize = 20_000;
/// Number of objects of which one is kept.
const KEPT: usize = 500;
/// Bytes of a run. No other run of this test has this size.
const RUN: usize = 5 << 20;

fn look() -> HeapMap {
    let caches = Caches::for_this_version().unwrap();
    HeapMap::read(&mut Target::open(std::process::id()).unwrap(), &caches, MapLimits { blocks: 1000 }).unwrap()
}

/// Returns the objects of the tested size, and the bytes in runs.
fn totals(map: &HeapMap) -> (u64, u64) {
    (objects_in(map), map.memory.runs.bytes)
}

/// The file has one test only, because the inspection would also see allocations of concurrent tests.
#[test]
fn inspection_of_this_process_matches_its_allocations() {
    // A map has objects of its own, so the next map would count them: only numbers are kept.
    let before = totals(&look());
    let run = vec![1_u8; RUN];
    let mut objects: Vec<Box<[u8; SIZE]>> = (0..OBJECTS).map(|_| Box::new([1; SIZE])).collect();
    let full = totals(&look());
    let mut place = 0;
    objects.retain(|_| {
        place += 1;
        place % KEPT == 0
    });
    let sparse = look();
    assert_eq!(full.0 - before.0, OBJECTS as u64);
    assert_eq!(objects_in(&sparse) - before.0, objects.len() as u64, "objects cached by CPUs must not count as in use");
    assert_eq!(full.1 - before.1, {
        let list = (OBJECTS * size_of::<usize>()).next_multiple_of(4096);
        (RUN + list) as u64
    });

    // The process's own statistics count cached objects as active, and also state their number.
    let (mut active, mut cached) = (0, 0);
    stats::each_size(|cache, usage| {
        if cache.name.as_str() == CACHE {
            (active, cached) = (usage.active, usage.cached);
        }
    });
    let row = sparse.sizes.iter().find(|row| row.name == CACHE).unwrap();
    assert_eq!((row.objects + row.cached, row.cached), (active, cached));
    let live = sparse.states.total.live;
    assert_eq!(live, sparse.memory.objects + sparse.memory.runs.bytes);
    let own = stats::summary().expect("this process has a heap");
    assert!((own.live() as u64).abs_diff(live) < 1 << 20, "{} and {live} live bytes", own.live());

    let pin =
        sparse.pins.iter().find(|pin| pin.name == CACHE).expect("the report must list blocks that few objects pin");
    assert!(pin.blocks >= 5 && pin.alone > 0, "{pin:?}");
    assert!(sparse.blocks.iter().any(|block| block.pins.iter().any(|pin| pin.name == CACHE && pin.objects > 0)));
    // Memory that was never written to is not resident.
    let untouched = Vec::<u8>::with_capacity(64 << 20);
    let looked = look();
    assert!(looked.memory.runs.bytes >= untouched.capacity() as u64);
    assert!(looked.memory.in_memory() <= looked.process.resident);
    assert!(looked.memory.runs.in_memory < looked.memory.runs.bytes / 2);
    let report = &sparse.reports()[0];
    assert!(report.verdict.iter().any(|sentence| sentence.contains(BYTES)), "{:?}", report.verdict);
    assert_eq!(row.request_bytes, Some([1537, 1792]));
    drop(run);
}

/// Returns the number of objects in use that a map shows for the cache of this test.
fn objects_in(map: &HeapMap) -> u64 {
    map.sizes.iter().find(|row| row.name == CACHE).map_or(0, |row| row.objects)
}
