//! Tables of slabs for memory that comes online, on platforms whose memory has holes.
//!
//! linux: mm/memory_hotplug.c

use core::alloc::Layout;
use core::ops::Range;

use super::cpu::CpuLocal;
use super::{SlabAllocator, SlabError, has_sections};
use crate::base::Pfn;
use crate::base::carve::{Carver, Storage};
use crate::platform::Platform;

impl<'s, P: Platform, C: CpuLocal> SlabAllocator<'s, '_, P, C> {
    /// Returns the layout of the storage that [`online`](Self::online) needs for these frames: 33 bytes for each 4 KiB
    /// of the sections that have no storage yet. Empty if the map has no sections.
    pub(crate) fn online_layout(&self, frames: &Range<Pfn>) -> Layout {
        match has_sections::<P>() {
            true => self.map.layout_of(self.pages.map().geometry().sections_of(frames)),
            false => Layout::new::<()>(),
        }
    }

    /// Adds the tables for these frames, so that slabs can be placed in them. Frames without tables are never used for
    /// slabs. May be called while other CPUs use the allocator. Does nothing if the map has one table for the whole
    /// range. linux: mm/memory_hotplug.c:add_memory
    ///
    /// # Errors
    /// [`SlabError::Storage`] if the storage is smaller than [`online_layout`](Self::online_layout) requires.
    pub(crate) fn online(&self, frames: &Range<Pfn>, storage: impl Into<Storage<'s>>) -> Result<(), SlabError> {
        if !has_sections::<P>() {
            return Ok(());
        }
        let sections = self.pages.map().geometry().sections_of(frames);
        self.map.add_sections(sections, &mut Carver::new(storage)).ok_or(SlabError::Storage)
    }
}
