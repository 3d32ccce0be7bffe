//! Tracking of threads in slow paths, for signal handlers and for forks.
//!
//! A fast path is a single step and needs no tracking. A slow path takes locks, so a thread in a slow path sets a word
//! of its own ([`Gate::enter`]). A signal handler that interrupts the thread finds the word set, and uses memory that
//! needs no lock ([`nested`](super::nested)). The thread is also counted, so that a thread that forks can wait until no
//! other thread is in a slow path ([`Gate::close`]). In the child all locks are then released, and all lists are
//! consistent.
//!
//! A child loses the objects that other threads of its parent held at the fork: at most one object per thread, which a
//! fast path had taken and not yet returned.
//!
//! # Design
//!
//! The word is in the thread's static TLS block and is accessed by a fixed offset (the initial-exec model).
//! Thread-local variables of other models may allocate memory on first use. In a slow path, a signal handler takes
//! memory from a reserved piece, and puts blocks that it frees on a list.

use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU32, compiler_fence};

use rustix::thread::sched_yield;

use crate::os::thread::{self, Thread};

/// Number of counters, which are spread so that threads on several CPUs do not all write to one cache line.
const STRIPES: usize = 16;

#[repr(align(64))]
#[derive(Debug)]
struct Stripe(AtomicU32);

/// The gate before the slow paths.
#[derive(Debug)]
pub(super) struct Gate {
    within: [Stripe; STRIPES],
    /// Nonzero while a thread that forks, or checks the malloc, keeps the gate closed.
    closed: AtomicU32,
}

impl Gate {
    pub(super) const fn new() -> Gate {
        Gate { within: [const { Stripe(AtomicU32::new(0)) }; STRIPES], closed: AtomicU32::new(0) }
    }

    /// Enters a slow path. Waits while another thread forks or checks the malloc. Returns `None` if this thread is in a
    /// slow path already: then either a signal handler has interrupted the slow path, or the slow path itself has
    /// called code that allocates.
    #[inline]
    pub(super) fn enter(&self) -> Option<EntryGuard<'_>> {
        let thread = thread::current();
        if thread.depth.load(Relaxed) != 0 {
            return None;
        }
        thread.depth.store(1, Relaxed);
        compiler_fence(SeqCst);
        let stripe = &self.within[stripe_of(thread)].0;
        stripe.fetch_add(1, SeqCst);
        while self.closed.load(SeqCst) != 0 && thread.holds_gate.load(Relaxed) == 0 {
            stripe.fetch_sub(1, SeqCst);
            while self.closed.load(Relaxed) != 0 {
                sched_yield();
            }
            stripe.fetch_add(1, SeqCst);
        }
        Some(EntryGuard { gate: self, thread })
    }

    /// Closes the gate before a fork or a check: lets no further thread in, and waits until no other thread is in a
    /// slow path.
    pub(super) fn close(&self) {
        let thread = thread::current();
        while self.closed.compare_exchange(0, 1, SeqCst, Relaxed).is_err() {
            sched_yield();
        }
        thread.holds_gate.store(1, Relaxed);
        // The fork may happen in a signal handler that interrupted a slow path of this thread. That path continues in
        // both processes, so it is not waited for.
        let own = thread.depth.load(Relaxed);
        while self.within.iter().map(|stripe| stripe.0.load(SeqCst)).sum::<u32>() != own {
            sched_yield();
        }
    }

    /// Opens the gate after a fork, in the parent.
    pub(super) fn open(&self) {
        thread::current().holds_gate.store(0, Relaxed);
        self.closed.store(0, Release);
    }

    /// Opens the gate after a fork, in the child, which has only this thread.
    pub(super) fn open_in_child(&self) {
        let thread = thread::current();
        self.within.iter().for_each(|stripe| stripe.0.store(0, Relaxed));
        self.within[stripe_of(thread)].0.store(thread.depth.load(Relaxed), Relaxed);
        self.open();
    }

    /// Returns whether a fork is in progress.
    #[cfg(test)]
    fn is_closed(&self) -> bool {
        self.closed.load(SeqCst) != 0
    }
}

fn stripe_of(thread: &Thread) -> usize {
    // Words of different threads are some pages apart.
    (core::ptr::from_ref(thread).addr() >> 12) % STRIPES
}

/// Guard of a slow path: while it exists, the thread is counted as in a slow path.
#[derive(Debug)]
pub(super) struct EntryGuard<'g> {
    gate: &'g Gate,
    thread: &'static Thread,
}

impl Drop for EntryGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.gate.within[stripe_of(self.thread)].0.fetch_sub(1, SeqCst);
        compiler_fence(SeqCst);
        self.thread.depth.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    #[test]
    fn nested_enter_of_the_gate_fails() {
        let gate = Gate::new();
        let entered = gate.enter().expect("no thread is within");
        assert!(gate.enter().is_none());
        drop(entered);
        assert!(gate.enter().is_some());
    }

    #[test]
    fn fork_waits_for_entered_threads_and_blocks_new_threads() {
        static GATE: Gate = Gate::new();
        static LEFT: AtomicBool = AtomicBool::new(false);
        let entered = GATE.enter();
        let forks = thread::spawn(|| {
            GATE.close();
            assert!(LEFT.load(SeqCst), "a thread was within");
            // A signal handler of the forking thread may allocate.
            assert!(GATE.enter().is_some());
            let other = thread::spawn(|| {
                let entered = GATE.enter();
                assert!(!GATE.is_closed());
                drop(entered);
            });
            for _ in 0..1000 {
                thread::yield_now();
            }
            assert!(!other.is_finished());
            GATE.open();
            other.join().expect("the thread was not let in");
        });
        while !GATE.is_closed() {
            thread::yield_now();
        }
        LEFT.store(true, SeqCst);
        drop(entered);
        forks.join().expect("the thread did not continue");
    }
}
