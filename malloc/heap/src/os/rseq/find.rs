//! Detection of restartable sequences in this process.

use core::ffi::{CStr, c_void};

use libc::{RTLD_DEFAULT, dlsym};
use rustix::thread::{MembarrierCommand, membarrier};

use super::arch;

/// Reason why the process has no restartable sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The operating system or the processor is not supported.
    #[error("restartable sequences are supported only for Linux on x86-64 and aarch64; use locks for each CPU")]
    Architecture,

    /// The C library does not register threads at all.
    #[error("the C library does not register restartable sequences; use glibc 2.35 or later, or locks for each CPU")]
    Library,

    /// The C library supports registration but did not register this thread.
    #[error(
        "restartable sequences are disabled; allow glibc.pthread.rseq and the system call rseq, or use locks per CPU"
    )]
    Off,

    /// The kernel has no fence for restartable sequences.
    #[error("the kernel cannot fence restartable sequences; use Linux 5.10 or later, or locks for each CPU")]
    Fence,
}

/// Returns the offset in bytes of a thread's area from the thread pointer, and registers the process for the fence.
pub(super) fn find() -> Result<isize, Unavailable> {
    if !arch::SUPPORTED {
        return Err(Unavailable::Architecture);
    }
    let area: isize = variable(c"__rseq_offset").ok_or(Unavailable::Library)?;
    let size: u32 = variable(c"__rseq_size").ok_or(Unavailable::Library)?;
    // SAFETY: if glibc exports `__rseq_offset` and a nonzero size, each thread has an area at this offset, registered
    // or not.
    if size == 0 || unsafe { arch::raw_cpu(area) }.cast_signed() < 0 {
        return Err(Unavailable::Off);
    }
    membarrier(MembarrierCommand::RegisterPrivateExpeditedRseq).map_err(|_| Unavailable::Fence)?;
    Ok(area)
}

/// Returns the value of a constant that the C library exports; `None` if it does not.
fn variable<T: Copy>(name: &CStr) -> Option<T> {
    // SAFETY: `name` is a `CStr`, so it ends in a zero byte, as `dlsym` requires.
    let place: *mut c_void = unsafe { dlsym(RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: glibc documents `__rseq_offset` as a constant of pointer size and `__rseq_size` as an int; callers use
    // these types.
    (!place.is_null()).then(|| unsafe { place.cast::<T>().read() })
}
