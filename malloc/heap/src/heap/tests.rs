//! Tests of heaps whose ranges are blocked by other mappings.

extern crate std;

use std::vec::Vec;

use super::*;
use crate::os::holes::HOLES_MAX;
use crate::runs::tests::Obstacle;

const PAGE: usize = PAGE_SIZE as usize;
const MIB: usize = 1 << 20;
/// Bytes of objects.
const SMALL: usize = 1000;
const LARGE: usize = 32 << 10;

impl<C: CpuLocal> Heap<C> {
    /// Allocates an object of `size` bytes, and writes its number into it. Returns whether there was memory.
    fn add(&self, size: usize, live: &mut Vec<NonNull<u64>>) -> bool {
        let Ok(object) = self.malloc(size) else { return false };
        // SAFETY: the object was just allocated, and has at least eight bytes.
        unsafe { object.cast().write(live.len() as u64) };
        live.push(object.cast());
        true
    }

    /// Allocates objects of `size` bytes until `bytes` more bytes have come online.
    fn fill(&self, size: usize, bytes: usize, live: &mut Vec<NonNull<u64>>) {
        let wanted = self.usage().online + bytes;
        while self.usage().online < wanted {
            assert!(self.add(size, live), "memory is left");
        }
    }

    /// Checks and frees all objects.
    fn empty(&self, live: Vec<NonNull<u64>>) {
        for (number, object) in live.into_iter().enumerate() {
            // SAFETY: the object is in use, and this is the only access to it.
            unsafe {
                assert_eq!(object.read(), number as u64, "the object was overwritten");
                self.free(object.cast()).unwrap();
            }
        }
    }
}

fn heap(bytes: usize) -> Heap<LockedCpus> {
    Heap::with_locks(&HeapConfig { bytes, ..HeapConfig::default() }).unwrap()
}

#[test]
fn heap_goes_on_behind_other_mappings() {
    let heap = heap(32 << 30);
    let (mut obstacles, mut live) = (Vec::new(), Vec::new());
    for round in 0..10 {
        let bytes = [PAGE, 3 * MIB, 256 * MIB][round % 3];
        obstacles.push(Obstacle::behind(&heap.ranges.memory, bytes));
        if round % 2 == 0 {
            let supply = heap.supply.lock();
            for (range, bytes) in [(&heap.ranges.slab, PAGE), (&heap.ranges.pages, 16 * MIB), (supply.stack(), PAGE)] {
                // The range has not grown since the last time if the addresses are in use.
                obstacles.extend(Obstacle::new(range, range.mapped(), bytes));
            }
        }
        heap.fill(SMALL, 40 * MIB, &mut live);
    }
    let mut active = 0;
    heap.each_size(|_, usage| active += usage.active);
    assert!(active >= live.len() as u64);
    // SAFETY: the test has one thread.
    assert_eq!(unsafe { heap.check() }, Ok(()));
    let holes = heap.ranges.memory.holes();
    assert!(holes.iter().count() >= 10 && !heap.ranges.pages.holes().is_empty());
    for hole in holes.iter() {
        let object = heap.ranges.memory.start().map_addr(|at| at.saturating_add(hole.start as usize * PAGE));
        // SAFETY: the address is in a hole, so no object is there, and the free is refused.
        assert!(unsafe { heap.free(object) }.is_err(), "a page of a hole");
    }
    let online = heap.usage().online;
    heap.empty(live);
    assert!(heap.give_back(usize::MAX) > online / 2);
    let mut live = Vec::new();
    heap.fill(SMALL, MIB, &mut live);
    heap.empty(live);
}

#[test]
fn returned_block_whose_addresses_are_in_use_is_set_aside() {
    let heap = heap(1 << 30);
    let mut live = Vec::new();
    heap.fill(SMALL, 16 * MIB, &mut live);
    heap.empty(live);
    assert!(heap.give_back(usize::MAX) >= 4 * MIB);
    heap.unmap_returned();
    let mut places = (0..heap.ranges.memory.mapped()).step_by(2 * MIB);
    let obstacle = places.find_map(|at| Obstacle::new(&heap.ranges.memory, at, PAGE)).expect("a block was unmapped");
    let mut live = Vec::new();
    heap.fill(SMALL, 2 * MIB, &mut live);
    assert_eq!(heap.usage().returned, 2 * MIB, "all other blocks were taken");
    drop(obstacle);
    heap.unmap_returned();
    while heap.usage().returned > 0 {
        assert!(heap.add(SMALL, &mut live));
    }
    heap.empty(live);
}

#[test]
fn heap_without_room_behind_other_mappings_fails() {
    let heap = heap(64 * MIB);
    let mapped = heap.ranges.memory.mapped();
    let _rest = Obstacle::behind(&heap.ranges.memory, 64 * MIB - mapped);
    let mut live = Vec::new();
    while heap.add(SMALL, &mut live) {}
    assert!(live.len() > 1000 && heap.usage().online == mapped);
    heap.empty(live);
}

#[test]
fn number_of_holes_is_limited() {
    let heap = heap(16 << 30);
    let (mut obstacles, mut live) = (Vec::new(), Vec::new());
    for _ in 0..HOLES_MAX {
        obstacles.push(Obstacle::behind(&heap.ranges.memory, PAGE));
        heap.fill(LARGE, 2 * MIB, &mut live);
    }
    let online = heap.usage().online;
    obstacles.push(Obstacle::behind(&heap.ranges.memory, PAGE));
    while heap.add(LARGE, &mut live) {}
    assert_eq!(heap.usage().online, online);
    heap.empty(live);
}
