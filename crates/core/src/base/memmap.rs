//! From a frame number to its metadata, through a table of sections.
//!
//! Memory comes in sections of 2^15 frames (128 MiB of 4 KiB pages, as Linux's on x86-64) of one array each; a
//! hole as large as a section costs one empty slot. Sections appear while others are in use and never go
//! away. No block crosses a section, so a block's buddy is always in the block's own section.
//!
//! linux: mm/sparse.c

use core::alloc::Layout;
use core::ops::Range;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::carve::{Carver, Plan};
use super::frame::{Frame, Word};
use super::pageblock::Pageblock;
use super::{Order, Pfn};

/// Frames in a section, as a power of two.
pub const SECTION_ORDER: u32 = if cfg!(loom) { 5 } else { 15 };
/// Frames in a section.
pub const SECTION_PAGES: u32 = 1 << SECTION_ORDER;

/// Frames that share a cache line: a page, its buddy, and their buddy of order 1, which a free looks at together.
#[derive(Debug, Default)]
#[repr(C, align(64))]
struct Line([Frame; 4]);

#[cfg(not(loom))]
const _: () = assert!(size_of::<Line>() == 64, "a line holds frames and nothing else");

/// Lines of a section.
const LINES: usize = SECTION_PAGES as usize / 4;

/// One slot of the table: where the section's metadata is, or null.
#[derive(Debug)]
pub struct Section {
    frames: AtomicPtr<Frame>,
    pageblocks: AtomicPtr<Pageblock>,
}

impl Section {
    /// A slot without memory.
    pub fn absent() -> Section {
        Section { frames: AtomicPtr::new(null_mut()), pageblocks: AtomicPtr::new(null_mut()) }
    }
}

/// The table. Cheap to copy: a slice and a number.
#[derive(Clone, Copy, Debug)]
pub struct MemMap<'m> {
    sections: &'m [Section],
    pageblock_order: Order,
}

impl<'m> MemMap<'m> {
    /// A map over `sections`, whose first slot is for frame 0.
    pub fn new(sections: &'m [Section], pageblock_order: Order) -> MemMap<'m> {
        MemMap { sections, pageblock_order }
    }

    /// Size of a pageblock.
    #[inline]
    pub fn pageblock_order(&self) -> Order {
        self.pageblock_order
    }

    /// Size of half a pageblock: the largest part of one.
    #[inline]
    pub fn half_pageblock_order(&self) -> Order {
        Order::new(self.pageblock_order.get() - 1)
    }

    /// Frames up to here can have metadata.
    pub fn end(&self) -> u64 {
        (self.sections.len() as u64) << SECTION_ORDER
    }

    /// Size and alignment of one section's metadata.
    pub fn section_layout(pageblock_order: Order) -> Layout {
        Plan::EMPTY
            .array::<Pageblock>(pageblocks_per_section(pageblock_order))
            .and_then(|plan| plan.array::<Line>(LINES))
            .expect("a section's metadata is far smaller than the address space")
            .layout()
    }

    /// Makes section `index` present, with metadata carved from `memory`; all its frames are Reserved.
    /// `false` if the memory is too small or there is no such slot. A section that is present stays as it is.
    pub fn add_section(&self, index: usize, memory: &mut Carver<'m>) -> bool {
        let Some(section) = self.sections.get(index) else { return false };
        if self.is_present(index) {
            return true;
        }
        let count = pageblocks_per_section(self.pageblock_order);
        let Some(pageblocks) = memory.array(count, |_| Pageblock::new()) else { return false };
        let Some(lines) = memory.array(LINES, |_| Line::default()) else { return false };
        section.pageblocks.store(pageblocks.as_mut_ptr(), Ordering::Release);
        section.frames.store(lines.as_mut_ptr().cast(), Ordering::Release);
        true
    }

    /// Whether section `index` has metadata.
    pub fn is_present(&self, index: usize) -> bool {
        self.sections.get(index).is_some_and(|section| !section.frames.load(Ordering::Acquire).is_null())
    }

    /// Metadata of `pfn`, if its section is present.
    #[inline]
    pub fn try_frame(&self, pfn: Pfn) -> Option<&'m Frame> {
        Some(&self.section_around(pfn)?[place(pfn)])
    }

