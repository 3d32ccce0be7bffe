//! Memory that is added to a kernel after boot, with its metadata at its start.
//!
//! linux: mm/memory_hotplug.c:add_memory_resource

use core::alloc::Layout;
use core::ops::Range;

use super::boot::{Metadata, extended, frame_at};
use super::{Cpu, Engine, Kernel, SetupError};
use crate::base::Pfn;
use crate::page::{self, MinFree};

impl<H: Cpu> Kernel<H> {
    /// Adds memory that was not present at boot, in whole pageblocks below [`Boot::end_max`](super::Boot::end_max), and
    /// returns the number of frames that this makes free. Metadata is placed at the start of the range, or of each
    /// zone's part of it. The first range in a section pays for the whole section: with pages of 4 KiB, 386 KiB for a
    /// section of 128 MiB, and 1,056 KiB for the slab. Under `slab.objects=bitmap` the slab's part was paid at boot.
    /// The memory can be removed by [`PageAllocator::offline`](crate::page::PageAllocator::offline), except for the
    /// metadata, which stays. linux: mm/memory_hotplug.c:add_memory, mhp_supports_memmap_on_memory
    ///
    /// # Errors
    /// See [`SetupError`]: [`Online`](SetupError::Online) if part of the range is already online, is below the memory
    /// given at boot, or is above the limit given at boot. If the range crosses a limit of zones, the part below the
    /// limit may have been added nevertheless.
    ///
    /// # Safety
    /// The range is memory, mapped in the same way as that of [`init`](Self::init), and nothing else uses it, ever.
    pub unsafe fn add_memory(&'static self, range: Range<u64>) -> Result<u32, SetupError> {
        let engine = self.engine().ok_or(SetupError::NotSetUp)?;
        let bytes = u64::from(H::PAGE_SIZE) << engine.pages.map().pageblock_order().get();
        if let Some(address) = [range.start, range.end].into_iter().find(|address| !address.is_multiple_of(bytes)) {
            return Err(SetupError::Misaligned { address, bytes });
        }
        if range.start >= range.end {
            return Err(SetupError::Backwards { start: range.start, end: range.end });
        }
        let ends = frame_at(range.start, H::PAGE_SIZE).zip(frame_at(range.end, H::PAGE_SIZE));
        let (start, end) = ends.ok_or(SetupError::Online(page::OnlineError::Range))?;
        let frames = start..end;
        if frames.start < engine.span.start || frames.end > engine.span.end {
            return Err(page::OnlineError::Range.into());
        }
        engine.expect_absent(&frames)?;
        let mut free = 0;
        for part in engine.zones.cut(frames) {
            // SAFETY: the caller makes the same promise for the whole range, of which this is a part.
            free += unsafe { engine.add(&part) }?;
        }
        engine.pages.set_up_watermarks(MinFree::BySize);
        Ok(free)
    }
}

impl<H: Cpu> Engine<H> {
    /// Returns whether memory at a physical address is online.
    pub(super) fn has_memory_at(&self, physical: u64) -> bool {
        let frame = frame_at(physical, H::PAGE_SIZE).and_then(|pfn| self.pages.map().try_frame(pfn));
        frame.is_some_and(|frame| !frame.word().is_absent())
    }

    /// Returns an error for a range that is at least partly online. Metadata is never freed, so bringing a frame online
    /// twice could overwrite metadata in use.
    fn expect_absent(&self, frames: &Range<Pfn>) -> Result<(), SetupError> {
        for pfn in frames.start.up_to(frames.end) {
            if self.pages.map().try_frame(pfn).is_some_and(|frame| !frame.word().is_absent()) {
                return Err(page::OnlineError::Overlap { pfn }.into());
            }
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Kernel::add_memory`].
    unsafe fn add(&'static self, range: &page::Range) -> Result<u32, SetupError> {
        let (frames, size) = (range.start..range.end, u64::from(H::PAGE_SIZE));
        let slab_metadata = self.slab().map_or(Layout::new::<()>(), |slab| slab.online_layout(&frames));
        let page_metadata = self.pages.online_layout(range);
        let layout = extended(page_metadata, slab_metadata);
        let (needed, largest) = (layout.size() as u64, u64::from(range.end.raw() - range.start.raw()) * size);
        if needed > largest {
            return Err(SetupError::NoRoom { needed, largest });
        }
        // SAFETY: the caller promises that the range is mapped and unused, and the frames that hold the metadata are
        // not released below.
        let mut metadata = Metadata { rest: unsafe { self.memory.bytes(range.start, layout.size()) } };
        self.pages.online(range, metadata.cut(page_metadata))?;
        if let Some(slab) = self.slab() {
            slab.online(&frames, metadata.cut(slab_metadata))?;
        }
        let start = range.start.offset(needed.div_ceil(size) as u32);
        self.pages.release(start, range.end)?;
        Ok(range.end.raw() - start.raw())
    }
}
