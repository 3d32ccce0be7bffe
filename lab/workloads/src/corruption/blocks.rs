//! C's functions by address, and blocks that are filled with a number, so that overwrites can be detected.

use std::ffi::c_void;
use std::hint::black_box;
use std::ptr::{null_mut, write_volatile};

/// Blocks that are in use while memory is misused.
const NEIGHBOURS: usize = 24;
/// Blocks that are allocated and freed afterwards: more than most mallocs cache.
const AFTERWARDS: usize = 3000;
/// Maximum number of bytes of these blocks, all together.
const AFTERWARDS_BYTES: usize = 64 << 20;

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Pair = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Usable = unsafe extern "C" fn(*mut c_void) -> usize;

/// C's functions. The compiler does not know the functions behind these pointers, so it does not remove invalid calls.
#[derive(Clone, Copy)]
pub(super) struct C {
    malloc: Malloc,
    free: Free,
    realloc: Realloc,
    calloc: Pair,
    aligned_alloc: Pair,
    usable: Usable,
}

impl C {
    pub(super) fn new() -> C {
        C {
            malloc: black_box(libc::malloc),
            free: black_box(libc::free),
            realloc: black_box(libc::realloc),
            calloc: black_box(libc::calloc),
            aligned_alloc: black_box(libc::aligned_alloc),
            usable: black_box(libc::malloc_usable_size),
        }
    }

    pub(super) fn malloc(self, bytes: usize) -> *mut u8 {
        // SAFETY: `malloc` has no precondition: it accepts any number of bytes.
        unsafe { (self.malloc)(bytes) }.cast()
    }

    pub(super) fn calloc(self, count: usize, bytes: usize) -> *mut u8 {
        // SAFETY: `calloc` has no precondition: it accepts any two numbers.
        unsafe { (self.calloc)(count, bytes) }.cast()
    }

    pub(super) fn aligned_alloc(self, align: usize, bytes: usize) -> *mut u8 {
        // SAFETY: `aligned_alloc` returns null for an invalid alignment, so no arguments cause undefined behaviour.
        unsafe { (self.aligned_alloc)(align, bytes) }.cast()
    }

    /// Frees a block, which may be invalid.
    pub(super) fn free(self, block: *mut u8) {
        // SAFETY: the precondition of `free` is violated on purpose: this process tests the malloc's reaction.
        unsafe { (self.free)(block.cast()) };
    }

    /// Reallocates a block, which may be invalid.
    pub(super) fn realloc(self, block: *mut u8, bytes: usize) -> *mut u8 {
        // SAFETY: the precondition of `realloc` is violated on purpose: this process tests the malloc's reaction.
        unsafe { (self.realloc)(block.cast(), bytes) }.cast()
    }

    /// Returns the usable size of a block, which may be invalid.
    pub(super) fn usable(self, block: *mut u8) -> usize {
        // SAFETY: the precondition of `malloc_usable_size` is violated on purpose: this process tests the malloc's
        // reaction.
        unsafe { (self.usable)(block.cast()) }
    }

    /// Returns the address of the function with this name in the process, or null.
    pub(super) fn other(self, name: &std::ffi::CStr) -> *mut c_void {
        // SAFETY: the handle is `RTLD_DEFAULT`, and a `CStr` ends in a zero byte, as `dlsym` requires.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
    }

    /// Frees a block with a size by the named function, such as C++'s `operator delete`. Does nothing if the process
    /// lacks that function.
    pub(super) fn free_sized(self, name: &std::ffi::CStr, block: *mut u8, bytes: usize) {
        let found = self.other(name);
        if !found.is_null() {
            // SAFETY: functions of these names have this signature. The size is wrong on purpose.
            unsafe {
                let free: unsafe extern "C" fn(*mut u8, usize) = std::mem::transmute(found);
                free(block, bytes);
            }
        }
    }
}

/// Lets the kernel end this process after `seconds` seconds.
pub(super) fn end_after(seconds: u32) {
    // SAFETY: `alarm` only sets a timer of this process. Its signal has no handler, so the default action ends the
    // process.
    unsafe { libc::alarm(seconds) };
}

/// Writes a byte at an address that may be invalid.
pub(super) fn poke(block: *mut u8, at: isize, byte: u8) {
    // SAFETY: the address may be invalid on purpose: this process tests the malloc's reaction.
    unsafe { write_volatile(block.offset(at), byte) };
}

/// Writes `count` bytes, from offset `from` on.
pub(super) fn poke_all(block: *mut u8, from: isize, count: isize) {
    (from..from + count).for_each(|at| poke(block, at, 0x41));
}

/// Reads an address from a block that may be invalid, and a byte at that address.
pub(super) fn follow(block: *mut u8) -> u8 {
    // SAFETY: both addresses may be invalid on purpose: this process tests the malloc's reaction.
    unsafe { block.cast::<*mut u8>().read_volatile().read_volatile() }
}

/// Reads a byte at an address that may be invalid.
pub(super) fn peek(block: *mut u8, at: isize) -> u8 {
    // SAFETY: the address may be invalid on purpose: this process tests the malloc's reaction.
    unsafe { block.offset(at).read_volatile() }
}

/// The program around a misuse.
pub(super) struct Life {
    c: C,
    bytes: usize,
    neighbours: Vec<*mut u8>,
}

impl Life {
    /// Allocates blocks of a size, and frees every other one.
    pub(super) fn new(c: C, bytes: usize) -> Life {
        let mut blocks: Vec<_> = (0..2 * NEIGHBOURS).map(|number| allocate_numbered(c, bytes, number)).collect();
        let neighbours = blocks.drain(..).enumerate().filter_map(|(at, block)| {
            let stays = at % 2 == 0;
            if !stays {
                c.free(block);
            }
            stays.then_some(block)
        });
        let neighbours = neighbours.collect();
        Life { c, bytes, neighbours }
    }

    /// Allocates, checks and frees blocks. Returns whether all blocks have kept their contents.
    pub(super) fn goes_on(&mut self) -> bool {
        let count = (AFTERWARDS_BYTES / self.bytes.max(1)).min(AFTERWARDS);
        let blocks: Vec<_> = (0..count).map(|number| allocate_numbered(self.c, self.bytes, 1000 + number)).collect();
        let mut is_well = blocks.iter().enumerate().all(|(at, &block)| is_number(block, self.bytes, 1000 + at));
        is_well &= self.neighbours.iter().enumerate().all(|(at, &block)| is_number(block, self.bytes, 2 * at));
        blocks.into_iter().chain(self.neighbours.drain(..)).for_each(|block| self.c.free(block));
        is_well
    }
}

/// Allocates a block and fills it with its number, repeatedly.
fn allocate_numbered(c: C, bytes: usize, number: usize) -> *mut u8 {
    let block = c.malloc(bytes);
    if block.is_null() {
        return null_mut();
    }
    // SAFETY: `block` is not null, so `malloc` has just allocated `bytes` bytes there, which nothing else uses.
    let all = unsafe { std::slice::from_raw_parts_mut(block, bytes) };
    all.iter_mut().zip(number.to_le_bytes().iter().cycle()).for_each(|(at, &byte)| *at = byte);
    block
}

fn is_number(block: *mut u8, bytes: usize, number: usize) -> bool {
    if block.is_null() {
        return true;
    }
    // SAFETY: the block is not null, so it has `bytes` bytes, all of which `allocate_numbered` has written, and it has
    // not been freed.
    let all = unsafe { std::slice::from_raw_parts(block, bytes) };
    all.iter().zip(number.to_le_bytes().iter().cycle()).all(|(at, byte)| at == byte)
}
