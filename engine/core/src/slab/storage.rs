//! Layout of a slab allocator's metadata, and the tables of slabs that are cut off it.

use core::alloc::Layout;
use core::sync::atomic::{AtomicBool, AtomicU8};

use super::cpu::sheaf::NoSheaf;
use super::cpu::{CACHES_MAX, CpuSlots};
use super::entry::CacheEntry;
use super::hot::Hot;
use super::id::CacheId;
use super::map::sections::{SlabSection, sections_max};
use super::partial::{CpuPartial, NodePartial, Partial};
use super::sheaves::Barn;
use super::slab::Slab;
use super::{Memory, SlabAllocator, SlabError, SlabMap, has_sections, map, sizes};
use crate::base::atomic::AtomicU64;
use crate::base::carve::{Carver, Plan};
use crate::base::lock::Locked;
use crate::base::published::Published;
use crate::page::PageAllocator;
use crate::platform::Platform;

/// Offsets of the tables in a slab allocator's storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TablePlaces {
    /// Table of kinds: one byte for each 4 KiB. Entries of memory that was never handed out are read, since a program
    /// may pass any address, but not written.
    pub kinds: usize,
    /// Table of slabs, behind that of kinds: one entry of [`Slab::SIZE`] bytes that stands for no
    /// slab, and then one for each 4 KiB. Entries of memory that was never handed out are not accessed.
    pub slabs: usize,
}

impl<'s, P: Platform, C> SlabAllocator<'s, '_, P, C> {
    /// Returns the size and alignment of the storage that [`new`](Self::new) needs for these numbers of pages, CPUs,
    /// nodes and caches.
    ///
    /// Without sections, the storage takes 33 bytes for each 4 KiB of memory. With sections, as in most kernels, it
    /// takes 8 bytes for each section, whose tables are allocated when its memory comes online. With 256 cache numbers
    /// it also takes about 64 KiB for each node, and about 58 KiB in addition. Each CPU then takes 20 KiB to 36 KiB,
    /// depending on the size of a lock. Each cache number accounts for 64 or 128 bytes per CPU, and for about 400 bytes
    /// in total with one node.
    ///
    /// # Panics
    /// If the storage does not fit into the address space, or if slabs cannot be made of such pages
    /// ([`SlabError::PageSize`]).
    pub fn layout(pages: u32, page_size: u32, cpus: u16, nodes: u8, caches: u16) -> Layout {
        Self::plan(pages, page_size, cpus, nodes, caches).1.layout()
    }

    /// Returns the places in the storage of the two tables that have an entry for each 4 KiB of memory, for callers
    /// whose storage is mapped or writable only in part. All storage before the tables is used at any time.
    ///
    /// # Panics
    /// As [`layout`](Self::layout).
    pub fn table_places(pages: u32, page_size: u32, cpus: u16, nodes: u8, caches: u16) -> TablePlaces {
        let (before, _) = Self::plan(pages, page_size, cpus, nodes, caches);
        let (kinds, grains) = (before.end(), map::grains(pages, page_size));
        TablePlaces { kinds, slabs: (kinds + grains).next_multiple_of(align_of::<Slab>()) }
    }

    /// Returns the arrays before the two tables, and all arrays, in the order in which
    /// [`with_debug`](Self::with_debug) cuts them.
    fn plan(pages: u32, page_size: u32, cpus: u16, nodes: u8, caches: u16) -> (Plan, Plan) {
        assert!(map::is_page_size(page_size), "{}", SlabError::PageSize);
        let (grains, sections) = match has_sections::<P>() {
            true => (0, sections_max(pages)),
            false => (map::grains(pages, page_size), 0),
        };
        let caches = usize::from(caches);
        let per_cpu = usize::from(cpus) * caches;
        Plan::EMPTY
            .array::<CpuSlots>(usize::from(cpus))
            .and_then(|plan| plan.array::<Partial<P::Lock, CpuPartial>>(per_cpu))
            .and_then(|plan| plan.array::<Partial<P::Lock, NodePartial>>(usize::from(nodes) * caches))
            .and_then(|plan| plan.array::<Locked<P::Lock, Barn>>(usize::from(nodes) * caches))
            .and_then(|plan| plan.array::<NoSheaf>(1))
            .and_then(|plan| plan.array::<CacheId>(sizes::PLACES))
            .and_then(|plan| plan.array::<CacheEntry>(caches))
            .and_then(|plan| plan.array::<AtomicU64>(caches))
            .and_then(|plan| plan.array::<AtomicBool>(caches))
            .and_then(|plan| plan.array::<Published<Hot>>(CACHES_MAX))
            .and_then(|plan| plan.array::<SlabSection<'_>>(sections))
            .and_then(|before| Some((before, before.array::<AtomicU8>(grains)?.array::<Slab>(grains + 1)?)))
            .expect("metadata of about 33 bytes per page fits the address space")
    }

    /// Cuts the tables of slabs off the storage: those of all memory, or the table of sections without memory.
    pub(super) fn carve_map(
        pages: &PageAllocator<'_, P>,
        memory: &Memory,
        carver: &mut Carver<'s>,
    ) -> Option<SlabMap<'s>> {
        let geometry = pages.map().geometry();
        let (grains, sections) = match has_sections::<P>() {
            true => (0, geometry.sections()),
            false => (map::grains(memory.pages, pages.page_size()), 0),
        };
        let sections = carver.array(sections, |_| SlabSection::absent())?;
        // SAFETY: each value is `map::NONE`, whose one byte is 0.
        let kinds = unsafe { carver.zeros(grains, || AtomicU8::new(map::NONE.get())) }?;
        // SAFETY: `Slab::zeros` returns metadata whose bytes are all 0.
        let slabs = unsafe { carver.zeros(grains + 1, Slab::zeros) }?;
        let map = SlabMap::new(memory, pages.page_size(), kinds, slabs);
        Some(if has_sections::<P>() { map.with_sections(geometry, sections) } else { map })
    }
}
