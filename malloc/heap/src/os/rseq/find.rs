//! Whether this process has restartable sequences, and where.

use core::ffi::{CStr, c_void};

use libc::{RTLD_DEFAULT, dlsym};
use rustix::thread::{MembarrierCommand, membarrier};

use super::arch;

/// Why the process has no restartable sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// Another system, or another processor.
    #[error("restartable sequences are written for Linux on x86-64 and aarch64; use locks for each CPU here")]
    Architecture,

    /// The C library does not register threads.
    #[error("the C library registers no restartable sequences; use glibc 2.35 or later, or locks for each CPU")]
    Library,

    /// The C library would, but did not.
    #[error(
        "restartable sequences are switched off; allow glibc.pthread.rseq and the system call rseq, or use locks for each CPU"
    )]
    Off,

    /// The kernel has no fence for restartable sequences.
    #[error("the kernel cannot fence restartable sequences; use Linux 5.10 or later, or locks for each CPU")]
    Fence,
}

/// From a thread's pointer to its area.
pub(super) fn find() -> Result<isize, Unavailable> {
    if !arch::SUPPORTED {
        return Err(Unavailable::Architecture);
    }
    let area: isize = variable(c"__rseq_offset").ok_or(Unavailable::Library)?;
    let size: u32 = variable(c"__rseq_size").ok_or(Unavailable::Library)?;
    // SAFETY: glibc has reserved an area for each thread if it says where, used or not.
    if size == 0 || unsafe { arch::raw_cpu(area) }.cast_signed() < 0 {
        return Err(Unavailable::Off);
    }
    membarrier(MembarrierCommand::RegisterPrivateExpeditedRseq).map_err(|_| Unavailable::Fence)?;
    Ok(area)
}

/// A constant of the C library, if it has it.
fn variable<T: Copy>(name: &CStr) -> Option<T> {
    // SAFETY: a name that ends in zero.
    let place: *mut c_void = unsafe { dlsym(RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: glibc documents `__rseq_offset` as a constant of a pointer's size, and `__rseq_size` as one of an int's.
    (!place.is_null()).then(|| unsafe { place.cast::<T>().read() })
}
