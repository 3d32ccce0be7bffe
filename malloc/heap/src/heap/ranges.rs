//! Address ranges of a heap, and the layout of its metadata in them.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;

use freehold::PageAllocator;
use freehold::page::Config;
use freehold::platform::Platform;
use freehold::slab::slab::Slab;
use freehold::slab::{CpuLocal, SlabAllocator, TablePlaces};
use rustix::io::Errno;

use super::returned::{Entry, ReturnedBlocks};
use super::{HeapConfig, HeapError, LARGEST_BLOCK, PAGE_SIZE, page_bytes};
use crate::os::cpus::cpu_count;
use crate::os::mmap::{Region, Reservation, page_size};

/// Bytes of addresses that the metadata of sections gets in addition, so that it can continue behind another mapping:
/// the first number for which the address space has room, or none.
const ROOMS: [usize; 2] = [1 << 40, 4 << 30];

/// Address ranges of a heap, each mapped up to where it is used. They are unmapped when the heap is dropped.
#[derive(Debug)]
pub(super) struct Ranges {
    /// Memory for objects and blocks of pages.
    pub memory: Reservation,
    /// Metadata of the page allocator: the allocator itself, its fixed part, and a part for each section in use.
    pub pages: Reservation,
    /// Metadata of the slab allocator. Its last table grows with the memory. The table before it can be read from the
    /// beginning, and becomes writable with the memory.
    pub slab: Reservation,
}

/// Layout of the metadata.
#[derive(Clone, Copy, Debug)]
struct Parts {
    /// The page allocator, its fixed part and its sections, with the offsets of the latter two.
    pages: Layout,
    fixed: usize,
    sections: usize,
    slab: Layout,
    tables: TablePlaces,
    returned: Layout,
}

impl Parts {
    fn plan<P: Platform + 'static, C: CpuLocal>(engine: &Config<'_>, caches: u16) -> Parts {
        let end = engine.end.raw();
        let (pages, fixed) = append(Layout::new::<PageAllocator<'static, P>>(), engine.metadata_layout::<P>());
        let (pages, sections) = append(pages, engine.online_layout(&(engine.first..engine.end)));
        let (cpus, nodes) = (cpu_count(), engine.nodes);
        let returned = Layout::array::<Entry>(ReturnedBlocks::entries(end));
        Parts {
            pages,
            fixed,
            sections,
            slab: SlabAllocator::<P, C>::layout(end, PAGE_SIZE, cpus, nodes, caches),
            tables: SlabAllocator::<P, C>::table_places(end, PAGE_SIZE, cpus, nodes, caches),
            returned: returned.expect("an entry per block fits the address space"),
        }
    }
}

/// Appends a part to a layout, and returns the whole with the offset of the part's start.
fn append(before: Layout, part: Layout) -> (Layout, usize) {
    before.extend(part).expect("metadata of 16 TiB fits the address space")
}

/// Parts of a heap's metadata, each of which is used once.
pub(super) struct Metadata<P: Platform + 'static> {
    pub allocator: &'static mut MaybeUninit<PageAllocator<'static, P>>,
    pub fixed: &'static mut [MaybeUninit<u8>],
    pub slab: &'static mut [MaybeUninit<u8>],
    pub supply: SupplyStorage,
}

/// Metadata that is used as memory comes online.
pub(super) struct SupplyStorage {
    /// Metadata of all sections.
    pub sections: &'static mut [MaybeUninit<u8>],
    /// Offset of `sections` in the range of the page allocator's metadata.
    pub sections_start: usize,
    pub tables: TablePlaces,
    /// Range of the list of returned blocks.
    pub stack: Reservation,
}

