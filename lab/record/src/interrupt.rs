//! Ctrl-C and its kin, as a file that becomes readable and a count.
//!
//! While the command runs, the first SIGINT, SIGTERM or SIGHUP ends the run, and the recording is kept. At any other
//! time a signal gives the recording up: nothing is kept, and what was set up is taken down. A signal while that is
//! going on ends the process on the spot. Where nobody listens any more, a signal does again what it did before.

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

/// Listens to signals from its creation to its end.
#[derive(Debug)]
pub struct Interrupts {
    /// Every signal puts one byte here.
    bytes: UnixStream,
    seen: Cell<usize>,
    /// Signals that have been obeyed.
    obeyed: Cell<usize>,
    /// Whether one more may come before the recording is given up.
    postponed: Cell<bool>,
    /// Whether the recording is given up, so that a further signal ends the process.
    given_up: Arc<AtomicBool>,
    registered: Vec<SigId>,
    /// Dropped after what is registered.
    _listener: Option<Listener>,
}

/// The status of a process that SIGINT ended, as shells tell it.
pub const INTERRUPTED: u8 = 130;

impl Interrupts {
    /// Starts listening.
    ///
    /// # Errors
    /// When the system grants no socket pair or refuses a handler.
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

    /// Hears no signal: those of other tests come to the whole process.
    #[cfg(test)]
    pub fn deaf() -> Interrupts {
        let (bytes, writable) = UnixStream::pair().unwrap();
        bytes.set_nonblocking(true).unwrap();
        // Its end would be something to read.
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

impl Interrupts {
    /// Obeys the signals so far: they have done what they were meant to.
    pub fn obey(&self) {
        self.obeyed.set(self.count());
        self.postponed.set(false);
    }

    /// Lets one signal wait, so that what is being done can be finished; a further one gives it up.
    pub fn postpone(&self) {
        self.postponed.set(true);
    }

    /// Whether there was a signal that is not obeyed yet.
    pub fn is_waiting(&self) -> bool {
        self.count() > self.obeyed.get()
    }

    /// Gives the recording up if there was a signal that is not obeyed yet.
    ///
    /// # Errors
    /// [`CaptureError::Aborted`], which is to be passed on at once.
    pub fn check(&self) -> Result<(), CaptureError> {
        if self.count() <= self.obeyed.get() + usize::from(self.postponed.get()) {
            return Ok(());
        }
        self.given_up.store(true, Ordering::Release);
        Err(CaptureError::Aborted)
    }
}

/// SIGUSR1, by which somebody asks for something, as a file that becomes readable.
#[derive(Debug)]
pub(crate) struct Requests {
    bytes: UnixStream,
    registered: SigId,
}

impl Requests {
    /// Starts listening.
    ///
    /// # Errors
    /// When the system grants no socket pair or refuses a handler.
    pub(crate) fn listen() -> io::Result<Requests> {
        let (bytes, writable) = UnixStream::pair()?;
        bytes.set_nonblocking(true)?;
        let registered = low_level::pipe::register(SIGUSR1, writable)?;
        Ok(Requests { bytes, registered })
    }

    /// Becomes readable when somebody has asked.
    pub(crate) fn readable(&self) -> BorrowedFd<'_> {
        self.bytes.as_fd()
    }

    /// Whether somebody has asked since the last time; who asks twice before gets one answer.
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
    fn signals_wake_and_count() {
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
    fn requests_are_answered_once() {
        let requests = Requests::listen().unwrap();
        assert!(!requests.take());
        low_level::raise(SIGUSR1).unwrap();
        low_level::raise(SIGUSR1).unwrap();
        assert!(requests.take() && !requests.take());
    }
}
