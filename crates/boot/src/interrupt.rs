//! Ctrl-C while a guest runs: once ends the recording and keeps it, twice ends the guest.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::error::Error;

/// Counts the signals that ask this process to end. Dropped, it lets them end it again.
#[derive(Debug)]
pub struct Interrupts {
    count: Arc<AtomicUsize>,
    handle: Option<Handle>,
}

impl Interrupts {
    /// Begins to count.
    ///
    /// # Errors
    /// When signals cannot be caught.
    pub fn listen() -> Result<Interrupts, Error> {
        let mut signals = Signals::new([SIGINT, SIGTERM])
            .map_err(|error| Error::Missing(format!("this system does not let Ctrl-C be watched: {error}")))?;
        let (count, handle) = (Arc::new(AtomicUsize::new(0)), signals.handle());
        let counter = Arc::clone(&count);
        thread::spawn(move || {
            for _ in signals.forever() {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Interrupts { count, handle: Some(handle) })
    }

    /// How many came so far.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// One that hears nothing but what it is told.
    #[cfg(test)]
    pub fn deaf(count: usize) -> Interrupts {
        Interrupts { count: Arc::new(AtomicUsize::new(count)), handle: None }
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            handle.close();
        }
    }
}