impl Ranges {
    pub(super) fn choose<P: Platform + 'static, C: CpuLocal>(
        engine: &Config<'_>,
        caches: u16,
    ) -> Result<Ranges, HeapError> {
        let Parts { pages, slab, .. } = Parts::plan::<P, C>(engine, caches);
        let memory = Layout::from_size_align(page_bytes(engine.end.raw()), LARGEST_BLOCK);
        Ok(Ranges {
            memory: choose_range(memory.expect("16 TiB fit the address space"), Region::Lower)?,
            pages: choose_with_room(pages)?,
            slab: choose_range(slab, Region::Middle)?,
        })
    }

    /// Checks that memory of frames, and entries in the table of slabs, can be mapped. Costs four system calls.
    ///
    /// # Errors
    /// As for [`Reservation::probe`].
    pub(super) fn probe(&self, tables: &TablePlaces, frames: Range<u32>) -> Result<(), Errno> {
        let (first, end) = (frames.start, frames.end);
        self.memory.probe(page_bytes(first), page_bytes(end))?;
        self.slab.probe(slab_place(tables, first), slab_place(tables, end))
    }

    /// Leaves holes up to the memory of a frame and its entry in the table of slabs.
    ///
    /// # Errors
    /// As for [`Reservation::skip_to`]. Nothing is changed then.
    pub(super) fn skip_to(&self, tables: &TablePlaces, frame: u32) -> Result<(), Errno> {
        self.slab.holes().reserve()?;
        self.memory.skip_to(page_bytes(frame))?;
        self.slab.skip_to(slab_place(tables, frame))
    }

    /// Maps the metadata that every heap uses, and splits the metadata into its parts. The parts extend beyond what is
    /// mapped. Neither the engine nor the supply accesses metadata of memory that has not come online, except for the
    /// kinds of pages, which can be read.
    ///
    /// # Errors
    /// If the system or a limit of the process does not allow the memory.
    ///
    /// # Safety
    /// The ranges were chosen for this configuration, they outlive all use of the parts, and the function is called
    /// once.
    pub(super) unsafe fn parts<P: Platform + 'static, C: CpuLocal>(
        &self,
        engine: &Config<'_>,
        config: &HeapConfig,
    ) -> Result<Metadata<P>, HeapError> {
        let Parts { fixed, sections, slab, tables, returned, .. } = Parts::plan::<P, C>(engine, config.caches);
        grow(&self.pages, sections)?;
        grow(&self.slab, tables.kinds)?;
        let kinds = (tables.slabs / page_size()) * page_size();
        self.slab.grow_read_only(kinds).map_err(|errno| HeapError::Reserve { bytes: kinds, errno })?;
        // SAFETY: the ranges have the layouts of `parts`, and the caller promises that they outlive the use of the
        // parts, and that these are split off once. They do not overlap. The page allocator is at the start of its
        // range, with the alignment of the whole.
        unsafe {
            let supply = SupplyStorage {
                sections: bytes_of(self.pages.start(), (sections, self.pages.bytes())),
                sections_start: sections,
                tables,
                stack: choose_stack(returned.size())?,
            };
            Ok(Metadata {
                allocator: self.pages.start().cast().as_mut(),
                fixed: bytes_of(self.pages.start(), (fixed, sections)),
                slab: bytes_of(self.slab.start(), (0, slab.size())),
                supply,
            })
        }
    }
}

/// Returns the offset of the entry of a frame in the range of the slab allocator's metadata. The first entry of the
/// table stands for no slab.
pub(super) fn slab_place(tables: &TablePlaces, frame: u32) -> usize {
    tables.slabs + (1 + frame as usize) * Slab::SIZE
}

/// Chooses addresses for the entries of returned blocks.
pub(super) fn choose_stack(bytes: usize) -> Result<Reservation, HeapError> {
    let layout = Layout::from_size_align(bytes, align_of::<Entry>());
    choose_range(layout.expect("an entry per block fits the address space"), Region::Middle)
}

/// Returns the entries in a range, most of which are not mapped yet.
///
/// # Safety
/// The range outlives the use of the entries, and nothing else uses it.
pub(super) unsafe fn entries_of(range: &Reservation) -> &'static mut [Entry] {
    let count = range.bytes() / size_of::<Entry>();
    // SAFETY: zeroed bytes are valid entries, the range begins at a page, and the caller promises exclusive access.
    unsafe { NonNull::slice_from_raw_parts(range.start().cast(), count).as_mut() }
}

/// Chooses addresses for a range of this size and alignment with additional room: the most of [`ROOMS`] that fits.
fn choose_with_room(layout: Layout) -> Result<Reservation, HeapError> {
    for room in ROOMS {
        let bytes = layout.size() + room;
        if let Ok(range) = Reservation::growing(bytes, layout.align(), Region::Middle) {
            return Ok(range);
        }
    }
    choose_range(layout, Region::Middle)
}

/// Chooses addresses for a range of this size and alignment.
fn choose_range(layout: Layout, region: Region) -> Result<Reservation, HeapError> {
    let bytes = layout.size();
    Reservation::growing(bytes, layout.align(), region).map_err(|errno| HeapError::Reserve { bytes, errno })
}

/// Maps a range up to an offset.
pub(super) fn grow(range: &Reservation, end: usize) -> Result<(), HeapError> {
    range.grow(end).map_err(|errno| HeapError::Reserve { bytes: end, errno })
}

/// Returns the bytes of a part of the range that begins at `start`.
///
/// # Safety
/// The part is inside the range, and the caller has exclusive access to it for `'m`.
unsafe fn bytes_of<'m>(start: NonNull<u8>, (from, to): (usize, usize)) -> &'m mut [MaybeUninit<u8>] {
    // SAFETY: the caller promises that the part is inside the range and that it has exclusive access to it.
    unsafe { core::slice::from_raw_parts_mut(start.add(from).cast::<MaybeUninit<u8>>().as_ptr(), to - from) }
}
