//! Calls of the C library that have no safe wrapper: a fork that prepares the malloc, and the resource usage of
//! children.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};

use rustix::process::Pid;

/// Forks. The child calls `work` and exits at once; a signal ends it after `patience` seconds.
pub(super) fn fork_child(patience: u32, work: impl FnOnce()) -> io::Result<Pid> {
    // SAFETY: the child calls only `alarm`, `work` and `_exit`. `work` uses only the malloc, whose behaviour after a
    // fork is under test. The child does not depend on other threads, and runs no exit handlers.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: `alarm` only sets a timer of this process, which has no handler for its signal and no other use of
        // the timer.
        unsafe { libc::alarm(patience) };
        work();
        // SAFETY: `_exit` has no precondition. It ends the child, which has no other threads, without exit handlers.
        unsafe { libc::_exit(0) }
    }
    // A child's number is positive; a failure is -1.
    (child > 0).then(|| Pid::from_raw(child)).flatten().ok_or_else(io::Error::last_os_error)
}

/// Returns the CPU nanoseconds of all children that ended, and the maximum of their peak resident memory in KiB.
pub(super) fn children_usage() -> io::Result<(u64, u64)> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for writes of an `rusage`, since it points to `usage`.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all fields are integers, for which zero bytes are valid, and the kernel has written the structure.
    let filled = unsafe { usage.assume_init() };
    Ok((nanoseconds(filled.ru_utime) + nanoseconds(filled.ru_stime), filled.ru_maxrss as u64))
}

/// End of a child process, and the resources that it and the children that it waited for have used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub status: ExitStatus,
    /// CPU time in nanoseconds.
    pub cpu_ns: u64,
    /// Peak resident memory of the largest process, in KiB.
    pub peak: u64,
}

/// Waits for a child process.
pub(super) fn wait_for_child(child: Child) -> io::Result<Usage> {
    let number = i32::try_from(child.id()).map_err(io::Error::other)?;
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are valid for writes, since they point to `status` and `usage`. The child was not
        // waited for before: this function owns the only handle to it.
        if unsafe { libc::wait4(number, &raw mut status, 0, usage.as_mut_ptr()) } == number {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: all fields are integers, for which zero bytes are valid, and the kernel has written the structure.
    let filled = unsafe { usage.assume_init() };
    let cpu_ns = nanoseconds(filled.ru_utime) + nanoseconds(filled.ru_stime);
    Ok(Usage { status: ExitStatus::from_raw(status), cpu_ns, peak: filled.ru_maxrss as u64 })
}

fn nanoseconds(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000
}

#[cfg(test)]
mod tests {
    use rustix::process::{WaitOptions, waitpid};

    use super::*;

    #[test]
    fn forked_child_exits_successfully() {
        let child = fork_child(60, || ()).unwrap();
        let (_, status) = waitpid(Some(child), WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.exit_status(), Some(0));
        assert!(children_usage().unwrap().1 > 0);
    }
}