    /// Metadata of all frames of the section around `pfn`, if it is present.
    #[inline]
    fn section_around(&self, pfn: Pfn) -> Option<&'m [Frame; SECTION_PAGES as usize]> {
        let frames = self.sections.get(pfn.index() >> SECTION_ORDER)?.frames.load(Ordering::Acquire);
        // SAFETY: the pointer is null, or the start of SECTION_PAGES frames carved for 'm in `add_section`. Frames are
        // shared only as atomics.
        unsafe { frames.cast::<[Frame; SECTION_PAGES as usize]>().as_ref() }
    }

    /// The block that a frame is in, be it free, on a per-CPU list or allocated: its head, and the head's word. `None`
    /// if the frame is in none, or its section is not present. At most eleven steps.
    pub fn block_around(&self, pfn: Pfn) -> Option<(Pfn, Word)> {
        Order::all().find_map(|order| {
            let head = pfn.align_down(order);
            let word = self.try_frame(head)?.word();
            (word.is_head() && head.offset(word.order().pages()) > pfn).then_some((head, word))
        })
    }

    /// Metadata of `pfn`, whose section the caller knows to be present.
    ///
    /// # Panics
    /// If it is not.
    #[inline]
    pub fn frame(&self, pfn: Pfn) -> &'m Frame {
        match self.try_frame(pfn) {
            Some(frame) => frame,
            None => absent(pfn),
        }
    }

    /// Metadata of the frames of a range whose sections the caller knows to be present: a slice for each section.
    ///
    /// # Panics
    /// If one is not.
    #[inline]
    pub fn frames(&self, range: &Range<Pfn>) -> impl Iterator<Item = &'m [Frame]> + use<'m> {
        let (map, mut at, end) = (*self, range.start.index(), range.end.index());
        core::iter::from_fn(move || {
            let left = end.checked_sub(at).filter(|&left| left > 0)?;
            let pfn = Pfn::new(at as u32);
            let Some(section) = map.section_around(pfn) else { absent(pfn) };
            let frames = &section[place(pfn)..];
            let frames = &frames[..left.min(frames.len())];
            at += frames.len();
            Some(frames)
        })
    }

    /// Metadata of the pageblock around `pfn`, whose section the caller knows to be present.
    ///
    /// # Panics
    /// If it is not.
    #[inline]
    pub fn pageblock(&self, pfn: Pfn) -> &'m Pageblock {
        let Some(section) = self.sections.get(pfn.index() >> SECTION_ORDER) else { absent(pfn) };
        let pageblocks = section.pageblocks.load(Ordering::Acquire);
        if pageblocks.is_null() {
            absent(pfn);
        }
        let index = place(pfn) >> self.pageblock_order.get();
        // SAFETY: as in `section_around`: an array of `pageblocks_per_section` entries, carved for 'm.
        unsafe { &*pageblocks.add(index) }
    }

    /// Metadata of `pfn` and of the pageblock around it, if its section is present.
    #[inline]
    pub fn try_frame_and_pageblock(&self, pfn: Pfn) -> Option<(&'m Frame, &'m Pageblock)> {
        let section = self.sections.get(pfn.index() >> SECTION_ORDER)?;
        let frames = section.frames.load(Ordering::Acquire);
        if frames.is_null() {
            return None;
        }
        // Published before the frames were, so it is there.
        let pageblocks = section.pageblocks.load(Ordering::Relaxed);
        let place = place(pfn);
        // SAFETY: as in `section_around` and `pageblock`; `add_section` stores the pageblocks' pointer before that of the
        // frames, which was loaded with Acquire and is not null.
        Some(unsafe { (&*frames.add(place), &*pageblocks.add(place >> self.pageblock_order.get())) })
    }

    /// First frame of each pageblock of every section that is present.
    pub fn pageblocks(&self) -> impl Iterator<Item = Pfn> {
        let step = self.pageblock_order.pages();
        self.present_sections()
            .flat_map(move |start| (0..SECTION_PAGES / step).map(move |block| start.offset(block * step)))
    }

    /// First frame of every section that is present.
    pub fn present_sections(&self) -> impl Iterator<Item = Pfn> {
        let map = *self;
        (0..self.sections.len())
            .filter(move |&index| map.is_present(index))
            .map(|index| Pfn::new((index as u32) << SECTION_ORDER))
    }
}

/// Where in its section a frame is.
#[inline]
const fn place(pfn: Pfn) -> usize {
    pfn.index() & (SECTION_PAGES as usize - 1)
}

const fn pageblocks_per_section(pageblock_order: Order) -> usize {
    (SECTION_PAGES / pageblock_order.pages()) as usize
}

#[cold]
#[inline(never)]
fn absent(pfn: Pfn) -> ! {
    panic!("frame {pfn} is in a section that is not present")
}
