//! Kinds of misuse, and the sizes of blocks that each is tested on.

use std::ptr::without_provenance_mut;
use std::thread;

use super::blocks::{C, follow, peek, poke, poke_all};
use super::outcome::end_corrupted;

/// A kind of misuse, and the sizes of blocks that it is tested on.
pub(super) struct Kind {
    pub name: &'static str,
    pub sizes: &'static [usize],
    pub misuse: fn(C, usize),
}

/// Sizes for which mallocs have different kinds of memory.
const ALL: &[usize] = &[16, 100, 1000, 5000, 40_000, 1_000_000];
/// Sizes that usually fill their size class, and sizes that do not.
const SMALL: &[usize] = &[16, 24, 100, 1024];
const LARGE: &[usize] = &[40_000, 1_000_000, 5_000_000];
const NOT_SMALLEST: &[usize] = &[100, 1000, 5000, 40_000, 1_000_000];
const FEW: &[usize] = &[100, 40_000];
const ONE: &[usize] = &[100];

/// All kinds of misuse.
pub(super) const KINDS: &[Kind] = &[
    // Blocks that are freed twice.
    Kind { name: "double-free", sizes: ALL, misuse: double_free },
    Kind { name: "double-free-later", sizes: ALL, misuse: |c, bytes| double_free_later(c, bytes, 10) },
    Kind { name: "double-free-much-later", sizes: FEW, misuse: |c, bytes| double_free_later(c, bytes, 500) },
    Kind { name: "double-free-by-another-thread", sizes: FEW, misuse: double_free_by_another_thread },
    Kind { name: "double-free-after-realloc", sizes: ALL, misuse: double_free_after_realloc },
    Kind { name: "realloc-after-free", sizes: ALL, misuse: realloc_after_free },
    Kind { name: "double-free-aligned", sizes: FEW, misuse: double_free_aligned },
    // Addresses that are not the beginning of a block.
    Kind { name: "free-inside", sizes: ALL, misuse: |c, bytes| free_at(c, bytes, 16) },
    Kind { name: "free-middle", sizes: NOT_SMALLEST, misuse: |c, bytes| free_at(c, bytes, (bytes / 2) as isize & !15) },
    Kind { name: "free-misaligned", sizes: ALL, misuse: |c, bytes| free_at(c, bytes, 1) },
    Kind { name: "free-behind", sizes: FEW, misuse: |c, bytes| free_at(c, bytes, bytes.next_multiple_of(16) as isize) },
    Kind { name: "free-before", sizes: FEW, misuse: |c, bytes| free_at(c, bytes, -16) },
    Kind { name: "free-page-inside", sizes: LARGE, misuse: |c, bytes| free_at(c, bytes, 4096) },
    Kind { name: "realloc-inside", sizes: ALL, misuse: realloc_inside },
    Kind { name: "free-of-stack", sizes: ONE, misuse: free_of_stack },
    Kind { name: "free-of-static", sizes: ONE, misuse: free_of_static },
    Kind { name: "free-of-code", sizes: ONE, misuse: free_of_code },
    Kind { name: "free-of-mapping", sizes: ONE, misuse: free_of_mapping },
    Kind { name: "free-of-small-number", sizes: ONE, misuse: |c, _| c.free(without_provenance_mut(48)) },
    Kind {
        name: "free-of-no-address",
        sizes: ONE,
        misuse: |c, _| c.free(without_provenance_mut(0x5555_5555_5555_5550)),
    },
    Kind { name: "realloc-of-stack", sizes: ONE, misuse: realloc_of_stack },
    // Writes and reads beyond the ends of a block.
    Kind { name: "overflow-1", sizes: ALL, misuse: |c, bytes| overflow(c, bytes, 1) },
    Kind { name: "overflow-zero", sizes: ALL, misuse: overflow_zero },
    Kind { name: "overflow-8", sizes: ALL, misuse: |c, bytes| overflow(c, bytes, 8) },
    Kind { name: "overflow-64", sizes: ALL, misuse: |c, bytes| overflow(c, bytes, 64) },
    Kind { name: "overflow-usable", sizes: ALL, misuse: overflow_usable },
    Kind { name: "overflow-into-neighbour", sizes: SMALL, misuse: |c, bytes| overflow(c, bytes, bytes as isize + 32) },
    Kind { name: "overflow-calloc", sizes: FEW, misuse: overflow_calloc },
    Kind { name: "overflow-aligned", sizes: FEW, misuse: overflow_aligned },
    Kind { name: "overflow-after-shrinking", sizes: ALL, misuse: overflow_after_shrinking },
    Kind { name: "overflow-far", sizes: LARGE, misuse: |c, bytes| poke(c.malloc(bytes), bytes as isize + 6000, 1) },
    Kind { name: "overread-far", sizes: LARGE, misuse: overread_far },
    Kind { name: "underflow-1", sizes: ALL, misuse: |c, bytes| underflow(c, bytes, 1) },
    Kind { name: "underflow-8", sizes: ALL, misuse: |c, bytes| underflow(c, bytes, 8) },
    Kind { name: "underflow-32", sizes: ALL, misuse: |c, bytes| underflow(c, bytes, 32) },
    Kind { name: "overflow-of-nothing", sizes: &[0], misuse: |c, bytes| overflow(c, bytes, 1) },
    // Uses of a block after its free.
    Kind { name: "write-after-free", sizes: ALL, misuse: |c, bytes| write_after_free(c, bytes, 0) },
    Kind { name: "write-after-free-middle", sizes: ALL, misuse: |c, bytes| write_after_free(c, bytes, bytes / 2) },
    Kind { name: "write-after-free-end", sizes: ALL, misuse: |c, bytes| write_after_free(c, bytes, bytes - 1) },
    Kind { name: "write-after-free-all", sizes: ALL, misuse: write_after_free_all },
    Kind { name: "write-after-realloc", sizes: ALL, misuse: write_after_realloc },
    Kind { name: "write-after-free-of-many", sizes: FEW, misuse: write_after_free_of_many },
    Kind { name: "write-after-free-elsewhere", sizes: FEW, misuse: write_after_free_elsewhere },
    Kind { name: "list-attack", sizes: SMALL, misuse: list_attack },
    Kind { name: "read-after-free", sizes: LARGE, misuse: read_after_free },
    Kind { name: "address-after-free", sizes: ALL, misuse: address_after_free },
    Kind { name: "usable-size-after-free", sizes: FEW, misuse: usable_after_free },
    // Frees with a wrong size.
    Kind { name: "delete-of-smaller", sizes: ALL, misuse: |c, bytes| wrong_size(c, bytes, bytes / 2) },
    Kind { name: "delete-of-larger", sizes: ALL, misuse: |c, bytes| wrong_size(c, bytes, 2 * bytes) },
];

