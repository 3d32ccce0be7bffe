//! C's functions by address, and blocks that know who they are.

use std::ffi::c_void;
use std::hint::black_box;
use std::ptr::{null_mut, write_volatile};

/// Blocks that are in use while memory is misused.
const NEIGHBOURS: usize = 24;
/// Blocks that are allocated and freed afterwards: more than most mallocs keep at hand.
const AFTERWARDS: usize = 3000;
/// Bytes that they take at most, all together.
const AFTERWARDS_BYTES: usize = 64 << 20;

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Pair = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Usable = unsafe extern "C" fn(*mut c_void) -> usize;

/// C's functions. No compiler knows which they are, so none leaves out what makes no sense.
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
        // SAFETY: `aligned_alloc` has no precondition in memory: it returns null for an alignment that is none.
        unsafe { (self.aligned_alloc)(align, bytes) }.cast()
    }

    /// Right or wrong.
    pub(super) fn free(self, block: *mut u8) {
        // SAFETY: none; what comes of it is what this process is there for.
        unsafe { (self.free)(block.cast()) };
    }

    /// Right or wrong.
    pub(super) fn realloc(self, block: *mut u8, bytes: usize) -> *mut u8 {
        // SAFETY: none; what comes of it is what this process is there for.
        unsafe { (self.realloc)(block.cast(), bytes) }.cast()
    }

    /// Right or wrong.
    pub(super) fn usable(self, block: *mut u8) -> usize {
        // SAFETY: none; what comes of it is what this process is there for.
        unsafe { (self.usable)(block.cast()) }
    }

    /// The function of this name that the process has.
    pub(super) fn other(self, name: &std::ffi::CStr) -> *mut c_void {
        // SAFETY: a name that ends in zero is looked up.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
    }

    /// C++'s `operator delete` with a size, or the one that the name says; nothing where the process has none.
    pub(super) fn free_sized(self, name: &std::ffi::CStr, block: *mut u8, bytes: usize) {
        let found = self.other(name);
        if !found.is_null() {
            // SAFETY: functions of these names have these arguments; the size is wrong on purpose.
            unsafe {
                let free: unsafe extern "C" fn(*mut u8, usize) = std::mem::transmute(found);
                free(block, bytes);
            }
        }
    }
}

/// Has the kernel end this process after so many seconds.
pub(super) fn end_after(seconds: u32) {
    // SAFETY: sets a timer, whose signal nobody handles.
    unsafe { libc::alarm(seconds) };
}

/// Writes a byte, wherever that is.
pub(super) fn poke(block: *mut u8, at: isize, byte: u8) {
    // SAFETY: none; what comes of it is what this process is there for.
    unsafe { write_volatile(block.offset(at), byte) };
}

/// Writes a few bytes from there on.
pub(super) fn poke_all(block: *mut u8, from: isize, count: isize) {
    (from..from + count).for_each(|at| poke(block, at, 0x41));
}

/// Reads an address, wherever that is, and a byte where it leads to.
pub(super) fn follow(block: *mut u8) -> u8 {
    // SAFETY: none; what comes of it is what this process is there for.
    unsafe { block.cast::<*mut u8>().read_volatile().read_volatile() }
}

/// Reads a byte, wherever that is.
pub(super) fn peek(block: *mut u8, at: isize) -> u8 {
    // SAFETY: none; what comes of it is what this process is there for.
    unsafe { block.offset(at).read_volatile() }
}

/// The program around a misuse.
pub(super) struct Life {
    c: C,
    bytes: usize,
    neighbours: Vec<*mut u8>,
}

impl Life {
    /// Has blocks of a size, and gave others back.
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

    /// Lives on: whether each block is its own to the end.
    pub(super) fn goes_on(&mut self) -> bool {
        let count = (AFTERWARDS_BYTES / self.bytes.max(1)).min(AFTERWARDS);
        let blocks: Vec<_> = (0..count).map(|number| allocate_numbered(self.c, self.bytes, 1000 + number)).collect();
        let mut is_well = blocks.iter().enumerate().all(|(at, &block)| is_number(block, self.bytes, 1000 + at));
        is_well &= self.neighbours.iter().enumerate().all(|(at, &block)| is_number(block, self.bytes, 2 * at));
        blocks.into_iter().chain(self.neighbours.drain(..)).for_each(|block| self.c.free(block));
        is_well
    }
}

/// A block with its number, as often as it has room for it.
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
    // SAFETY: the block is in use, and so long.
    let all = unsafe { std::slice::from_raw_parts(block, if block.is_null() { 0 } else { bytes }) };
    all.iter().zip(number.to_le_bytes().iter().cycle()).all(|(at, byte)| at == byte)
}
