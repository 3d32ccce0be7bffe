//! What only C's functions do: a fork that prepares the malloc, and what children took.

use std::io;
use std::mem::MaybeUninit;

use rustix::process::Pid;

/// Forks; the child does this and ends at once, after so many seconds by a signal.
pub(super) fn fork_child(patience: u32, work: impl FnOnce()) -> io::Result<Pid> {
    // SAFETY: the child calls the malloc, which is what is tried, and ends without any code of other threads or at
    // exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: it sets a timer of this process, no handler is there, and nothing else uses it.
        unsafe { libc::alarm(patience) };
        work();
        // SAFETY: it ends this process, in which no other thread is.
        unsafe { libc::_exit(0) }
    }
    // No child has the number 0, and a failure is -1, which is none either.
    (child > 0).then(|| Pid::from_raw(child)).flatten().ok_or_else(io::Error::last_os_error)
}

/// CPU nanoseconds of all children that ended, and the most KiB that were resident in one of them.
pub(super) fn children_usage() -> io::Result<(u64, u64)> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: it is told where there is room for what it writes.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all of it is numbers, which may be zero, and the kernel wrote them.
    let filled = unsafe { usage.assume_init() };
    Ok((nanoseconds(filled.ru_utime) + nanoseconds(filled.ru_stime), filled.ru_maxrss as u64))
}

fn nanoseconds(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000
}

#[cfg(test)]
mod tests {
    use rustix::process::{WaitOptions, waitpid};

    use super::*;

    #[test]
    fn a_child_does_its_work_and_ends() {
        let child = fork_child(60, || ()).unwrap();
        let (_, status) = waitpid(Some(child), WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.exit_status(), Some(0));
        assert!(children_usage().unwrap().1 > 0);
    }
}
