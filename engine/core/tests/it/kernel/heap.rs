//! The heap as Rust's allocator: any size, any alignment, memory that grows and shrinks.

use std::alloc::{GlobalAlloc, Layout};

use freehold::kernel::{Cpu, Heap};

use crate::kernel::machine::{Machine, OneCpu, audit, boot};

/// Returns sizes around each limit at which the allocator behaves differently.
fn sizes() -> impl Iterator<Item = usize> {
    let powers = (0..=17).map(|power| 1_usize << power);
    [1, 24, 40, 96, 160, 200, 3000, 5000, 40_000]
        .into_iter()
        .chain(powers)
        .flat_map(|size: usize| [size - 1, size, size + 1])
}

#[test]
fn heap_supports_alignments_up_to_the_largest_block() {
    boot::<OneCpu>(64);
    let heap = Heap::<Machine>::new();
    for align in (0..=20).map(|power| 1_usize << power) {
        let layouts = sizes().map(|size| Layout::from_size_align(size.max(1), align).unwrap());
        let mut all: Vec<(*mut u8, Layout)> = Vec::new();
        for layout in layouts.take(if align > 1 << 16 { 5 } else { 200 }) {
            // SAFETY: the size of the layout is not zero.
            let memory = unsafe { heap.alloc(layout) };
            assert!(!memory.is_null() && memory.addr().is_multiple_of(align), "{layout:?} at {memory:p}");
            // SAFETY: the allocation has `layout.size()` bytes and is used by this test only.
            unsafe { memory.write_bytes(align as u8, layout.size()) };
            all.push((memory, layout));
        }
        all.sort_by_key(|(memory, _)| memory.addr());
        let disjoint = all.windows(2).all(|pair| pair[0].0.addr() + pair[0].1.size() <= pair[1].0.addr());
        assert!(disjoint, "two allocations overlap, alignment {align}");
        // SAFETY: each block was allocated with this layout and is freed once.
        all.iter().for_each(|&(memory, layout)| unsafe { heap.dealloc(memory, layout) });
    }
    assert_eq!(audit::<OneCpu>().1.objects, 0);
}

/// Sizes above the largest block are allocated as ranges.
#[test]
fn allocation_above_the_largest_block_is_a_range() {
    let kernel = boot::<OneCpu>(64);
    let (heap, before) = (Heap::<Machine>::new(), audit::<OneCpu>().0);
    let layout = Layout::from_size_align((12 << 20) + 5, 4096).unwrap();
    // SAFETY: no layout has size zero. Each call gets the layout that its memory currently has, and all accesses are
    // within that layout.
    unsafe {
        let dirty = heap.alloc(layout);
        dirty.write_bytes(0xa5, layout.size());
        heap.dealloc(dirty, layout);
        let memory = heap.alloc_zeroed(layout);
        assert!(!memory.is_null() && memory.addr().is_multiple_of(4096));
        assert!((0..layout.size()).all(|at| memory.add(at).read() == 0), "zeroed memory contains other bytes");
        memory.add(layout.size() - 1).write(7);
        let grown = heap.realloc(memory, layout, 20 << 20);
        assert_eq!(grown.add(layout.size() - 1).read(), 7);
        let shrunk = heap.realloc(grown, Layout::from_size_align(20 << 20, 4096).unwrap(), 100);
        heap.dealloc(shrunk, Layout::from_size_align(100, 4096).unwrap());
    }
    assert_eq!(audit::<OneCpu>().0, before);
    assert_eq!(kernel.stats().used(), before.allocated);
}

/// The direct map of this machine is aligned to 16 MiB.
#[test]
fn alignment_above_the_largest_block_is_that_of_the_direct_map() {
    boot::<OneCpu>(64);
    let (heap, before) = (Heap::<Machine>::new(), audit::<OneCpu>().0);
    for (size, align) in [(1, 8 << 20), (5 << 20, 8 << 20), (9 << 20, 16 << 20), (1, 16 << 20)] {
        let layout = Layout::from_size_align(size, align).unwrap();
        // SAFETY: the size of the layout is not zero, and the memory is freed once with its layout.
        unsafe {
            let memory = heap.alloc(layout);
            assert!(!memory.is_null() && memory.addr().is_multiple_of(align), "{layout:?} at {memory:p}");
            heap.dealloc(memory, layout);
        }
    }
    assert_eq!(audit::<OneCpu>().0, before);
}

