//! Address ranges of the process: reserved in one piece or mapped as they grow, and backed with memory when
//! they are first touched.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicU8, AtomicUsize};

use super::gap;
pub use super::gap::Region;
use super::holes::{Holes, page_of};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read};
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags, madvise, mmap_anonymous, mprotect, mremap_fixed, munmap,
};

/// An address range of the process, which is unmapped when the value is dropped. Bytes read as zero until they are
/// written.
#[derive(Debug)]
pub struct Reservation {
    pub(super) start: NonNull<u8>,
    pub(super) bytes: usize,
    /// Offset up to which the range is mapped, except for holes: its length, unless the range [grows](Self::growing).
    pub(super) mapped: AtomicUsize,
    pub(super) holes: Holes,
}

// SAFETY: a mapping is bound to no thread; access to its bytes is the responsibility of its users.
unsafe impl Send for Reservation {}
// SAFETY: methods with `&self` only make system calls, or require by their contract that the bytes are not in use.
unsafe impl Sync for Reservation {}

/// Bytes of a huge page.
const HUGE_PAGE: usize = 2 << 20;

/// Treatment of a huge page of which [`Reservation::give_back`] returns a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PartOfHugePage {
    /// The kernel decides. It keeps the huge page whole, and charged to the control group, until memory is short.
    Lazy,
    /// The huge page is split at once, which costs a system call for each part.
    /// linux: mm/huge_memory.c:madvise_free_huge_pmd, deferred_split_folio
    Split,
}

/// The treatment for all reservations, a [`PartOfHugePage`]. Another value before it is set.
static PART_OF_HUGE_PAGE: AtomicU8 = AtomicU8::new(u8::MAX);

/// Sets the treatment of huge pages of which a part is returned.
pub fn set_part_of_huge_page(treatment: PartOfHugePage) {
    PART_OF_HUGE_PAGE.store(treatment as u8, Relaxed);
}

/// Returns whether the treatment of huge pages of which a part is returned was set.
pub fn is_part_of_huge_page_set() -> bool {
    PART_OF_HUGE_PAGE.load(Relaxed) != u8::MAX
}

/// Advice to the kernel about backing a range with huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// The system's setting for transparent huge pages applies.
    #[default]
    BySystem,
    /// Huge pages wherever the range covers a whole huge page. linux: MADV_HUGEPAGE
    Wanted,
}

