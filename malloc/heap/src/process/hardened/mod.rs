//! Hardened mode, in which a process detects misuse of its memory: `hardened=on`.
//!
//! Each block has a seal behind its last byte, which records the state of the block ([`seal`]). A freed block is
//! overwritten and held for a while before it is reused ([`quarantine`]). A block that is larger than an object ends
//! before inaccessible pages, and is itself inaccessible while it is held. Detected misuse is reported and terminates
//! the program ([`report`]). An access that the kernel stops is reported as well ([`faults`]).
//!
//! ```text
//! detected at once   a free of an address that is not a block, is inside of a block, or is free already
//!                    a block that was written beyond its end, when it is freed, resized or measured
//!                    a write before a block, when the block before it is freed, resized or measured
//!                    a size that differs from the block's, where C or C++ pass one
//!                    an access beyond a large block, or to a free large block
//! detected later     a write to a free small block: when the block leaves the quarantine, or at exit
//! not detected       a read of a free small block, which reads a pattern that is not an address
//!                    a write to memory far from any block's end
//! ```
//!
//! Requests take objects from the CPU's cache as in any process, but on a longer path. New slabs hand out their
//! objects in random order.
//!
//! # Design
//!
//! Hardening is a mode and not a build. Fast paths read one word that shows whether the heap exists. In a hardened
//! process that word shows no heap, so every request takes the slow path, and other processes pay nothing. The blocks
//! are ordinary blocks of the engine and of the runs, with a seal inside that neither of them interprets.
//!
//! A block enters the quarantine in place of another one by one atomic step. It needs no lock and may happen in a
//! signal handler. A seal is checked when a block is freed and not when it is allocated: the pages may have belonged to
//! other caches in between, so the contents of a free place prove nothing.

mod faults;
mod origin;
mod quarantine;
mod report;
mod seal;

use core::ptr::NonNull;

use super::{AnyHeap, Block, MALLOC, NESTED, PAGE, Place, RETURNS, Site, enter, free_within, frontend_of, with_heap};
use crate::process::parts::Malloc;
use freehold::slab::cpu::PushOutcome;
use origin::{Origin, find_origin};
use quarantine::{HeldRun, QUARANTINE};
use report::{Misuse, end};
use seal::{SEAL, Slot, State};

/// Divisor of the address range of runs, for the most address space that held runs may take.
const HELD_SHARE: usize = 8;
/// Bytes of the smallest block. A held block must have room for the site of its free.
const SIZE_MIN: usize = 8;

/// Information about a block that a free may pass besides the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestedSize {
    /// No further information.
    Nothing,
    /// The requested bytes.
    Bytes(usize),
}

/// Prepares the mode, before the first block is allocated.
pub(super) fn prepare(secret: u64) {
    seal::set_secret(secret);
    faults::watch();
}

/// Allocates a block, and seals it; returns `None` if there is no memory.
#[inline]
pub(super) fn allocate(malloc: &'static Malloc, size: usize, align: usize, site: Site) -> Option<Block> {
    let gross = size.max(SIZE_MIN).checked_add(SEAL)?;
    let place = Place::find(gross, align)?;
    if let Place::Object { size: stride } = place
        && let AnyHeap::Rseq(heap) = &malloc.heap
        && let Some(start) = frontend_of(heap).alloc_fast(stride)
    {
        Slot::new(start, heap.slab().size_of_request(stride)).seal(size, site);
        return Some(Block { start, is_zero: false });
    }
    allocate_slow(malloc, place, align, size, site)
}

#[cold]
#[inline(never)]
fn allocate_slow(malloc: &'static Malloc, place: Place, align: usize, size: usize, site: Site) -> Option<Block> {
    let block = match place {
        Place::Object { size: stride } => super::allocate_object(stride, align).or_else(|| {
            release_all(malloc);
            super::allocate_object(stride, align)
        }),
        Place::Run { pages, align } => allocate_run(malloc, pages, align),
    }?;
    if !NESTED.contains(block.start.as_ptr().addr()) {
        slot_of(malloc, block.start).ok()?.seal(size, site);
    }
    Some(block)
}

fn allocate_run(malloc: &'static Malloc, pages: u32, align: u32) -> Option<Block> {
    let Some(_within) = enter() else { return super::allocate_nested(pages as usize * PAGE, align as usize * PAGE) };
    let run = malloc.runs.alloc_guarded(pages, align).or_else(|_| {
        release_runs(malloc, 0);
        malloc.unmap_free();
        malloc.runs.alloc_guarded(pages, align)
    });
    RETURNS.after_growth(malloc);
    run.ok().map(|run| Block { start: run.start, is_zero: run.is_zero })
}

