//! A process that notices when it misuses its memory: `hardened=on`.
//!
//! Each block has a seal behind its last byte, which says what became of it ([`seal`]). One that is given back is
//! overwritten and held for a while before it is used again ([`quarantine`]). What is larger than an object ends before pages
//! that nobody can access, and is inaccessible while it is held. What is noticed is told, and ends the program
//! ([`report`]); an access that the kernel stops is told, too ([`faults`]).
//!
//! ```text
//! noticed at once       what is no block, is inside of one, is free already; one that was written beyond its end; a size
//!                       that is not the block's, where C or C++ say one; an access beyond a large block, or to a free one
//! noticed later         a write to a small block that is free: when it leaves those that are held, or at the exit
//! not noticed           a read of a small block that is free (it reads a pattern, which is no address); a write far away
//! ```
//!
//! Requests find objects with their CPU as in any process, if by a longer way. New slabs hand out theirs in random
//! order.

mod faults;
mod quarantine;
mod report;
mod seal;

use core::ptr::NonNull;

use super::{AnyHeap, Block, MALLOC, NESTED, PAGE, Place, RETURNS, Site, enter, free_within, frontend_of, with_heap};
use crate::process::start::Malloc;
use freehold::slab::cpu::PushOutcome;
use quarantine::{HeldRun, QUARANTINE};
use report::{Misuse, end};
use seal::{SEAL, Slot, State};

/// Runs that are held have this part of the addresses for runs at most.
const HELD_SHARE: usize = 8;
/// Bytes of the smallest block: a held one says who gave it back.
const SIZE_MIN: usize = 8;

/// What a free may say of a block beside its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestedSize {
    /// Nothing.
    Nothing,
    /// Bytes of it.
    Bytes(usize),
}

/// Makes ready, before there is a block.
pub(super) fn prepare(secret: u64) {
    seal::set_secret(secret);
    faults::watch();
}

/// Memory behind which there is a seal.
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
        malloc.runs.alloc_guarded(pages, align)
    });
    RETURNS.after_growth(malloc);
    run.ok().map(|run| Block { start: run.start, is_zero: run.is_zero })
}

/// Takes a block back, and holds it.
#[inline]
pub(super) fn free(malloc: &'static Malloc, object: *mut u8, asked: RequestedSize, site: Site) {
    let Some(start) = NonNull::new(object) else { return };
    let address = object.addr();
    if NESTED.contains(address) {
        return;
    }
    let slot = live(malloc, start, site);
    if let RequestedSize::Bytes(bytes) = asked
        && bytes != slot.asked()
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

/// Bytes that were asked for.
pub(super) fn usable(malloc: &'static Malloc, start: NonNull<u8>, site: Site) -> usize {
    live(malloc, start, site).asked()
}

/// Makes a block as large as that where it is, if it would not be worth less elsewhere.
pub(super) fn resize_in_place(malloc: &'static Malloc, start: NonNull<u8>, size: usize, site: Site) -> bool {
    let slot = live(malloc, start, site);
    let fits = slot.is_about(size.saturating_add(SEAL));
    if fits {
        slot.seal(size, site);
    }
    fits
}

/// Looks at all blocks that are held: at the exit, whoever wrote to one is told.
pub fn check_held() {
    if MALLOC.hardened().is_some() {
        // Taken, so that no thread that goes on hands it out before it is looked at.
        QUARANTINE.take_all(expect_untouched);
    }
}

/// The block that is in use at an address; the program ends if there is none, or it was written beyond its end.
#[inline]
fn live(malloc: &'static Malloc, start: NonNull<u8>, site: Site) -> Slot {
    let slot = slot_of(malloc, start).unwrap_or_else(|misuse| end(start, &misuse, None, site));
    if slot.is_live() && slot.is_whole() {
        return slot;
    }
    match slot.state() {
        State::Live => end(start, &Misuse::Overrun, Some(&slot), site),
        State::Held => end(start, &Misuse::DoubleFree, Some(&slot), site),
        State::Broken => end(start, &Misuse::Broken, Some(&slot), site),
    }
}

/// All bytes from where a block begins to behind its seal.
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

/// The same for a block that is known to be one.
fn slot_at(malloc: &'static Malloc, start: NonNull<u8>) -> Slot {
    slot_of(malloc, start).unwrap_or_else(|misuse| end(start, &misuse, None, Site::UNKNOWN))
}

/// A block that was held long enough: nobody wrote to it, and it may be used again.
fn release(malloc: &'static Malloc, slot: Slot) {
    expect_untouched(slot);
    slot.release();
    let start = slot.start();
    if let AnyHeap::Rseq(heap) = &malloc.heap
        // SAFETY: it was given up by whoever freed it, and nobody else has it.
        && unsafe { frontend_of(heap).free_fast(start.as_ptr()) } == PushOutcome::Done
    {
        return;
    }
    match enter() {
        Some(_within) => free_within(start),
        // SAFETY: it was given up by whoever freed it.
        None => unsafe { NESTED.defer(start) },
    }
}

fn expect_untouched(slot: Slot) {
    if slot.is_held() && slot.is_untouched() {
        return;
    }
    match slot.state() {
        State::Live => end(slot.start(), &Misuse::ConcurrentFree, Some(&slot), Site::UNKNOWN),
        _ => end(slot.start(), &Misuse::UseAfterFree, Some(&slot), Site::UNKNOWN),
    }
}

/// Frees what was given back within a slow path of its own thread: an object that was held long enough, or a run.
pub(super) fn free_deferred(malloc: &'static Malloc, object: NonNull<u8>) {
    if malloc.runs.contains(object.as_ptr().addr()) {
        hold_run(malloc, slot_at(malloc, object), Site::UNKNOWN);
    } else {
        free_within(object);
    }
}

/// Gives a run up, and another one back that was held long enough.
fn free_run(malloc: &'static Malloc, slot: Slot, site: Site) {
    // SAFETY: the caller of `free` gave it up.
    let Some(_within) = enter() else { return unsafe { NESTED.defer(slot.start()) } };
    hold_run(malloc, slot, site);
}

fn hold_run(malloc: &'static Malloc, slot: Slot, site: Site) {
    let (asked, allocated) = (slot.asked(), slot.allocated());
    // SAFETY: the caller of `free` gave it up.
    let run = unsafe { malloc.runs.hold(slot.start()) }
        .unwrap_or_else(|error| end(slot.start(), &Misuse::Run(error), None, site));
    let held = HeldRun { start: slot.start().as_ptr().addr(), asked, allocated, freed: site, run };
    if let Some(left) = QUARANTINE.push_run(held) {
        malloc.runs.release(left.run);
    }
    release_runs(malloc, malloc.runs.range().bytes() / HELD_SHARE);
}

/// Lets go of all that is held, so that it can be used again.
fn release_all(malloc: &'static Malloc) {
    QUARANTINE.take_all(|slot| release(malloc, slot));
    if let Some(_within) = enter() {
        release_runs(malloc, 0);
    }
}

/// Lets go of runs that are held, until they have no more than so many bytes of addresses. Within a slow path.
fn release_runs(malloc: &'static Malloc, bytes: usize) {
    while let Some(left) = QUARANTINE.pop_run(bytes) {
        malloc.runs.release(left.run);
    }
}