fn double_free(c: C, bytes: usize) {
    let block = c.malloc(bytes);
    c.free(block);
    c.free(block);
}

fn double_free_later(c: C, bytes: usize, others: usize) {
    let block = c.malloc(bytes);
    let other_blocks: Vec<_> = (0..others).map(|_| c.malloc(bytes)).collect();
    c.free(block);
    other_blocks.into_iter().for_each(|other| c.free(other));
    c.free(block);
}

fn double_free_by_another_thread(c: C, bytes: usize) {
    c.free(freed_by_another_thread(c, bytes));
}

/// Returns a block that another thread has freed.
fn freed_by_another_thread(c: C, bytes: usize) -> *mut u8 {
    let block = c.malloc(bytes);
    let address = block.expose_provenance();
    let other = thread::spawn(move || c.free(std::ptr::with_exposed_provenance_mut(address)));
    other.join().expect("the freeing thread does not panic");
    block
}

fn double_free_after_realloc(c: C, bytes: usize) {
    let old = c.malloc(bytes);
    let _in_the_way = c.malloc(bytes);
    let new = c.realloc(old, 3 * bytes + 5000);
    if new != old {
        c.free(old);
    }
    c.free(new);
}

fn realloc_after_free(c: C, bytes: usize) {
    let block = c.malloc(bytes);
    c.free(block);
    c.realloc(block, 2 * bytes);
}

fn double_free_aligned(c: C, bytes: usize) {
    let block = c.aligned_alloc(64, bytes.next_multiple_of(64));
    c.free(block);
    c.free(block);
}

fn free_at(c: C, bytes: usize, offset: isize) {
    let block = c.malloc(bytes);
    c.free(block.wrapping_offset(offset));
}

fn realloc_inside(c: C, bytes: usize) {
    let block = c.malloc(bytes);
    c.realloc(block.wrapping_add(16), 2 * bytes);
}

fn free_of_stack(c: C, _: usize) {
    let mut array = [0_u64; 32];
    c.free(std::hint::black_box(array.as_mut_ptr()).wrapping_add(2).cast());
}

fn realloc_of_stack(c: C, bytes: usize) {
    let mut array = [0_u64; 32];
    c.realloc(std::hint::black_box(array.as_mut_ptr()).wrapping_add(2).cast(), bytes);
}

fn free_of_static(c: C, _: usize) {
    static ARRAY: [std::sync::atomic::AtomicU64; 32] = [const { std::sync::atomic::AtomicU64::new(0) }; 32];
    c.free(ARRAY[2].as_ptr().cast());
}