/// Frees a block, and holds it in the quarantine. Null is ignored. Terminates the program if misuse is detected.
#[inline]
pub(super) fn free(malloc: &'static Malloc, object: *mut u8, requested: RequestedSize, site: Site) {
    let Some(start) = NonNull::new(object) else { return };
    let address = object.addr();
    if NESTED.contains(address) {
        return;
    }
    let slot = live(malloc, start, site);
    if let RequestedSize::Bytes(bytes) = requested
        && bytes != slot.requested()
    {
        end(start, &Misuse::Size { bytes }, Some(&slot), site);
    }
    if malloc.runs.contains(address) {
        return free_run(malloc, slot, site);
    }
    slot.hold(site);
    if let Some(left) = QUARANTINE.swap(malloc.cpu(), slot) {
        release(malloc, left);
    }
}

/// Returns the requested bytes of a block. Terminates the program if misuse is detected.
pub(super) fn usable(malloc: &'static Malloc, start: NonNull<u8>, site: Site) -> usize {
    live(malloc, start, site).requested()
}

/// Changes the requested size of a block in place, if its memory fits the new size well, and returns whether it does.
/// Terminates the program if misuse is detected.
pub(super) fn resize_in_place(malloc: &'static Malloc, start: NonNull<u8>, size: usize, site: Site) -> bool {
    let slot = live(malloc, start, site);
    let fits = slot.is_about(size.saturating_add(SEAL));
    if fits {
        slot.seal(size, site);
    }
    fits
}

/// Checks all held objects at exit; held runs are inaccessible and are not checked. If one was written to, it is
/// reported and the program is terminated.
pub fn check_held() {
    if let Some(malloc) = MALLOC.hardened() {
        // Blocks are taken out of the quarantine, so that no thread that still runs reuses one before it is checked.
        QUARANTINE.take_all(|slot| expect_untouched(malloc, slot));
    }
}

/// Returns the block in use at an address. Terminates the program if there is none, or if it was written beyond its
/// end.
#[inline]
fn live(malloc: &'static Malloc, start: NonNull<u8>, site: Site) -> Slot {
    let slot = slot_of(malloc, start).unwrap_or_else(|misuse| end(start, &misuse, None, site));
    if slot.is_live() && slot.is_whole() {
        return slot;
    }
    match slot.state() {
        State::Live => end(start, &Misuse::Overrun, Some(&slot), site),
        State::Held => end(start, &Misuse::DoubleFree, Some(&slot), site),
        State::Broken => end_broken(malloc, slot, site),
    }
}

/// Reports an invalid seal, and terminates the program: the block has overflowed, or the program wrote before the next
/// block.
#[cold]
fn end_broken(malloc: &'static Malloc, slot: Slot, site: Site) -> ! {
    let Some(next) = next_block(malloc, slot) else { end(slot.start(), &Misuse::Broken, Some(&slot), site) };
    match find_origin(&slot) {
        Origin::NextBlock => end(next.start(), &Misuse::Before, Some(&next), site),
        Origin::OwnBlock => end(slot.start(), &Misuse::Overrun, Some(&slot), site),
        Origin::Undecided => end(slot.start(), &Misuse::Between { next }, Some(&slot), site),
    }
}

/// Reports an invalid seal of a held block whose other bytes are unchanged, and terminates the program.
#[cold]
fn end_broken_held(malloc: &'static Malloc, slot: Slot) -> ! {
    let (start, site) = (slot.start(), Site::UNKNOWN);
    let Some(next) = next_block(malloc, slot) else { end(start, &Misuse::UseAfterFree, Some(&slot), site) };
    match find_origin(&slot) {
        Origin::NextBlock => end(next.start(), &Misuse::Before, Some(&next), site),
        Origin::OwnBlock | Origin::Undecided => end(start, &Misuse::AfterFreeOrBefore { next }, Some(&slot), site),
    }
}

/// Returns the memory of the object directly behind an object; `None` behind the last object of a slab, and for a run.
fn next_block(malloc: &'static Malloc, slot: Slot) -> Option<Slot> {
    let next = NonNull::new(slot.start().as_ptr().wrapping_add(slot.bytes()))?;
    if malloc.runs.contains(next.as_ptr().addr()) { None } else { slot_of(malloc, next).ok() }
}

