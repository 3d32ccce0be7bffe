//! Statistics of the memory that the process's malloc holds.

use core::fmt;

use freehold::slab::cpu::CACHES_MAX;
use freehold::slab::{Cache, CacheUsage};

use super::parts::Malloc;
use super::usage::Mebibytes;
use super::{AnyHeap, MALLOC, enter, with_heap};

/// Memory of the process's malloc in bytes, by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Objects in use by the program, at the sizes of their caches.
    pub objects: usize,
    /// Free objects in sheaves of CPUs and nodes, and the sheaves themselves.
    pub cached_objects: usize,
    /// Pages of slabs beyond these objects.
    pub idle_in_slabs: usize,
    /// Runs in use by the program.
    pub runs: usize,
    /// Free runs in CPUs' caches.
    pub cached_runs: usize,
    /// Free pages that may have memory.
    pub free: usize,
    /// Free pages without memory: they were returned to the system, or were never used.
    pub returned: usize,
}

/// Memory of one size in bytes, by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeSummary {
    /// Bytes of an object.
    pub size: usize,
    /// Objects in use by the program.
    pub live: usize,
    /// Free objects in sheaves of CPUs and nodes, or all objects if they are sheaves themselves.
    pub cached: usize,
    /// Pages of slabs beyond these objects.
    pub kept: usize,
    /// Number of slabs.
    pub slabs: u64,
}

/// Returns a summary of the process's malloc. Returns `None` before the first request, if no heap could be created, and
/// in a signal handler that interrupts the allocator.
pub fn summary() -> Option<Summary> {
    let malloc = MALLOC.get()?;
    let _within = enter()?;
    Some(malloc.summarize(&mut |_| {}))
}

/// Passes each cache with its usage to `visit`; returns `None` under the conditions of [`summary`].
pub fn each_size(mut visit: impl FnMut(&Cache, CacheUsage)) -> Option<()> {
    let malloc = MALLOC.get()?;
    let _within = enter()?;
    with_heap!(&malloc.heap, heap => heap.each_size(&mut visit));
    Some(())
}

/// Returns a summary and the memory of each size, of one walk over the heap. Returns `None` under the conditions of
/// [`summary`].
pub fn snapshot() -> Option<Snapshot> {
    let malloc = MALLOC.get()?;
    let _within = enter()?;
    let mut snapshot = Snapshot::default();
    snapshot.summary = malloc.summarize(&mut |size| snapshot.push(size));
    Some(snapshot)
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

/// Memory of the process's malloc at one time, in total and by size.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// All memory.
    pub summary: Summary,
    sizes: [SizeSummary; CACHES_MAX],
    count: usize,
}

impl Default for Snapshot {
    fn default() -> Snapshot {
        Snapshot { summary: Summary::default(), sizes: [SizeSummary::default(); CACHES_MAX], count: 0 }
    }
}

impl Snapshot {
    /// Returns the memory of each size that has slabs.
    pub fn sizes(&self) -> &[SizeSummary] {
        &self.sizes[..self.count]
    }

    /// Returns the kept bytes that belong to no size: free pages, and pages on CPUs' lists.
    pub fn kept_pages(&self) -> usize {
        self.summary.kept().saturating_sub(self.sizes().iter().map(|size| size.kept).sum())
    }

    fn push(&mut self, size: SizeSummary) {
        if let Some(place) = self.sizes.get_mut(self.count) {
            *place = size;
            self.count += 1;
        }
    }
}

impl Summary {
    /// Returns the bytes of blocks in use by the program.
    pub fn live(&self) -> usize {
        self.objects + self.runs
    }

    /// Returns the bytes of freed blocks in caches of CPUs and nodes.
    pub fn cached(&self) -> usize {
        self.cached_objects + self.cached_runs
    }

    /// Returns the bytes of other free memory that may be resident.
    pub fn kept(&self) -> usize {
        self.idle_in_slabs + self.free
    }
}

impl Malloc {
    /// Returns a summary, and passes the memory of each size that has slabs to `visit`.
    fn summarize(&self, visit: &mut dyn FnMut(SizeSummary)) -> Summary {
        let heap = with_heap!(&self.heap, heap => heap.usage());
        let (runs, cached_runs) = (self.runs.usage(), self.runs.cached_bytes());
        let (mut objects, mut cached_objects) = (0, 0);
        with_heap!(&self.heap, heap => heap.each_size(|cache, usage| {
            let size = SizeSummary::new(cache, usage, heap.slab().is_sheaf_cache(cache.id));
            objects += size.live;
            cached_objects += size.cached;
            if size.slabs > 0 {
                visit(size);
            }
        }));
        Summary {
            objects,
            cached_objects,
            idle_in_slabs: heap.online.saturating_sub(heap.free + heap.returned + objects + cached_objects),
            runs: runs.used.saturating_sub(cached_runs),
            cached_runs: cached_runs.min(runs.used),
            free: heap.free + runs.backed,
            returned: heap.returned + runs.empty,
        }
    }
}

impl SizeSummary {
    fn new(cache: &Cache, usage: CacheUsage, is_of_sheaves: bool) -> SizeSummary {
        let size = cache.object_size() as usize;
        let cached = if is_of_sheaves { usage.active } else { usage.cached };
        let objects = usage.active as usize * size;
        let slabs = usage.slabs as usize * cache.layout.slab_bytes() as usize;
        SizeSummary {
            size,
            live: objects - cached as usize * size,
            cached: cached as usize * size,
            kept: slabs.saturating_sub(objects),
            slabs: usage.slabs,
        }
    }
}

/// Formats the memory in MiB.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { objects, cached_objects, idle_in_slabs, runs, cached_runs, free, returned } = *self;
        let [objects, runs] = [objects.saturating_add(cached_objects), runs.saturating_add(cached_runs)].map(Mebibytes);
        let [idle, free, returned] = [idle_in_slabs, free, returned].map(Mebibytes);
        write!(f, "objects {objects}, idle {idle}, runs {runs}, free {free}, returned {returned}")
    }
}
