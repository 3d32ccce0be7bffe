//! Memory of another size with what was in the old one.

use core::ptr::NonNull;

use super::hardened::RequestedSize;
use super::{Block, MALLOC, NESTED, PAGE, Place, Site, allocate, enter, free_any, hardened, profile, returns, usable};

/// Bytes from which pages are moved rather than copied: below, a copy is as fast as the system call.
const MOVED: usize = 4 << 20;

/// What became of a block.
#[derive(Clone, Copy, Debug)]
pub enum ResizeOutcome {
    /// It has the size where it is.
    InPlace,
    /// What was in it is at another address, and the old block was given back.
    Moved(NonNull<u8>),
}

/// Makes a block as large as that: where it is, if that can be and does not waste more than half of it; else elsewhere.
/// `None` if there is no memory, and the old block stays as it is.
///
/// # Safety
/// The caller has the block. If it moved, nobody uses the old one any more.
pub unsafe fn resize(start: NonNull<u8>, size: usize, align: usize, site: Site) -> Option<ResizeOutcome> {
    // SAFETY: the caller has it.
    let old = unsafe { usable(start, site) };
    if fits_in_place(start, old, size, align, site)? {
        return Some(ResizeOutcome::InPlace);
    }
    let new = allocate(size, align, site)?;
    // SAFETY: both are ours, and apart.
    unsafe { carry_over(start, old, new, size) };
    // The caller gave it up, since it has moved.
    free_any(start.as_ptr(), RequestedSize::Nothing, site);
    Some(ResizeOutcome::Moved(new.start))
}

/// Whether the block has as many bytes now, where it is.
fn fits_in_place(start: NonNull<u8>, old: usize, size: usize, align: usize, site: Site) -> Option<bool> {
    let place = Place::find(size, align)?;
    if let Some(malloc) = MALLOC.hardened() {
        let is_nested = NESTED.contains(start.as_ptr().addr());
        return Some(!is_nested && hardened::resize_in_place(malloc, start, size, site));
    }
    let is_run = MALLOC.get().is_some_and(|malloc| malloc.runs.contains(start.as_ptr().addr()));
    let fits = match place {
        Place::Run { pages, .. } if is_run => pages as usize * PAGE == old || resize_run(start, old, pages),
        // An object that is less than half full moves to a smaller one, but for the smallest.
        Place::Object { size } if !is_run => size <= old && (size > old / 2 || old <= 64),
        _ => false,
    };
    if fits && is_run {
        profile::note_resize(start, size);
    }
    Some(fits)
}

/// Makes a run as many pages long, if what lies behind it lets it.
fn resize_run(start: NonNull<u8>, old: usize, pages: u32) -> bool {
    let Some(_within) = enter() else { return (pages as usize * PAGE) <= old };
    MALLOC.get().is_some_and(|malloc| malloc.runs.resize(start, pages, returns::now()))
}

/// # Safety
/// The blocks are the caller's, and apart; the old one is of `bytes`.
unsafe fn carry_over(old: NonNull<u8>, bytes: usize, new: Block, size: usize) {
    let count = bytes.min(size);
    if let Some(malloc) = MALLOC.get()
        && MALLOC.hardened().is_none()
        && count >= MOVED
        && [old, new.start].iter().all(|block| malloc.runs.contains(block.as_ptr().addr()))
    {
        let pages = count.div_ceil(PAGE) as u32;
        // SAFETY: the runs are the caller's, and nobody uses them.
        if unsafe { malloc.runs.move_pages(old, new.start, pages) }.is_ok() {
            return;
        }
    }
    // SAFETY: both have so many bytes.
    unsafe { new.start.copy_from_nonoverlapping(old, count) };
}
