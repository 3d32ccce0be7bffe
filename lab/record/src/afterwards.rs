//! What signals do once nobody listens to them any more: what they did before.
//!
//! A handler stays where it was put, since another one may have been put above it. So what a signal did by default is
//! done by ours, while there is no [`Listener`]: a program that records as one thing among many can then still be
//! ended. Handlers of others are called by ours in any case, and what was ignored stays ignored.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Signals that are listened to.
pub(crate) const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Who listens in this process.
static LISTENERS: Mutex<Listeners> = Mutex::new(Listeners { count: 0, nobody: None });

struct Listeners {
    count: usize,
    /// Whether there is none, for the handlers; nothing before there was one.
    nobody: Option<Arc<AtomicBool>>,
}

/// Somebody who listens, from its creation to its end. Handlers are registered after it, and taken back before.
#[derive(Debug)]
pub(crate) struct Listener(());

impl Listener {
    /// Begins to listen.
    ///
    /// # Errors
    /// When the system refuses a handler.
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

/// Handlers that do what each signal does by default, if that is what it does now: while what is handed back is true.
fn registered() -> io::Result<Arc<AtomicBool>> {
    let nobody = Arc::new(AtomicBool::new(false));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for signal in SIGNALS.into_iter().filter(|&signal| is_default(&status, signal)) {
        flag::register_conditional_default(signal, Arc::clone(&nobody))?;
    }
    Ok(nobody)
}

/// Whether a signal is neither caught nor ignored.
fn is_default(status: &str, signal: i32) -> bool {
    let others = signal_mask(status, "SigCgt:") | signal_mask(status, "SigIgn:");
    others >> (signal - 1) & 1 == 0
}

/// Returns a mask of signals in the text of `/proc/self/status`; 0 if it has no such line.
fn signal_mask(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_caught_or_ignored_is_not_ended_by_default() {
        let status = "Name:\tx\nSigIgn:\t0000000000000001\nSigCgt:\t0000000000000002\n";
        assert_eq!([SIGHUP, SIGINT, SIGTERM].map(|signal| is_default(status, signal)), [false, false, true]);
        assert!(is_default("", SIGHUP));
    }

    #[test]
    fn somebody_listens_as_long_as_the_last_one() {
        let (one, other) = (Listener::begin().unwrap(), Listener::begin().unwrap());
        drop(one);
        let nobody = LISTENERS.lock().unwrap().nobody.as_ref().map(|nobody| nobody.load(Ordering::SeqCst));
        assert_eq!(nobody, Some(false));
        drop(other);
    }
}
