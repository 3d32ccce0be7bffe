//! Who is within a slow path: so that a signal handler knows what it interrupts, and a fork what its child would find.
//!
//! Fast paths are single steps, and need none of this. A slow path takes locks. A thread that is within one says so in
//! a word of its own ([`Gate::enter`]); a handler that interrupts it finds the word, and uses what takes no lock
//! ([`nested`](super::nested)). And it is counted, so that a thread that forks can wait until nobody is within one
//! ([`Gate::close`]): what the child then has of locks is open, and what it has of lists is whole.
//!
//! A child loses what its parent's other threads held at that moment: at most one object each, that a fast path
//! had taken and not yet returned.

use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU32, compiler_fence};

use rustix::thread::sched_yield;

use crate::os::thread::{self, Thread};

/// Counters, so that threads on several CPUs do not all write to one.
const STRIPES: usize = 16;

#[repr(align(64))]
#[derive(Debug)]
struct Stripe(AtomicU32);

/// The gate before slow paths.
#[derive(Debug)]
pub(super) struct Gate {
    within: [Stripe; STRIPES],
    /// Whether a thread that forks has closed it.
    closed: AtomicU32,
}

impl Gate {
    pub(super) const fn new() -> Gate {
        Gate { within: [const { Stripe(AtomicU32::new(0)) }; STRIPES], closed: AtomicU32::new(0) }
    }

    /// Enters a slow path, unless this thread is within one already: then a signal handler has interrupted it, or
    /// what it called itself.
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

    /// Waits until no other thread is within a slow path, and lets none in: before a fork.
    pub(super) fn close(&self) {
        let thread = thread::current();
        while self.closed.compare_exchange(0, 1, SeqCst, Relaxed).is_err() {
            sched_yield();
        }
        thread.holds_gate.store(1, Relaxed);
        // A handler that forks may have interrupted a slow path of its own thread, which goes on in both processes.
        let own = thread.depth.load(Relaxed);
        while self.within.iter().map(|stripe| stripe.0.load(SeqCst)).sum::<u32>() != own {
            sched_yield();
        }
    }

    /// Lets them in again, in the process that forked.
    pub(super) fn open(&self) {
        thread::current().holds_gate.store(0, Relaxed);
        self.closed.store(0, Release);
    }

    /// The same in the child, which has one thread.
    pub(super) fn open_in_child(&self) {
        let thread = thread::current();
        self.within.iter().for_each(|stripe| stripe.0.store(0, Relaxed));
        self.within[stripe_of(thread)].0.store(thread.depth.load(Relaxed), Relaxed);
        self.open();
    }

    /// Whether a fork is under way.
    #[cfg(test)]
    fn is_closed(&self) -> bool {
        self.closed.load(SeqCst) != 0
    }
}

fn stripe_of(thread: &Thread) -> usize {
    // Threads' words lie some pages apart.
    (core::ptr::from_ref(thread).addr() >> 12) % STRIPES
}

/// A thread is within a slow path as long as it has this.
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
    fn what_interrupts_a_slow_path_is_not_let_in() {
        let gate = Gate::new();
        let entered = gate.enter().expect("nobody is within");
        assert!(gate.enter().is_none());
        drop(entered);
        assert!(gate.enter().is_some());
    }

    #[test]
    fn a_fork_waits_for_those_within_and_lets_nobody_in() {
        static GATE: Gate = Gate::new();
        static LEFT: AtomicBool = AtomicBool::new(false);
        let entered = GATE.enter();
        let forks = thread::spawn(|| {
            GATE.close();
            assert!(LEFT.load(SeqCst), "a thread was within");
            // Its own handlers may allocate.
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
            other.join().expect("it is let in");
        });
        while !GATE.is_closed() {
            thread::yield_now();
        }
        LEFT.store(true, SeqCst);
        drop(entered);
        forks.join().expect("it goes on");
    }
}
