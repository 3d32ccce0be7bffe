//! Memory that is mapped for its frames, not for what stands in it, and unmapped when dropped.
//!
//! Nothing else of the process lies in it, and nobody reads or writes it but through the calls here. A fork does not
//! inherit it.

use std::ffi::c_void;
use std::ptr;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::pipe::{IoSliceRaw, SpliceFlags, vmsplice};

use std::os::fd::BorrowedFd;

use super::page_set::{PAGE, PAGEBLOCK};

/// What is to become of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// They are written to.
    Written,
    /// They are read at most, so that only page tables come of it.
    Read,
}

/// A mapping that begins at a multiple of a pageblock's size.
#[derive(Debug)]
pub(crate) struct Region {
    whole: *mut c_void,
    whole_bytes: usize,
    start: usize,
    pageblocks: usize,
}

impl Region {
    /// Maps so many pageblocks; no page of them is there yet.
    pub(crate) fn map(pageblocks: usize, access: Access) -> rustix::io::Result<Region> {
        let whole_bytes = (pageblocks + 1) * PAGEBLOCK;
        let allowed = match access {
            Access::Written => ProtFlags::READ | ProtFlags::WRITE,
            Access::Read => ProtFlags::READ,
        };
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses touches nobody's memory.
        let whole = unsafe { mmap_anonymous(ptr::null_mut(), whole_bytes, allowed, flags) }?;
        let start = (whole as usize).next_multiple_of(PAGEBLOCK);
        let region = Region { whole, whole_bytes, start, pageblocks };
        region.advise_all(Advice::LinuxDontFork)?;
        region.advise_all(match access {
            Access::Written => Advice::LinuxHugepage,
            Access::Read => Advice::LinuxNoHugepage,
        })?;
        Ok(region)
    }

    /// How many pageblocks it has.
    pub(crate) fn pageblocks(&self) -> usize {
        self.pageblocks
    }

    /// The number of its first page in the address space.
    pub(crate) fn first_page(&self) -> usize {
        self.start / PAGE
    }

    /// Pages from `page` on, so many, are written to: by then they are there, and are not the page of zeroes.
    pub(crate) fn write(&self, page: usize, pages: usize) -> rustix::io::Result<()> {
        self.advise(page, pages, Advice::LinuxPopulateWrite)?;
        for page in page..page + pages {
            // SAFETY: the page lies in this mapping, is writable and present, and no reference to it exists.
            unsafe { ptr::write_volatile(self.address(page).cast::<u8>(), 1) };
        }
        Ok(())
    }

    /// A page is read from, which takes a page table and no page.
    pub(crate) fn read(&self, page: usize) -> rustix::io::Result<()> {
        self.advise(page, 1, Advice::LinuxPopulateRead)
    }

    /// Huge pages that are advised about in part are split.
    pub(crate) fn split(&self, page: usize) -> rustix::io::Result<()> {
        self.advise(page, 1, Advice::LinuxCold)
    }

    /// Pages go back.
    pub(crate) fn give_back(&self, page: usize, pages: usize) -> rustix::io::Result<()> {
        self.advise(page, pages, Advice::LinuxDontNeed)
    }

    /// No page of it becomes a part of a huge one any more.
    pub(crate) fn keep_small(&self) -> rustix::io::Result<()> {
        self.advise_all(Advice::LinuxNoHugepage)
    }

    /// Puts pages into a pipe, which then holds a reference to each: how many it took.
    pub(crate) fn splice(&self, pages: &[usize], pipe: BorrowedFd<'_>) -> rustix::io::Result<usize> {
        let mut slices: Vec<IoSliceRaw<'_>> = Vec::with_capacity(pages.len());
        for page in pages {
            // SAFETY: the page lies in this mapping, which outlives the call, and was written to before.
            let bytes = unsafe { std::slice::from_raw_parts(self.address(*page).cast::<u8>(), PAGE) };
            slices.push(IoSliceRaw::from_slice(bytes));
        }
        // SAFETY: the pipe is given by the end that is written to, so the memory is only read, and it is no gift.
        let bytes = unsafe { vmsplice(pipe, &slices, SpliceFlags::NONBLOCK) }?;
        Ok(bytes / PAGE)
    }

    fn address(&self, page: usize) -> *mut c_void {
        assert!(page < self.pageblocks * (PAGEBLOCK / PAGE), "page {page} of {} pageblocks", self.pageblocks);
        self.whole.wrapping_byte_add(self.start - self.whole as usize + page * PAGE)
    }

    fn advise(&self, page: usize, pages: usize, advice: Advice) -> rustix::io::Result<()> {
        if pages == 0 {
            return Ok(());
        }
        self.address(page + pages - 1);
        loop {
            // SAFETY: all of these pages lie in this mapping, whose contents nobody relies on.
            match unsafe { madvise(self.address(page), pages * PAGE, advice) } {
                Err(Errno::INTR | Errno::AGAIN) => {}
                done => return done,
            }
        }
    }

    fn advise_all(&self, advice: Advice) -> rustix::io::Result<()> {
        // SAFETY: this is the whole mapping, and such advice changes no contents.
        match unsafe { madvise(self.whole, self.whole_bytes, advice) } {
            // Kernels without huge pages know no such advice, and need none.
            Err(Errno::INVAL) if matches!(advice, Advice::LinuxHugepage | Advice::LinuxNoHugepage) => Ok(()),
            done => done,
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's, and no reference into it is left.
        let unmapped = unsafe { munmap(self.whole, self.whole_bytes) };
        debug_assert!(unmapped.is_ok(), "unmapping {} bytes: {unmapped:?}", self.whole_bytes);
    }
}
