//! Addresses for ranges that are mapped as they grow.
//!
//! A range that is reserved in one piece counts against the limits of the process as a whole: `ulimit -v`, and `ulimit
//! -l` when the program locks its memory. So nothing is mapped ahead. A range gets random addresses in a part of the
//! address space that the kernel does not use for mappings whose addresses it chooses itself. If the program has mapped
//! something there itself, an extension fails, and the range continues [behind that mapping](super::growth).
//!
//! ```text
//! 0          1/8             3/8              1/2             5/8                           1
//! | programs  | Region::Lower | Region::Middle | Region::Upper | programs, libraries, stacks |
//! ```

use core::ffi::c_void;
use core::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::rand::{GetRandomFlags, getrandom};

/// Part of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// From one eighth to three eighths.
    Lower,
    /// From three eighths to a half.
    Middle,
    /// From a half to five eighths.
    Upper,
}

/// Number of random addresses that are tried.
const TRIES: u32 = 16;

impl Region {
    /// Returns the region's first address, and its length, in an address space of `size` bytes.
    fn within(self, size: usize) -> (usize, usize) {
        let eighth = size / 8;
        match self {
            Region::Lower => (eighth, 2 * eighth),
            Region::Middle => (3 * eighth, eighth),
            Region::Upper => (4 * eighth, eighth),
        }
    }
}

/// Bytes up to which a writable mapping gets its pages at once, since small extensions are for tables that are written
/// at once. One system call costs less than a fault for each page.
const POPULATED: usize = 64 << 10;

/// Returns the start of `bytes` unmapped bytes of a region, a multiple of `align`. If a limit of the process does not
/// allow a trial, the addresses may contain mappings.
///
/// # Errors
/// If the region is too small, or all addresses that were tried are in use.
pub(super) fn find(bytes: usize, align: usize, region: Region) -> Result<NonNull<u8>, Errno> {
    assert!(align.is_power_of_two(), "the alignment is not a power of two");
    let (first, length) = region.within(address_space());
    let places = length.checked_sub(bytes).ok_or(Errno::NOMEM)? / align;
    for _ in 0..TRIES {
        let start = first.next_multiple_of(align) + random() % places.max(1) * align;
        let start = core::ptr::with_exposed_provenance_mut::<c_void>(start);
        match map(start, bytes, ProtFlags::empty()) {
            // SAFETY: the range was just mapped and is not in use.
            Ok(()) => unsafe { munmap(start, bytes)? },
            Err(Errno::EXIST) => continue,
            Err(_limited) => {}
        }
        return NonNull::new(start.cast()).ok_or(Errno::NOMEM);
    }
    Err(Errno::NOMEM)
}

/// Maps bytes at an address, where nothing else may be mapped.
///
/// # Errors
/// If another mapping is there, or the system or a limit of the process does not allow the mapping.
pub(super) fn map(start: *mut c_void, bytes: usize, protection: ProtFlags) -> Result<(), Errno> {
    let mut flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    flags.set(MapFlags::POPULATE, bytes <= POPULATED && protection.contains(ProtFlags::WRITE));
    // SAFETY: the flag makes the kernel refuse addresses that are mapped, so no existing mapping is affected.
    let mapped = unsafe { mmap_anonymous(start, bytes, protection, flags)? };
    if mapped != start {
        // Kernels before 4.17 do not know the flag, and take the address as a wish.
        // SAFETY: the range was just mapped and is not in use.
        unsafe { munmap(mapped, bytes)? };
        return Err(Errno::EXIST);
    }
    Ok(())
}

/// Bits of the smallest address space that programs have on the supported machines: RISC-V with `sv39`.
const ADDRESS_BITS_MIN: u32 = 38;

/// Returns the bytes of the address space of programs, a power of two. The stack is at its end, unless the program has
/// chosen another place for it.
fn address_space() -> usize {
    1 << (usize::BITS - stack_address().leading_zeros()).max(ADDRESS_BITS_MIN)
}

fn stack_address() -> usize {
    let on_stack = 0_u8;
    core::ptr::from_ref(&on_stack).addr()
}

/// Returns an unpredictable number. If the kernel has no entropy yet, it follows from the address of the stack, which
/// the kernel randomises.
fn random() -> usize {
    let mut bytes = (stack_address() >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_ne_bytes();
    // The kernel may fill only some of the bytes; the other bytes keep those of the address.
    let _filled = getrandom(&mut bytes, GetRandomFlags::NONBLOCK);
    usize::from_ne_bytes(bytes)
}
