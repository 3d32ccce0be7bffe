//! Resizing of blocks, in place or by a move.

use core::ptr::NonNull;

use super::hardened::RequestedSize;
use super::{
    Block, MALLOC, NESTED, PAGE, Place, RETURNS, Site, allocate, enter, free_any, free_fast, hardened, object_bytes,
    profile, sandbox, ticks, usable,
};

/// Bytes from which pages are moved instead of copied. A smaller block is copied as fast as the system call moves it.
const MOVED: usize = 4 << 20;

/// Result of [`resize`].
#[derive(Clone, Copy, Debug)]
pub enum ResizeOutcome {
    /// The block has the new size at its old address.
    InPlace,
    /// The contents are at a new address, and the old block was freed.
    Moved(NonNull<u8>),
}

/// Changes the size of a block. The block stays in place if that is possible and does not waste more than half of it;
/// otherwise its contents move to a new block. Returns `None` if there is no memory, or if the alignment is not a power
/// of two; the old block is unchanged then.
///
/// # Safety
/// The block belongs to the caller. If it moved, the old block is not used any more.
pub unsafe fn resize(start: NonNull<u8>, size: usize, align: usize, site: Site) -> Option<ResizeOutcome> {
    let (old, fits) = match object_bytes(start.as_ptr()) {
        Some(old) => (old, Place::find(size, align)?.fits_object(old)),
        None => {
            // SAFETY: the caller promises that the block belongs to it.
            let old = unsafe { usable(start, site) };
            (old, fits_in_place(start, old, size, align, site)?)
        }
    };
    if fits {
        return Some(ResizeOutcome::InPlace);
    }
    let Some(new) = allocate(size, align, site) else {
        // The failed request has returned free memory, which a limit of memory may let the block have in place. A
        // smaller size needs no memory.
        let is_smaller = size <= old && MALLOC.hardened().is_none();
        return (is_smaller || fits_in_place(start, old, size, align, site)?).then_some(ResizeOutcome::InPlace);
    };
    // SAFETY: the caller owns the old block of `old` bytes; the new one was just allocated, so the two do not overlap.
    // The block has moved, and the caller has promised not to use the old one any more.
    unsafe {
        carry_over(start, old, new, size);
        if !free_fast(start.as_ptr()) {
            free_any(start.as_ptr(), RequestedSize::Nothing, site);
        }
    }
    Some(ResizeOutcome::Moved(new.start))
}

/// Returns whether an object serves a request of `size` bytes with the natural alignment without a move. Also `false`
/// for null, for blocks that are no objects, for requests of 0 bytes, and without restartable sequences.
#[inline(always)]
pub fn object_fits(object: *mut u8, size: usize) -> bool {
    // The bytes of an object are a multiple of its natural alignment, so the request need not be rounded up.
    size > 0 && object_bytes(object).is_some_and(|old| Place::Object { size }.fits_object(old))
}

impl Place {
    /// Returns whether a block of this kind may stay in an object of `old` bytes. An object that would be less than
    /// half full moves to a smaller one, except objects of up to 64 bytes.
    #[inline(always)]
    fn fits_object(self, old: usize) -> bool {
        matches!(self, Place::Object { size } if size <= old && (size > old / 2 || old <= 64))
    }
}

/// Returns whether the block now has the requested size in place; `None` if no block can have this size and alignment.
fn fits_in_place(start: NonNull<u8>, old: usize, size: usize, align: usize, site: Site) -> Option<bool> {
    let place = Place::find(size, align)?;
    if let Some(malloc) = MALLOC.hardened() {
        let is_nested = NESTED.contains(start.as_ptr().addr());
        return Some(!is_nested && hardened::resize_in_place(malloc, start, size, site));
    }
    let is_run = MALLOC.get().is_some_and(|malloc| malloc.runs.contains(start.as_ptr().addr()));
    let fits = match place {
        Place::Run { pages, .. } if is_run => pages as usize * PAGE == old || resize_run(start, old, pages),
        place => !is_run && place.fits_object(old),
    };
    if fits && is_run {
        profile::note_resize(start, size);
    }
    Some(fits)
}

/// Changes the length of a run in place, if the pages behind it allow that.
fn resize_run(start: NonNull<u8>, old: usize, pages: u32) -> bool {
    let Some(_within) = enter() else { return (pages as usize * PAGE) <= old };
    let Some(malloc) = MALLOC.get() else { return false };
    let is_resized = malloc.runs.resize(start, pages, ticks::now());
    RETURNS.after_growth(malloc);
    is_resized
}

/// Copies or moves the contents of an old block to a new one, up to the smaller of the two sizes.
///
/// # Safety
/// Both blocks belong to the caller and do not overlap. The old one has `bytes` bytes, the new one at least `size`.
unsafe fn carry_over(old: NonNull<u8>, bytes: usize, new: Block, size: usize) {
    let count = bytes.min(size);
    if count >= MOVED
        && let Some(malloc) = MALLOC.get()
        && MALLOC.hardened().is_none()
        && !sandbox::is_restricted()
        && [old, new.start].iter().all(|block| malloc.runs.contains(block.as_ptr().addr()))
    {
        let pages = count.div_ceil(PAGE) as u32;
        // SAFETY: the caller promises that both runs belong to it, so no other thread uses them during the call.
        if unsafe { malloc.runs.move_pages(old, new.start, pages) }.is_ok() {
            return;
        }
    }
    // SAFETY: `count` is at most the size of each block, and the caller promises that the blocks do not overlap.
    unsafe { new.start.copy_from_nonoverlapping(old, count) };
}