/// A vector that grows by doubling gets to a third of the memory, although a range that begins at a multiple of its
/// size would not fit behind the former one.
#[test]
fn vector_doubles_up_to_a_third_of_memory() {
    boot::<OneCpu>(192);
    let heap = Heap::<Machine>::new();
    let layout = |mib: usize| Layout::from_size_align(mib << 20, 8).unwrap();
    // SAFETY: each call gets the layout that the memory has, and no size is zero.
    unsafe {
        let mut memory = heap.alloc(layout(8));
        for mib in [16, 32, 64] {
            memory = heap.realloc(memory, layout(mib / 2), mib << 20);
            assert!(!memory.is_null(), "{mib} MiB");
        }
        heap.dealloc(memory, layout(64));
    }
}

#[test]
fn impossible_layouts_return_null() {
    boot::<OneCpu>(32);
    let heap = Heap::<Machine>::new();
    for (size, align) in
        [(33 << 20, 8), (1 << 40, 1), (isize::MAX as usize - (1 << 30), 64), (5 << 20, 32 << 20), (1, 1 << 40)]
    {
        // SAFETY: the size of the layout is not zero.
        assert!(unsafe { heap.alloc(Layout::from_size_align(size, align).unwrap()) }.is_null(), "{size} {align}");
    }
    audit::<OneCpu>();
}

#[test]
fn alloc_zeroed_clears_reused_memory() {
    boot::<OneCpu>(32);
    let heap = Heap::<Machine>::new();
    for size in [8, 100, 4096, 9000, 33_000, 100_000] {
        let layout = Layout::from_size_align(size, 16).unwrap();
        for _ in 0..3 {
            // SAFETY: the size of the layout is not zero, all accesses are within it, and the memory is freed once with
            // this layout.
            unsafe {
                let memory = heap.alloc_zeroed(layout);
                assert!((0..size).all(|at| memory.add(at).read() == 0), "{size}");
                memory.write_bytes(0xa5, size);
                heap.dealloc(memory, layout);
            }
        }
    }
}

#[test]
fn realloc_grows_in_place_if_possible_and_keeps_contents() {
    boot::<OneCpu>(32);
    let heap = Heap::<Machine>::new();
    // SAFETY: each call gets the layout that the memory currently has, and all accesses are within that layout.
    unsafe {
        let mut layout = Layout::from_size_align(65, 8).unwrap();
        let mut memory = heap.alloc(layout);
        memory.write_bytes(7, 65);
        let same = heap.realloc(memory, layout, 80);
        assert_eq!(same, memory, "an object of 80 bytes serves 65");
        layout = Layout::from_size_align(80, 8).unwrap();
        for size in [200, 4096, 5000, 40_000, 70_000, 300] {
            memory = heap.realloc(memory, layout, size);
            layout = Layout::from_size_align(size, 8).unwrap();
            assert!((0..65).all(|at| memory.add(at).read() == 7), "{size}");
        }
        heap.dealloc(memory, layout);
    }
    assert_eq!(audit::<OneCpu>().1.objects, 0);
}

#[test]
fn realloc_keeps_the_alignment() {
    boot::<OneCpu>(32);
    let heap = Heap::<Machine>::new();
    for align in [16, 64, 512, 4096, 8192] {
        let (mut size, mut layout) = (24, Layout::from_size_align(24, align).unwrap());
        // SAFETY: each call gets the layout that the memory currently has.
        unsafe {
            let mut memory = heap.alloc(layout);
            while size < 100_000 {
                size = size * 3 / 2;
                memory = heap.realloc(memory, layout, size);
                layout = Layout::from_size_align(size, align).unwrap();
                assert!(!memory.is_null() && memory.addr().is_multiple_of(align), "{layout:?}");
            }
            heap.dealloc(memory, layout);
        }
    }
    assert_eq!(audit::<OneCpu>().1.objects, 0);
}

/// Allocates blocks until the memory is exhausted, and frees them. Returns the number of blocks.
fn fill_and_empty(heap: &impl GlobalAlloc, layout: Layout) -> usize {
    // SAFETY: every caller passes a layout whose size is not zero.
    let blocks: Vec<*mut u8> =
        core::iter::from_fn(|| Some(unsafe { heap.alloc(layout) }).filter(|memory| !memory.is_null())).collect();
    // SAFETY: each block was allocated above with the same layout, and is freed once.
    blocks.iter().for_each(|&memory| unsafe { heap.dealloc(memory, layout) });
    blocks.len()
}

#[test]
fn exhausted_heap_returns_null_and_recovers() {
    boot::<OneCpu>(16);
    let heap = Heap::<Machine>::new();
    let layout = Layout::from_size_align(1000, 8).unwrap();
    let (first, second) = (fill_and_empty(&heap, layout), fill_and_empty(&heap, layout));
    assert!(first > 10_000 && second > first * 99 / 100, "{first}, then {second}");
    assert_eq!(audit::<OneCpu>().1.objects, 0);
    assert_eq!(<Machine>::kernel().slab().unwrap().policy(), &<Machine>::POLICY);
}
