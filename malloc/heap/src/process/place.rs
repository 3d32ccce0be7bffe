//! Kinds of memory: an object of the heap, or a run of pages.

use super::{Block, MALLOC, NESTED, PAGE, RETURNS, enter, ticks};

/// Bytes of the largest object. A larger request gets a run.
const OBJECT_MAX: usize = 32 << 10;
/// Largest alignment of an object in bytes.
const OBJECT_ALIGN_MAX: usize = PAGE;

/// Kind of memory that serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// An object of `size` bytes, whose alignment follows from its size.
    Object { size: usize },
    /// A run of `pages` pages that starts at a multiple of `align` pages.
    Run { pages: u32, align: u32 },
}

impl Place {
    /// Returns the place for a request, or `None` if no place can serve it. If `size` is a multiple of an alignment,
    /// the object has this alignment as well: the sizes from one power of two to the next are multiples of the
    /// same step, so the next larger size is a multiple of the same power of two.
    #[inline]
    pub(super) fn find(size: usize, align: usize) -> Option<Place> {
        if !align.is_power_of_two() || size > isize::MAX as usize {
            return None;
        }
        let size = size.max(1);
        let stride = size.checked_next_multiple_of(align)?;
        if stride <= OBJECT_MAX && align <= OBJECT_ALIGN_MAX {
            return Some(Place::Object { size: stride });
        }
        let pages = u32::try_from(size.div_ceil(PAGE)).ok()?;
        let align = u32::try_from(align.div_ceil(PAGE)).ok()?;
        Some(Place::Run { pages, align })
    }

    /// Allocates memory of this kind without the fast path; returns `None` if there is no memory.
    #[inline]
    pub(super) fn allocate(self, align: usize) -> Option<Block> {
        match self {
            Place::Object { size } => allocate_object(size, align),
            Place::Run { pages, align } => allocate_run(pages, align),
        }
    }
}

#[inline(never)]
pub(super) fn allocate_object(size: usize, align: usize) -> Option<Block> {
    let Some(_entered) = enter() else { return allocate_nested(size, align) };
    let malloc = MALLOC.or_start()?;
    malloc.note_cpu(ticks::now());
    let object = malloc.alloc_object(size).or_else(|| {
        // Free runs may hold memory that the heap could use.
        malloc.unmap_free();
        malloc.alloc_object(size)
    });
    malloc.take_more_if_short();
    RETURNS.after_growth(malloc);
    object.map(|start| Block { start, is_zero: false })
}

#[inline(never)]
pub(super) fn allocate_run(pages: u32, align: u32) -> Option<Block> {
    if align == 1
        && let Some(malloc) = MALLOC.get()
        && let Some(run) = malloc.runs.alloc_cached(malloc.cpu(), pages)
    {
        return Some(Block { start: run.start, is_zero: run.is_zero });
    }
    let Some(_entered) = enter() else { return allocate_nested(pages as usize * PAGE, align as usize * PAGE) };
    let malloc = MALLOC.or_start()?;
    let run = malloc.runs.alloc(pages, align).or_else(|_| {
        malloc.unmap_free();
        malloc.runs.alloc(pages, align)
    });
    RETURNS.after_growth(malloc);
    run.ok().map(|run| Block { start: run.start, is_zero: run.is_zero })
}

pub(super) fn allocate_nested(size: usize, align: usize) -> Option<Block> {
    // A block must have room for an address, which links it into the deferred list when it is freed.
    NESTED.alloc(size.max(8), align).map(|start| Block { start, is_zero: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(size: usize) -> Option<Place> {
        Some(Place::Object { size })
    }

    fn run(pages: u32, align: u32) -> Option<Place> {
        Some(Place::Run { pages, align })
    }

    #[test]
    fn requests_map_to_an_object_size_or_a_run() {
        assert_eq!(Place::find(0, 8), object(8));
        assert_eq!(Place::find(1, 1), object(1));
        assert_eq!(Place::find(8, 16), object(16));
        assert_eq!(Place::find(9, 16), object(16));
        assert_eq!(Place::find(100, 64), object(128));
        assert_eq!(Place::find(520, 256), object(768));
        assert_eq!(Place::find(1, 4096), object(4096));
        assert_eq!(Place::find(32 << 10, 16), object(32 << 10));
        assert_eq!(Place::find((32 << 10) + 1, 16), run(9, 1));
        assert_eq!(Place::find(100, 8192), run(1, 2));
        assert_eq!(Place::find(100, 24), None);
        assert_eq!(Place::find(usize::MAX, 16), None);
        assert_eq!(Place::find(isize::MAX as usize, 16), None);
    }
}
