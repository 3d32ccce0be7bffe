//! Address ranges of the process: reserved at once, backed by memory when they are touched.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};

use rustix::io::Errno;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, MremapFlags, ProtFlags, madvise, mmap_anonymous, mprotect, mremap_fixed, munmap,
};

/// An address range that reads as zeros until it is written; unmapped when dropped.
#[derive(Debug)]
pub struct Reservation {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it is a range of addresses, bound to no thread; what is in it is its users' affair.
unsafe impl Send for Reservation {}
// SAFETY: as above; its methods ask the kernel, or promise that the bytes are not in use.
unsafe impl Sync for Reservation {}

/// Whether the kernel should back a range with huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// As the system's setting for transparent huge pages says.
    #[default]
    BySystem,
    /// Wherever a whole huge page of the range is used. linux: MADV_HUGEPAGE
    Wanted,
}

impl Reservation {
    /// Reserves so many bytes, rounded up to pages, from a multiple of `align` on. Costs three system calls; swap space
    /// is not reserved along.
    ///
    /// # Errors
    /// If the address space, or the process's limit of it, has no such range.
    ///
    /// # Panics
    /// If `align` is no power of two.
    pub fn new(bytes: usize, align: usize) -> Result<Reservation, Errno> {
        Reservation::map(bytes, align, MapFlags::NORESERVE, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// Reserves addresses alone: nothing can be accessed before it is [committed](Self::commit), and the system counts
    /// none of it as memory, however it counts.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    ///
    /// # Panics
    /// If `align` is no power of two.
    pub fn inaccessible(bytes: usize, align: usize) -> Result<Reservation, Errno> {
        Reservation::map(bytes, align, MapFlags::NORESERVE, ProtFlags::empty())
    }

    fn map(bytes: usize, align: usize, reserve: MapFlags, protection: ProtFlags) -> Result<Reservation, Errno> {
        assert!(align.is_power_of_two(), "an alignment is a power of two");
        let page_align = align.max(page_size());
        let size = bytes.max(1).checked_next_multiple_of(page_size()).ok_or(Errno::NOMEM)?;
        let wide = size.checked_add(page_align).ok_or(Errno::NOMEM)?;
        // SAFETY: a new mapping, wherever the kernel finds room.
        let mapped = unsafe { mmap_anonymous(null_mut(), wide, protection, MapFlags::PRIVATE | reserve)? }.cast::<u8>();
        let before = mapped.align_offset(page_align);
        // SAFETY: the mapping is `page_align` bytes longer than what is kept; what is unmapped is nobody's.
        let start = unsafe {
            let start = mapped.add(before);
            unmap(mapped, before)?;
            unmap(start.add(size), page_align - before)?;
            start
        };
        Ok(Reservation { start: NonNull::new(start).ok_or(Errno::NOMEM)?, bytes: size })
    }

    /// Address of the range's first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Length of the range in bytes, whole pages.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Says what pages to back it with. The kernel may do otherwise.
    ///
    /// # Errors
    /// If the kernel has no huge pages.
    pub fn advise(&self, pages: HugePages) -> Result<(), Errno> {
        match pages {
            HugePages::BySystem => Ok(()),
            // SAFETY: changes nothing of what is there.
            HugePages::Wanted => unsafe { madvise(self.place(0), self.bytes, Advice::LinuxHugepage) },
        }
    }

    /// Lets a part of it be accessed, whole pages. The kernel refuses what it does not have, if it is set to count.
    ///
    /// # Errors
    /// If it is not a part of this reservation, or the system has not so much memory.
    pub fn commit(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        self.expect_part(offset, bytes)?;
        // SAFETY: within our mapping; what could be accessed before still can.
        unsafe { mprotect(self.place(offset), bytes, MprotectFlags::READ | MprotectFlags::WRITE) }
    }

    /// Lets a part of it not be accessed any more, whole pages; what is there stays.
    ///
    /// # Errors
    /// If it is not a part of this reservation, or the process has too many mappings already.
    ///
    /// # Safety
    /// Nobody accesses it who does not mean to be ended by the kernel.
    pub unsafe fn protect(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        self.expect_part(offset, bytes)?;
        // SAFETY: within our mapping; the rest is the caller's promise.
        unsafe { mprotect(self.place(offset), bytes, MprotectFlags::empty()) }
    }

    /// Moves the memory of whole pages to other pages of the reservation, without copying. Those that it was at read as
    /// zeros then. linux: MREMAP_DONTUNMAP
    ///
    /// # Errors
    /// If these are not parts of this reservation, or overlap, or the kernel is older than 5.7, or has too many
    /// mappings.
    ///
    /// # Safety
    /// Nobody else uses either part meanwhile, and nobody relies on what was at the place that it goes to.
    pub unsafe fn move_within(&self, from: usize, to: usize, bytes: usize) -> Result<(), Errno> {
        self.expect_part(from, bytes)?;
        self.expect_part(to, bytes)?;
        let flags = MremapFlags::MAYMOVE | MremapFlags::from_bits_retain(libc::MREMAP_DONTUNMAP as u32);
        // SAFETY: both are ours, and the caller has promised that nobody uses them.
        unsafe { mremap_fixed(self.place(from), bytes, bytes, flags, self.place(to)) }.map(|_| ())
    }

    fn expect_part(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        if inside && bytes.is_multiple_of(page_size()) { Ok(()) } else { Err(Errno::INVAL) }
    }

    /// Gives the memory that backs whole pages back to the system: they read as zeros from then on.
    ///
    /// # Errors
    /// If the range is not one of whole pages within this reservation.
    ///
    /// # Safety
    /// Nobody relies on what is there.
    pub unsafe fn give_back(&self, offset: usize, bytes: usize) -> Result<(), Errno> {
        self.expect_part(offset, bytes)?;
        // SAFETY: within our mapping; the rest is the caller's promise.
        unsafe { madvise(self.place(offset), bytes, Advice::LinuxDontNeed) }
    }

    /// The bytes, for as long as the caller says.
    ///
    /// # Safety
    /// The reservation outlives `'m`, and nobody else uses it meanwhile.
    pub unsafe fn as_bytes<'m>(&self) -> &'m mut [MaybeUninit<u8>] {
        // SAFETY: mapped, readable and writable; the rest is the caller's promise.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.bytes) }
    }

    fn place(&self, offset: usize) -> *mut c_void {
        self.start.as_ptr().wrapping_add(offset).cast()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: our mapping; the callers of `as_bytes` have promised that nothing uses its bytes any more.
        let _unmapped = unsafe { unmap(self.start.as_ptr(), self.bytes) };
    }
}

/// Bytes of memory that the machine has, from the kernel; 0 if it does not say.
pub fn memory_bytes() -> usize {
    let mut info = MaybeUninit::<libc::sysinfo>::zeroed();
    // SAFETY: the kernel fills in what is there for it, and zeros are numbers, too.
    let info = unsafe {
        libc::sysinfo(info.as_mut_ptr());
        info.assume_init()
    };
    usize::try_from(info.totalram).unwrap_or(usize::MAX).saturating_mul(info.mem_unit as usize)
}

/// Bytes of addresses that the process may have, if that is limited. linux: RLIMIT_AS
pub fn address_space_limit() -> Option<usize> {
    read_limit(libc::RLIMIT_AS)
}

/// Bytes of private memory that the process may make writable, if that is limited. linux: RLIMIT_DATA
pub fn data_limit() -> Option<usize> {
    read_limit(libc::RLIMIT_DATA)
}

// The C libraries have types of their own for resources.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

fn read_limit(resource: Resource) -> Option<usize> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel writes the limits there.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    (limit.rlim_cur != libc::RLIM_INFINITY).then(|| usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX))
}

