//! Default actions of signals while no [`Listener`] exists.
//!
//! A signal handler is never removed, since another one may have been installed above it. While there is no
//! [`Listener`], the handler of this module therefore performs the signal's default action. A program that records only
//! at times can then still be terminated. Handlers of others are always called too, and an ignored signal stays
//! ignored.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Signals that a listener receives.
pub(crate) const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Listeners of this process.
static LISTENERS: Mutex<Listeners> = Mutex::new(Listeners { count: 0, nobody: None });

struct Listeners {
    count: usize,
    /// Whether there is no listener, for the handlers; `None` before the first listener.
    nobody: Option<Arc<AtomicBool>>,
}

/// A listener to signals, for as long as the value exists. Its handlers must be registered after it is created, and
/// removed before it is dropped.
#[derive(Debug)]
pub(crate) struct Listener(());

impl Listener {
    /// Starts to listen.
    ///
    /// # Errors
    /// If the system refuses a handler.
    pub(crate) fn begin() -> io::Result<Listener> {
        let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
        let nobody = match &listeners.nobody {
            Some(nobody) => nobody,
            None => listeners.nobody.insert(registered()?),
        };
        nobody.store(false, Ordering::SeqCst);
        listeners.count += 1;
        Ok(Listener(()))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.count -= 1;
        if let Some(nobody) = listeners.nobody.as_ref().filter(|_| listeners.count == 0) {
            nobody.store(true, Ordering::SeqCst);
        }
    }
}

/// Registers handlers that perform each signal's default action while the returned flag is true. Signals that are
/// caught or ignored are left out.
fn registered() -> io::Result<Arc<AtomicBool>> {
    let nobody = Arc::new(AtomicBool::new(false));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for signal in SIGNALS.into_iter().filter(|&signal| is_default(&status, signal)) {
        flag::register_conditional_default(signal, Arc::clone(&nobody))?;
    }
    Ok(nobody)
}

/// Returns whether a signal is neither caught nor ignored.
fn is_default(status: &str, signal: i32) -> bool {
    let others = signal_mask(status, "SigCgt:") | signal_mask(status, "SigIgn:");
    others >> (signal - 1) & 1 == 0
}

/// Returns a mask of signals in the text of `/proc/self/status`; 0 if the text has no such line.
fn signal_mask(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caught_or_ignored_signals_are_not_default() {
        let status = "Name:\tx\nSigIgn:\t0000000000000001\nSigCgt:\t0000000000000002\n";
        assert_eq!([SIGHUP, SIGINT, SIGTERM].map(|signal| is_default(status, signal)), [false, false, true]);
        assert!(is_default("", SIGHUP));
    }

    #[test]
    fn listening_continues_after_one_of_two_listeners_is_dropped() {
        let (one, other) = (Listener::begin().unwrap(), Listener::begin().unwrap());
        drop(one);
        let nobody = LISTENERS.lock().unwrap().nobody.as_ref().map(|nobody| nobody.load(Ordering::SeqCst));
        assert_eq!(nobody, Some(false));
        drop(other);
    }
}
