//! Statistics of the memory that the process's malloc holds.

use core::fmt;

use freehold::slab::{Cache, CacheUsage};

use super::parts::Malloc;
use super::usage::Mebibytes;
use super::{AnyHeap, MALLOC, enter, with_heap};

/// Memory of the process's malloc in bytes, by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Objects in use, at the sizes of their caches, and free objects in sheaves of CPUs and nodes.
    pub objects: usize,
    /// Pages of slabs beyond these objects.
    pub idle_in_slabs: usize,
    /// Runs in use, and runs in CPUs' caches.
    pub runs: usize,
    /// Free pages that may have memory.
    pub free: usize,
    /// Pages that were returned to the system.
    pub returned: usize,
}

/// Returns a summary of the process's malloc. Returns `None` before the first request, if no heap could be created, and
/// in a signal handler that interrupts the allocator.
pub fn summary() -> Option<Summary> {
    let malloc = MALLOC.get()?;
    let _within = enter()?;
    Some(malloc.summary())
}

/// Passes each cache with its usage to `visit`; returns `None` under the conditions of [`summary`].
pub fn each_size(mut visit: impl FnMut(&Cache, CacheUsage)) -> Option<()> {
    let malloc = MALLOC.get()?;
    let _within = enter()?;
    with_heap!(&malloc.heap, heap => heap.each_size(&mut visit));
    Some(())
}

/// Writes the heap's number of free blocks of pages for each order, in the format of `/proc/buddyinfo`. Writes nothing
/// under the conditions of [`summary`].
///
/// # Errors
/// Those of the writer.
pub fn write_free_blocks(to: &mut dyn fmt::Write) -> fmt::Result {
    let Some((malloc, _within)) = MALLOC.get().zip(enter()) else { return Ok(()) };
    with_heap!(&malloc.heap, heap => heap.write_free_blocks(to))
}

/// Returns all free memory to the system, and returns whether the amount of free memory decreased. Does nothing under
/// the conditions of [`summary`].
pub fn trim() -> bool {
    let Some(malloc) = MALLOC.get() else { return false };
    let Some(_within) = enter() else { return false };
    let before = malloc.measure().free;
    malloc.give_all_back();
    malloc.measure().free < before
}

impl Malloc {
    fn summary(&self) -> Summary {
        let heap = with_heap!(&self.heap, heap => heap.usage());
        let runs = self.runs.usage();
        let mut objects = 0;
        with_heap!(&self.heap, heap => heap.each_size(|cache, usage| {
            objects += usage.active as usize * cache.object_size() as usize;
        }));
        Summary {
            objects,
            idle_in_slabs: heap.online.saturating_sub(heap.free + heap.returned + objects),
            runs: runs.used,
            free: heap.free + runs.backed,
            returned: heap.returned,
        }
    }
}

/// Formats the memory in MiB.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { objects, idle_in_slabs, runs, free, returned } = *self;
        let [objects, idle] = [objects, idle_in_slabs].map(Mebibytes);
        let [runs, free, returned] = [runs, free, returned].map(Mebibytes);
        write!(f, "objects {objects}, idle {idle}, runs {runs}, free {free}, returned {returned}")
    }
}
