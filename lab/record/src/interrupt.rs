//! Ctrl-C and similar signals, as a file that becomes readable and a count.
//!
//! While the command runs, the first SIGINT, SIGTERM or SIGHUP ends the run, and the recording is kept. At any other
//! time a signal aborts the recording: no file is kept, and the setup is removed. A signal during the removal ends the
//! process immediately. When no listener exists, a signal has its previous action again.

use std::cell::Cell;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::SigId;
use signal_hook::consts::SIGUSR1;
use signal_hook::{flag, low_level};

use crate::afterwards::{Listener, SIGNALS};
use crate::error::CaptureError;

/// Listener to signals, for as long as the value exists.
#[derive(Debug)]
pub struct Interrupts {
    /// Socket that receives one byte for every signal.
    bytes: UnixStream,
    seen: Cell<usize>,
    /// Number of signals that were handled.
    obeyed: Cell<usize>,
    /// Whether one more signal may arrive before the recording is aborted.
    postponed: Cell<bool>,
    /// Whether the recording is aborted, so that a further signal ends the process.
    given_up: Arc<AtomicBool>,
    registered: Vec<SigId>,
    /// Dropped after the registered handlers.
    _listener: Option<Listener>,
}

/// Exit status of a process that SIGINT ended, as shells report it.
pub const INTERRUPTED: u8 = 130;

impl Interrupts {
    /// Starts listening.
    ///
    /// # Errors
    /// If the system refuses a socket pair or a handler.
    pub fn listen() -> io::Result<Interrupts> {
        let (bytes, writable) = UnixStream::pair()?;
        bytes.set_nonblocking(true)?;
        let given_up = Arc::new(AtomicBool::new(false));
        let (seen, obeyed) = (Cell::new(0), Cell::new(0));
        let postponed = Cell::new(false);
        let listener = Listener::begin()?;
        let mut interrupts =
            Interrupts { bytes, seen, obeyed, postponed, given_up, registered: Vec::new(), _listener: Some(listener) };
        for signal in SIGNALS {
            let last =
                flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(&interrupts.given_up))?;
            interrupts.registered.push(last);
            let id = low_level::pipe::register(signal, writable.try_clone()?)?;
            interrupts.registered.push(id);
        }
        Ok(interrupts)
    }

    /// Creates a listener that receives no signals, since signals of other tests arrive at the whole process.
    #[cfg(test)]
    pub fn deaf() -> Interrupts {
        let (bytes, writable) = UnixStream::pair().unwrap();
        bytes.set_nonblocking(true).unwrap();
        // Closing the other end would make the socket readable.
        std::mem::forget(writable);
        Interrupts {
            bytes,
            seen: Cell::default(),
            obeyed: Cell::default(),
            postponed: Cell::default(),
            given_up: Arc::default(),
            registered: Vec::new(),
            _listener: None,
        }
    }

    /// Returns a file descriptor that becomes readable when a signal has arrived that [`Interrupts::count`] has not
    /// counted yet.
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.bytes.as_fd()
    }

    /// Returns the number of signals so far.
    pub fn count(&self) -> usize {
        let mut bytes = [0; 16];
        while let Ok(read @ 1..) = (&self.bytes).read(&mut bytes) {
            self.seen.set(self.seen.get() + read);
        }
        self.seen.get()
    }
}

impl Interrupts {
    /// Marks the signals so far as handled.
    pub fn obey(&self) {
        self.obeyed.set(self.count());
        self.postponed.set(false);
    }

    /// Allows one signal to wait, so that the current operation can be finished. A further signal aborts it.
    pub fn postpone(&self) {
        self.postponed.set(true);
    }

    /// Returns whether a signal has arrived that is not handled yet.
    pub fn is_waiting(&self) -> bool {
        self.count() > self.obeyed.get()
    }

    /// Aborts the recording if a signal has arrived that is not handled yet.
    ///
    /// # Errors
    /// [`CaptureError::Aborted`], which the caller must return at once.
    pub fn check(&self) -> Result<(), CaptureError> {
        if self.count() <= self.obeyed.get() + usize::from(self.postponed.get()) {
            return Ok(());
        }
        self.given_up.store(true, Ordering::Release);
        Err(CaptureError::Aborted)
    }
}

/// SIGUSR1, which requests a recording, as a file that becomes readable.
#[derive(Debug)]
pub(crate) struct Requests {
    bytes: UnixStream,
    registered: SigId,
}

impl Requests {
    /// Starts listening.
    ///
    /// # Errors
    /// If the system refuses a socket pair or a handler.
    pub(crate) fn listen() -> io::Result<Requests> {
        let (bytes, writable) = UnixStream::pair()?;
        bytes.set_nonblocking(true)?;
        let registered = low_level::pipe::register(SIGUSR1, writable)?;
        Ok(Requests { bytes, registered })
    }

    /// Returns a file descriptor that becomes readable at a request.
    pub(crate) fn readable(&self) -> BorrowedFd<'_> {
        self.bytes.as_fd()
    }

    /// Returns whether there was a request since the last call. Several requests count as one.
    pub(crate) fn take(&self) -> bool {
        let mut bytes = [0; 16];
        let mut asked = false;
        while let Ok(1..) = (&self.bytes).read(&mut bytes) {
            asked = true;
        }
        asked
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        low_level::unregister(self.registered);
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
    use signal_hook::consts::SIGHUP;

    use super::*;

    #[test]
    fn signals_wake_the_reader_and_are_counted() {
        let interrupts = Interrupts::listen().unwrap();
        assert_eq!(interrupts.count(), 0);
        low_level::raise(SIGHUP).unwrap();
        let fd = interrupts.readable();
        assert_eq!(poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], None).unwrap(), 1);
        assert_eq!(interrupts.count(), 1);
        interrupts.postpone();
        interrupts.check().unwrap();
        assert!(interrupts.is_waiting(), "it is not forgotten");
        interrupts.obey();
        assert!(!interrupts.is_waiting());
        low_level::raise(SIGHUP).unwrap();
        // From here on a signal would end this process.
        assert!(matches!(interrupts.check(), Err(CaptureError::Aborted)));
        interrupts.obey();
        interrupts.check().unwrap();
    }

    #[test]
    fn merged_requests_are_answered_once() {
        let requests = Requests::listen().unwrap();
        assert!(!requests.take());
        low_level::raise(SIGUSR1).unwrap();
        low_level::raise(SIGUSR1).unwrap();
        assert!(requests.take() && !requests.take());
    }
}
