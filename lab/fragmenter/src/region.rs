//! Memory that is mapped for its frames, not for its contents, and unmapped when dropped.
//!
//! A region contains no other data of the process, and is read and written only by the methods here. A forked child
//! does not inherit it.

use std::ffi::c_void;
use std::ptr;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::pipe::{IoSliceRaw, SpliceFlags, vmsplice};

use std::os::fd::BorrowedFd;

use super::page_set::{PAGE, PAGEBLOCK};

/// Intended use of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The pages are written.
    Written,
    /// The pages are only read, which allocates page tables but no pages.
    Read,
}

/// A mapping whose usable part begins at a multiple of a pageblock's size.
#[derive(Debug)]
pub(crate) struct Region {
    whole: *mut c_void,
    whole_bytes: usize,
    start: usize,
    pageblocks: usize,
}

impl Region {
    /// Maps `pageblocks` pageblocks, of which no page is present yet.
    pub(crate) fn map(pageblocks: usize, access: Access) -> rustix::io::Result<Region> {
        let whole_bytes = (pageblocks + 1) * PAGEBLOCK;
        let allowed = match access {
            Access::Written => ProtFlags::READ | ProtFlags::WRITE,
            Access::Read => ProtFlags::READ,
        };
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the address is null and the flags lack `FIXED`, so the kernel chooses unused addresses, and no
        // existing mapping changes.
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

    /// Returns the number of pageblocks.
    pub(crate) fn pageblocks(&self) -> usize {
        self.pageblocks
    }

    /// Returns the number of the first page in the address space.
    pub(crate) fn first_page(&self) -> usize {
        self.start / PAGE
    }

    /// Writes to `pages` pages from `page` on. They are present afterwards, and are not the zero page.
    pub(crate) fn write(&self, page: usize, pages: usize) -> rustix::io::Result<()> {
        self.advise(page, pages, Advice::LinuxPopulateWrite)?;
        for page in page..page + pages {
            // SAFETY: `address` asserts that the page is within this mapping. `LinuxPopulateWrite` has succeeded on it,
            // so it is present and writable. No reference to it exists.
            unsafe { ptr::write_volatile(self.address(page).cast::<u8>(), 1) };
        }
        Ok(())
    }

    /// Reads from a page, which allocates a page table and no page.
    pub(crate) fn read(&self, page: usize) -> rustix::io::Result<()> {
        self.advise(page, 1, Advice::LinuxPopulateRead)
    }

    /// Splits the huge page that contains a page, since the advice covers only a part of it.
    pub(crate) fn split(&self, page: usize) -> rustix::io::Result<()> {
        self.advise(page, 1, Advice::LinuxCold)
    }

    /// Frees pages.
    pub(crate) fn give_back(&self, page: usize, pages: usize) -> rustix::io::Result<()> {
        self.advise(page, pages, Advice::LinuxDontNeed)
    }

    /// Prevents that pages become parts of huge pages from now on.
    pub(crate) fn keep_small(&self) -> rustix::io::Result<()> {
        self.advise_all(Advice::LinuxNoHugepage)
    }

    /// Puts pages into a pipe, which then holds a reference to each. Returns the number of pages in the pipe.
    pub(crate) fn splice(&self, pages: &[usize], pipe: BorrowedFd<'_>) -> rustix::io::Result<usize> {
        let mut slices: Vec<IoSliceRaw<'_>> = Vec::with_capacity(pages.len());
        for page in pages {
            // SAFETY: `address` asserts that the page is within this mapping, which outlives the slice. The callers
            // have written to it, so its bytes are initialised, and no code writes to it during the call.
            let bytes = unsafe { std::slice::from_raw_parts(self.address(*page).cast::<u8>(), PAGE) };
            slices.push(IoSliceRaw::from_slice(bytes));
        }
        // SAFETY: `pipe` is the write end of a pipe, so the kernel only reads the memory. Without `GIFT` the pages
        // remain this process's memory.
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
            // SAFETY: `address` asserts that the first and the last page are within this mapping, so the range is
            // valid. The advice may discard contents, which no code relies on.
            match unsafe { madvise(self.address(page), pages * PAGE, advice) } {
                Err(Errno::INTR | Errno::AGAIN) => {}
                done => return done,
            }
        }
    }

    fn advise_all(&self, advice: Advice) -> rustix::io::Result<()> {
        // SAFETY: the range is the whole mapping, which this value owns, and such advice changes no contents.
        match unsafe { madvise(self.whole, self.whole_bytes, advice) } {
            // Kernels without huge pages reject this advice, and do not need it.
            Err(Errno::INVAL) if matches!(advice, Advice::LinuxHugepage | Advice::LinuxNoHugepage) => Ok(()),
            done => done,
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `map` has made this mapping with this address and size, this value owns it alone, and no reference
        // into it exists.
        let unmapped = unsafe { munmap(self.whole, self.whole_bytes) };
        debug_assert!(unmapped.is_ok(), "unmapping {} bytes: {unmapped:?}", self.whole_bytes);
    }
}
