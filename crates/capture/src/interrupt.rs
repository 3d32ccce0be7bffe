//! Ctrl-C and its kin, as a file that becomes readable and a count.
//!
//! The first SIGINT, SIGTERM or SIGHUP ends the run, and the recording is kept. A second one, while the
//! recording is being written, gives it up; nothing is kept then.

use std::cell::Cell;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level;

/// Listens to signals from its creation to its end.
#[derive(Debug)]
pub struct Interrupts {
    /// Every signal puts one byte here.
    bytes: UnixStream,
    seen: Cell<usize>,
    registered: Vec<SigId>,
}

impl Interrupts {
    /// Starts listening.
    ///
    /// # Errors
    /// When the system grants no socket pair or refuses a handler.
    pub fn listen() -> io::Result<Interrupts> {
        let (bytes, writable) = UnixStream::pair()?;
        bytes.set_nonblocking(true)?;
        let mut interrupts = Interrupts { bytes, seen: Cell::new(0), registered: Vec::new() };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let id = low_level::pipe::register(signal, writable.try_clone()?)?;
            interrupts.registered.push(id);
        }
        Ok(interrupts)
    }

    /// Becomes readable when a signal has come that [`Interrupts::count`] has not counted yet.
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.bytes.as_fd()
    }

    /// Signals so far.
    pub fn count(&self) -> usize {
        let mut bytes = [0; 16];
        while let Ok(read @ 1..) = (&self.bytes).read(&mut bytes) {
            self.seen.set(self.seen.get() + read);
        }
        self.seen.get()
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            low_level::unregister(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    #[test]
    fn signals_wake_and_count() {
        let interrupts = Interrupts::listen().unwrap();
        assert_eq!(interrupts.count(), 0);
        low_level::raise(SIGHUP).unwrap();
        let fd = interrupts.readable();
        assert_eq!(poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], None).unwrap(), 1);
        assert_eq!(interrupts.count(), 1);
        low_level::raise(SIGHUP).unwrap();
        assert_eq!(interrupts.count(), 2);
    }
}