/// Bytes of a page, from the C library: not all tools that run programs hand over what others read it from.
pub fn page_size() -> usize {
    // SAFETY: asks for a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("pages have a size")
}

/// # Safety
/// The range is a mapping that nobody uses any more.
unsafe fn unmap(start: *mut u8, bytes: usize) -> Result<(), Errno> {
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: the caller promises a mapping that nobody uses any more.
    unsafe { munmap(start.cast(), bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALIGN: usize = 4 << 20;

    #[test]
    fn a_reservation_is_aligned_zero_and_writable() {
        let range = Reservation::new(10_000, ALIGN).unwrap();
        assert_eq!((range.start().as_ptr().addr() % ALIGN, range.bytes()), (0, 12_288));
        // SAFETY: nobody else uses it.
        let bytes = unsafe { range.as_bytes() };
        bytes[0].write(7);
        // SAFETY: the kernel has zeroed it.
        assert_eq!(unsafe { bytes[12_287].assume_init() }, 0);
    }

    #[test]
    fn what_is_given_back_is_zero() {
        let range = Reservation::new(8192, 1).unwrap();
        let (first, second) = (range.start(), range.start().map_addr(|at| at.saturating_add(4096)));
        // SAFETY: the range is ours, and two pages long.
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
    fn what_cannot_be_had_is_an_error() {
        assert_eq!(Reservation::new(usize::MAX, 1).unwrap_err(), Errno::NOMEM);
        assert_eq!(Reservation::new(1 << 60, 1).unwrap_err(), Errno::NOMEM);
    }
}