/// Returns the memory of the block at an address, from its first byte to the end of its seal.
///
/// # Errors
/// If no object starts at the address, and no run in use does.
#[inline]
fn slot_of(malloc: &'static Malloc, start: NonNull<u8>) -> Result<Slot, Misuse> {
    let bytes = with_heap!(&malloc.heap, heap => heap.slab().object_bytes(start));
    if let Some(bytes) = bytes {
        return Ok(Slot::new(start, bytes));
    }
    slot_of_other(malloc, start)
}

#[cold]
#[inline(never)]
fn slot_of_other(malloc: &'static Malloc, start: NonNull<u8>) -> Result<Slot, Misuse> {
    if malloc.runs.contains(start.as_ptr().addr()) {
        return malloc.runs.usable_guarded(start).map(|bytes| Slot::new(start, bytes)).map_err(Misuse::Run);
    }
    let bytes = with_heap!(&malloc.heap, heap => heap.slab().ksize(start));
    bytes.map(|bytes| Slot::new(start, bytes)).map_err(Misuse::Object)
}

/// Returns the memory of a block at an address that is known to be one. Terminates the program if it is not.
fn slot_at(malloc: &'static Malloc, start: NonNull<u8>) -> Slot {
    slot_of(malloc, start).unwrap_or_else(|misuse| end(start, &misuse, None, Site::UNKNOWN))
}

/// Frees a block that leaves the quarantine, after a check that it was not written to.
fn release(malloc: &'static Malloc, slot: Slot) {
    expect_untouched(malloc, slot);
    slot.release();
    let start = slot.start();
    if let AnyHeap::Rseq(heap) = &malloc.heap
        // SAFETY: the program freed the block, and it was taken out of the quarantine, so this call is its only owner.
        && unsafe { frontend_of(heap).free_fast(start.as_ptr()) } == PushOutcome::Done
    {
        return;
    }
    match enter() {
        Some(_within) => free_within(start),
        // SAFETY: the program freed the block, this call is its only owner, and each block has at least three words.
        None => unsafe { NESTED.defer(start) },
    }
}

fn expect_untouched(malloc: &'static Malloc, slot: Slot) {
    if slot.is_held() && slot.is_untouched() {
        return;
    }
    match slot.state() {
        State::Live => end(slot.start(), &Misuse::ConcurrentFree, Some(&slot), Site::UNKNOWN),
        State::Broken if slot.is_untouched() => end_broken_held(malloc, slot),
        State::Held | State::Broken => end(slot.start(), &Misuse::UseAfterFree, Some(&slot), Site::UNKNOWN),
    }
}

/// Frees a block whose free was deferred within a slow path: an object that has left the quarantine, or a run.
pub(super) fn free_deferred(malloc: &'static Malloc, object: NonNull<u8>) {
    if malloc.runs.contains(object.as_ptr().addr()) {
        hold_run(malloc, slot_at(malloc, object), Site::UNKNOWN);
    } else {
        free_within(object);
    }
}

/// Holds a run, and releases the run that leaves the quarantine for it.
fn free_run(malloc: &'static Malloc, slot: Slot, site: Site) {
    // SAFETY: the caller of `free` promised that the block is not used any more, and a run has at least 8 bytes.
    let Some(_within) = enter() else { return unsafe { NESTED.defer(slot.start()) } };
    hold_run(malloc, slot, site);
}

fn hold_run(malloc: &'static Malloc, slot: Slot, site: Site) {
    let (requested, allocated) = (slot.requested(), slot.allocated());
    RETURNS.look_at_huge_pages(malloc);
    // SAFETY: the caller of `free` promised that the block is not used any more.
    let run = unsafe { malloc.runs.hold(slot.start()) }
        .unwrap_or_else(|error| end(slot.start(), &Misuse::Run(error), None, site));
    let held = HeldRun { start: slot.start().as_ptr().addr(), requested, allocated, freed: site, run };
    if let Some(left) = QUARANTINE.push_run(held) {
        malloc.runs.release(left.run);
    }
    release_runs(malloc, malloc.runs.range().bytes() / HELD_SHARE);
}

/// Empties the quarantine, so that its memory can be reused. Within a slow path, held runs stay.
fn release_all(malloc: &'static Malloc) {
    QUARANTINE.take_all(|slot| release(malloc, slot));
    if let Some(_within) = enter() {
        release_runs(malloc, 0);
    }
}

/// Releases held runs until the rest takes at most `bytes` bytes of addresses. Called within a slow path.
fn release_runs(malloc: &'static Malloc, bytes: usize) {
    while let Some(left) = QUARANTINE.pop_run(bytes) {
        malloc.runs.release(left.run);
    }
}
