//! Ctrl-C while a guest runs: the first one ends the recording and keeps it, the second one ends the guest. Before the
//! guest records, the first one ends the guest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::error::Error;

/// Counter of SIGINT and SIGTERM. After this is dropped, the signals have their default effect again.
#[derive(Debug)]
pub struct Interrupts {
    count: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
}

impl Interrupts {
    /// Starts counting.
    ///
    /// # Errors
    /// When signals cannot be caught.
    pub fn listen() -> Result<Interrupts, Error> {
        let mut signals = Signals::new([SIGINT, SIGTERM])
            .map_err(|error| Error::Missing(format!("cannot register signal handlers for Ctrl-C: {error}")))?;
        let interrupts = Interrupts { count: Arc::default(), is_over: Arc::default() };
        let (counter, is_over) = (Arc::clone(&interrupts.count), Arc::clone(&interrupts.is_over));
        thread::spawn(move || {
            for signal in signals.forever() {
                if is_over.load(Ordering::Relaxed) {
                    // This fails only for signals that cannot be caught.
                    let _ = emulate_default_handler(signal);
                }
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(interrupts)
    }

    /// Returns the number of signals so far.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns a fixed number of interrupts, which does not change.
    #[cfg(test)]
    pub(crate) fn with_count(count: usize) -> Interrupts {
        Interrupts { count: Arc::new(AtomicUsize::new(count)), is_over: Arc::default() }
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
