//! Waiting for a time of the clock, or for a file that becomes readable before it.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::clock;
use crate::error::CaptureError;

/// Waits until the clock reaches `until`, or one of `fds` is readable. Returns which of `fds` are readable: none after
/// a timeout, and none if a signal interrupted the wait.
///
/// # Errors
/// If the system refuses to wait.
pub(crate) fn until<const N: usize>(until: u64, fds: [Option<BorrowedFd<'_>>; N]) -> Result<[bool; N], CaptureError> {
    let left = until.saturating_sub(clock::now());
    let timeout =
        Timespec { tv_sec: (left / 1_000_000_000).cast_signed(), tv_nsec: (left % 1_000_000_000).cast_signed() };
    let mut polled: Vec<PollFd<'_>> =
        fds.into_iter().flatten().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    match poll(&mut polled, Some(&timeout)) {
        // The signal that interrupted the wait has made its file readable, so the next call returns at once.
        Ok(0) | Err(rustix::io::Errno::INTR) => return Ok([false; N]),
        Ok(_) => {}
        Err(errno) => return Err(CaptureError::system("wait for events")(errno)),
    }
    let mut ready = polled.iter().map(|fd| !fd.revents().is_empty());
    Ok(fds.map(|fd| fd.is_some() && ready.next().unwrap_or(false)))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::command::Program;
    use crate::interrupt::Interrupts;

    #[test]
    fn wait_ends_at_the_deadline_or_a_readable_file() {
        let interrupts = Interrupts::deaf();
        assert_eq!(until(0, [Some(interrupts.readable()), None]).unwrap(), [false; 2], "the time is over");
        let words = ["sh", "-c", "exit"].map(OsString::from);
        let running = Program::find(&words).unwrap().unwrap().start().unwrap();
        let fds = [None, Some(interrupts.readable()), Some(running.ended())];
        assert_eq!(until(u64::MAX / 2, fds).unwrap(), [false, false, true]);
        running.end(&interrupts).unwrap();
    }
}