impl Reservation {
    /// Reserves `bytes` bytes, rounded up to whole pages, at an address that is a multiple of `align`. Costs up to
    /// three system calls. No swap space is reserved.
    ///
    /// # Errors
    /// If the address space, or the process's limit on it, has no room for such a range.
    ///
    /// # Panics
    /// If `align` is not a power of two.
    pub fn new(bytes: usize, align: usize) -> Result<Reservation, Errno> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        assert!(align.is_power_of_two(), "the alignment is not a power of two");
        let page_align = align.max(page_size());
        let size = bytes.max(1).checked_next_multiple_of(page_size()).ok_or(Errno::NOMEM)?;
        let wide = size.checked_add(page_align).ok_or(Errno::NOMEM)?;
        // SAFETY: this creates a new mapping at an address that the kernel chooses, so no existing mapping is affected.
        let mapped = unsafe { mmap_anonymous(null_mut(), wide, access, flags)? }.cast::<u8>();
        let before = mapped.align_offset(page_align);
        // SAFETY: the mapping has `page_align` bytes more than the `size` that is kept, and the parts before and after
        // it were just mapped and are not in use.
        let start = unsafe {
            let start = mapped.add(before);
            unmap(mapped, before)?;
            unmap(start.add(size), page_align - before)?;
            start
        };
        Ok(Reservation {
            start: NonNull::new(start).ok_or(Errno::NOMEM)?,
            bytes: size,
            mapped: size.into(),
            holes: Holes::new(),
        })
    }

    /// Unmaps whole pages inside the range, so that they do not count against the limit of the address space.
    ///
    /// # Errors
    /// If the pages are not a part of this reservation, or if the system refuses.
    ///
    /// # Safety
    /// The contents of the pages are not needed any more, and an access to them does not happen before they are [mapped
    /// again](Self::map_part). If another mapping takes their addresses, the range is not dropped while it exists.
    pub unsafe fn unmap_part(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        self.expect_part(offset, bytes)?;
        // SAFETY: the part is inside this mapping, and the caller promises that it is not used any more.
        unsafe { unmap(self.place(offset).cast(), bytes) }
    }

    /// Maps pages that were [unmapped](Self::unmap_part). They read as zeros.
    ///
    /// # Errors
    /// As for [`grow`](Self::grow).
    pub fn map_part(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        self.expect_part(offset, bytes)?;
        gap::map(self.place(offset), bytes, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// Returns the address of the range's first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the offset up to which the range is mapped, except for holes.
    pub fn mapped(&self) -> usize {
        self.mapped.load(Acquire)
    }

    /// Returns the length of the range in bytes, a multiple of the page size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Advises the kernel how to back whole pages of the range. The kernel may ignore the advice.
    ///
    /// # Errors
    /// If the pages are not a part of this reservation, or if the kernel has no huge pages.
    pub fn advise_part(&self, pages: HugePages, offset: usize, bytes: usize) -> Result<(), Errno> {
        match pages {
            HugePages::BySystem => Ok(()),
            HugePages::Wanted => {
                self.expect_part(offset, bytes)?;
                // SAFETY: the part is inside this mapping, and the advice does not change the contents of its pages.
                unsafe { madvise(self.place(offset), bytes, Advice::LinuxHugepage) }
            }
        }
    }

    /// Makes whole pages of the range accessible. A system with strict overcommit refuses memory that it does not have.
    ///
    /// # Errors
    /// If the pages are not a part of this reservation, or the system does not have as much memory.
    pub fn commit(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        self.expect_part(offset, bytes)?;
        // SAFETY: `expect_part` checked that the part is inside this mapping, and the call only adds access.
        unsafe { mprotect(self.place(offset), bytes, MprotectFlags::READ | MprotectFlags::WRITE) }
    }

    /// Makes whole pages of the range inaccessible. Their contents stay.
    ///
    /// # Errors
    /// If the pages are not a part of this reservation, or the process has too many mappings.
    ///
    /// # Safety
    /// An access to these pages terminates the process until they are committed again. The caller makes sure that no
    /// access happens, or that it should terminate the process.
    pub unsafe fn protect(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        self.expect_part(offset, bytes)?;
        // SAFETY: the part is inside this mapping, and the caller promised that no valid access to it follows.
        unsafe { mprotect(self.place(offset), bytes, MprotectFlags::empty()) }
    }

    /// Moves the contents of whole pages to other pages of the reservation without copying. The old pages read as zeros
    /// afterwards. linux: MREMAP_DONTUNMAP
    ///
    /// # Errors
    /// If one of the ranges is not a part of this reservation, if the ranges overlap, if the kernel is older than 5.7,
    /// or if the process has too many mappings.
    ///
    /// # Safety
    /// The caller has exclusive access to both ranges during the call, and the old contents of the destination are not
    /// needed.
    pub unsafe fn move_within(&self, from: usize, to: usize, bytes: usize) -> Result<(), Errno> {
        self.expect_part(from, bytes)?;
        self.expect_part(to, bytes)?;
        let flags = MremapFlags::MAYMOVE | MremapFlags::from_bits_retain(libc::MREMAP_DONTUNMAP as u32);
        // SAFETY: both parts are inside this mapping, and the caller promised exclusive access to them.
        unsafe { mremap_fixed(self.place(from), bytes, bytes, flags, self.place(to)) }.map(|_| ())
    }

    fn expect_part(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        let end = offset.checked_add(bytes).filter(|&end| end <= self.mapped() && bytes.is_multiple_of(page_size()));
        let is_part = end.is_some_and(|end| !self.holes.overlap(page_of(offset)..page_of(end)));
        if is_part { Ok(()) } else { Err(Errno::INVAL) }
    }

    /// Returns the memory that backs whole pages to the system. The pages read as zeros afterwards.
    ///
    /// # Errors
    /// If the pages are not whole pages inside this reservation, or if the system refuses, as kernels before 5.18 do if
    /// the program has locked them with `mlock`. linux: MADV_DONTNEED_LOCKED
    ///
    /// # Safety
    /// The contents of the pages are not needed any more.
    pub unsafe fn give_back(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        self.expect_part(offset, bytes)?;
        let is_whole = (offset | bytes).is_multiple_of(HUGE_PAGE);
        // SAFETY: the part is inside this mapping, and the caller promised that its contents are not needed.
        unsafe {
            if !is_whole && PART_OF_HUGE_PAGE.load(Relaxed) == PartOfHugePage::Split as u8 {
                // This alone splits a huge page at once. Otherwise it stays whole and charged until memory is short.
                let _split = madvise(self.place(offset), bytes, Advice::LinuxFree);
            }
            match madvise(self.place(offset), bytes, Advice::LinuxDontNeed) {
                Err(Errno::INVAL) => dont_need_locked(self.place(offset), bytes),
                result => result,
            }
        }
    }

    /// Returns the bytes of the range, for a lifetime that the caller chooses.
    ///
    /// # Safety
    /// The reservation outlives `'m`, and its bytes are accessible and have no other user during `'m`.
    pub unsafe fn as_bytes<'m>(&self) -> &'m mut [MaybeUninit<u8>] {
        // SAFETY: the range is mapped, readable and writable, and the caller promised that it outlives `'m` and has no
        // other user.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.bytes) }
    }

    /// Returns the offset and the length of each mapped part.
    fn parts(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.holes.parts(page_of(self.mapped())).filter(|&(_, bytes)| bytes > 0)
    }

    pub(super) fn place(&self, offset: usize) -> *mut c_void {
        self.start.as_ptr().wrapping_add(offset).cast()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        for (offset, bytes) in self.parts() {
            // SAFETY: the part belongs to this value, and callers of `as_bytes` promised that their borrows have ended.
            // Callers of `unmap_part` promised that no other mapping is in its place.
            let _unmapped = unsafe { unmap(self.place(offset).cast(), bytes) };
        }
    }
}

/// Returns the bytes of memory that the machine has by `sysinfo`; 0 if the call fails.
pub fn memory_bytes() -> usize {
    let mut info = MaybeUninit::<libc::sysinfo>::zeroed();
    // SAFETY: the kernel writes one `sysinfo` into the live buffer, and all-zero bytes are a valid `sysinfo` as well.
    let info = unsafe {
        libc::sysinfo(info.as_mut_ptr());
        info.assume_init()
    };
    usize::try_from(info.totalram).unwrap_or(usize::MAX).saturating_mul(info.mem_unit as usize)
}

/// Returns the limit of the process's address space in bytes, if there is one. linux: RLIMIT_AS
pub fn address_space_limit() -> Option<usize> {
    read_limit(libc::RLIMIT_AS)
}

/// Returns the limit of the process's private writable memory in bytes, if there is one. linux: RLIMIT_DATA
pub fn data_limit() -> Option<usize> {
    read_limit(libc::RLIMIT_DATA)
}

/// Returns whether the system backs memory with huge pages without a request by the program; `false` if it does not say
/// so. Opens and reads a file. linux: Documentation/admin-guide/mm/transhuge.rst
pub fn huge_pages_are_default() -> bool {
    let Ok(file) =
        open(c"/sys/kernel/mm/transparent_hugepage/enabled", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    else {
        return false;
    };
    let mut text = [0; 64];
    read(&file, &mut text).is_ok_and(|bytes| text[..bytes].starts_with(b"[always]"))
}

// The C libraries define different types for the number of a resource.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

fn read_limit(resource: Resource) -> Option<usize> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel writes one `rlimit` into the live variable `limit`.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    (limit.rlim_cur != libc::RLIM_INFINITY).then(|| usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX))
}