fn free_of_code(c: C, _: usize) {
    c.free((free_of_code as *const () as *mut u8).map_addr(|at| at & !15));
}

fn free_of_mapping(c: C, _: usize) {
    let map = memmap2::MmapMut::map_anon(1 << 20).expect("there is address space for 1 MiB");
    c.free(map.as_ptr().cast_mut().wrapping_add(4096));
}

fn overflow(c: C, bytes: usize, by: isize) {
    let block = c.malloc(bytes);
    poke_all(block, bytes as isize, by);
    c.free(block);
}

fn overflow_zero(c: C, bytes: usize) {
    let block = c.malloc(bytes);
    poke_all(block, 0, bytes as isize);
    poke(block, bytes as isize, 0);
    c.free(block);
}

fn overflow_usable(c: C, bytes: usize) {
    let block = c.malloc(bytes);
    poke_all(block, c.usable(block) as isize, 8);
    c.free(block);
}

fn overflow_calloc(c: C, bytes: usize) {
    let block = c.calloc(bytes / 4, 4);
    poke_all(block, bytes as isize, 8);
    c.free(block);
}

fn overflow_aligned(c: C, bytes: usize) {
    let rounded = bytes.next_multiple_of(256);
    let block = c.aligned_alloc(256, rounded);
    poke_all(block, rounded as isize, 8);
    c.free(block);
}

fn overflow_after_shrinking(c: C, bytes: usize) {
    let less = bytes - bytes / 8 - 1;
    let block = c.realloc(c.malloc(bytes), less);
    poke(block, less as isize, 1);
    c.free(block);
}

fn overread_far(c: C, bytes: usize) {
    let block = c.malloc(bytes);
    peek(block, bytes as isize + 6000);
    c.free(block);
}

fn underflow(c: C, bytes: usize, by: isize) {
    let (before, block, behind) = (c.malloc(bytes), c.malloc(bytes), c.malloc(bytes));
    poke_all(block, -by, by);
    [before, block, behind].into_iter().for_each(|block| c.free(block));
}

fn write_after_free(c: C, bytes: usize, at: usize) {
    let block = c.malloc(bytes);
    c.free(block);
    poke(block, at as isize, 0x41);
}

fn write_after_free_all(c: C, bytes: usize) {
    let block = c.malloc(bytes);
    c.free(block);
    poke_all(block, 0, bytes as isize);
}

fn write_after_realloc(c: C, bytes: usize) {
    let old = c.malloc(bytes);
    let _in_the_way = c.malloc(bytes);
    if c.realloc(old, 3 * bytes + 5000) != old {
        poke(old, 8, 0x41);
    }
}

fn write_after_free_of_many(c: C, bytes: usize) {
    let blocks: Vec<_> = (0..500).map(|_| c.malloc(bytes)).collect();
    blocks.iter().for_each(|&block| c.free(block));
    poke(blocks[100], 8, 0x41);
}

fn write_after_free_elsewhere(c: C, bytes: usize) {
    poke(freed_by_another_thread(c, bytes), 8, 0x41);
}

/// Overwrites the link of a free block with a target address, as an attacker would.
fn list_attack(c: C, bytes: usize) {
    static TARGET: [std::sync::atomic::AtomicU64; 512] = [const { std::sync::atomic::AtomicU64::new(0) }; 512];
    let (one, other) = (c.malloc(bytes), c.malloc(bytes));
    c.free(one);
    c.free(other);
    let target = TARGET[64].as_ptr().expose_provenance();
    target.to_ne_bytes().into_iter().enumerate().for_each(|(at, byte)| poke(other, at as isize, byte));
    for _ in 0..4 {
        if c.malloc(bytes).addr() == target {
            // The malloc has returned the target, so an attacker could write to any address.
            end_corrupted();
        }
    }
}

fn read_after_free(c: C, bytes: usize) {
    let block = c.malloc(bytes);
    poke(block, 100, 1);
    c.free(block);
    peek(block, 100);
}

/// Frees a structure that contains an address, and then follows that address.
fn address_after_free(c: C, bytes: usize) {
    let mut known = 7_u8;
    let block = c.malloc(bytes);
    let address = (&raw mut known).expose_provenance();
    address.to_ne_bytes().into_iter().enumerate().for_each(|(at, byte)| poke(block, at as isize, byte));
    c.free(block);
    follow(block);
}

fn usable_after_free(c: C, bytes: usize) {
    let block = c.malloc(bytes);
    c.free(block);
    c.usable(block);
}

/// Deletes an object with the size of another class, as in C++.
fn wrong_size(c: C, bytes: usize, claimed: usize) {
    let block = c.malloc(bytes);
    c.free_sized(c"_ZdlPvm", block, claimed);
}