/// Returns the size of a page in bytes, from `sysconf`. The auxiliary vector, which other libraries read, is not passed
/// on by all tools that run programs.
pub fn page_size() -> usize {
    // SAFETY: `sysconf` takes no pointer and returns a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("the page size is positive")
}

/// Returns the memory of locked pages to the system.
///
/// # Safety
/// The range is mapped, and its contents are not needed any more.
unsafe fn dont_need_locked(start: *mut c_void, bytes: usize) -> Result<(), Errno> {
    // SAFETY: the caller promises that the range is mapped and that its contents are not needed.
    let done = unsafe { libc::madvise(start, bytes, libc::MADV_DONTNEED_LOCKED) } == 0;
    if done { Ok(()) } else { Err(Errno::INVAL) }
}

/// Unmaps a range; does nothing if it is empty.
///
/// # Safety
/// The range is mapped, and it is not used any more.
pub(super) unsafe fn unmap(start: *mut u8, bytes: usize) -> Result<(), Errno> {
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: the caller promises that the range is mapped and is not used any more.
    unsafe { munmap(start.cast(), bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALIGN: usize = 4 << 20;

    #[test]
    fn reservation_is_aligned_zeroed_and_writable() {
        let range = Reservation::new(10_000, ALIGN).unwrap();
        assert_eq!((range.start().as_ptr().addr() % ALIGN, range.bytes()), (0, 12_288));
        // SAFETY: `range` outlives `bytes`, and the test uses the range through `bytes` only.
        let bytes = unsafe { range.as_bytes() };
        bytes[0].write(7);
        // SAFETY: the kernel zeroes new anonymous pages, so the byte is initialised.
        assert_eq!(unsafe { bytes[12_287].assume_init() }, 0);
    }

    #[test]
    fn returned_pages_read_as_zero() {
        let range = Reservation::new(8192, 1).unwrap();
        let (first, second) = (range.start(), range.start().map_addr(|at| at.saturating_add(4096)));
        // SAFETY: `range` was just mapped with two pages, and only this test uses it.
        unsafe {
            first.write(1);
            second.write(2);
            range.give_back(4096, 4096).unwrap();
            assert_eq!((first.read(), second.read()), (1, 0));
            assert_eq!(range.give_back(4096, 8192), Err(Errno::INVAL));
            assert_eq!(range.give_back(0, 100), Err(Errno::INVAL));
        }
    }

    #[test]
    fn oversized_reservation_is_an_error() {
        assert_eq!(Reservation::new(usize::MAX, 1).unwrap_err(), Errno::NOMEM);
        assert_eq!(Reservation::new(1 << 60, 1).unwrap_err(), Errno::NOMEM);
    }
}
