//! The lock of virtual time: taken in order of arrival.
//!
//! A CPU takes its turn before it requests a lock, so requests are made in order of virtual time. Most critical
//! sections end without a switch to another CPU. Then the lock is not held any more when another CPU runs, but it
//! records the time of its release. A CPU whose clock is before that time waits by advancing its clock; a trylock
//! fails. If the holder is suspended inside its critical section, for example at another lock, the lock stays held.
//! CPUs that request it meanwhile are parked in a queue, and each gets the lock at the time of the previous unlock.
//!
//! The cache lines of the lock, and of the data it protects, are at the CPU that held the lock last. The transfer
//! counts as holding the lock.

use std::cell::Cell;

use freehold::base::RawLock;
use freehold::base::lock::Rank;

use super::clock::{self, Clock, NOBODY, Purpose};

/// Number of the observer as a holder.
const OBSERVER: u16 = NOBODY - 1;

/// A lock among simulated CPUs. Not `Sync`: all of them run on one thread.
#[derive(Debug)]
pub struct VirtualLock {
    holder: Cell<u16>,
    /// CPU that held the lock last.
    last: Cell<u16>,
    /// First and last of the CPUs that are parked for the lock.
    first_waiter: Cell<u16>,
    last_waiter: Cell<u16>,
    /// Time at which the holder got the lock.
    since: Cell<u64>,
    /// Time at which the lock was released.
    free_at: Cell<u64>,
}

// SAFETY: `VirtualLock` is not `Sync`, so all callers run on one thread, and the writes of one holder are visible to
// the next. `holder` is set from a successful `lock` or `try_lock` to the next `unlock`. Meanwhile `try_lock` fails,
// and `lock` parks the caller's fiber until `unlock` makes that CPU the holder.
unsafe impl RawLock for VirtualLock {
    fn new() -> VirtualLock {
        VirtualLock {
            holder: Cell::new(NOBODY),
            last: Cell::new(NOBODY),
            first_waiter: Cell::new(NOBODY),
            last_waiter: Cell::new(NOBODY),
            since: Cell::new(0),
            free_at: Cell::new(0),
        }
    }

    fn lock(&self, rank: Rank) {
        clock::with_clock(|clock| {
            if clock.is_observed() {
                assert_eq!(self.holder.replace(OBSERVER), NOBODY, "the observer ran while a lock was held");
                return;
            }
            let held = clock.held();
            assert!(held >> rank as u8 == 0, "a lock of rank {rank:?} was awaited while ranks {held:#b} were held");
            freehold_fiber::note(self);
            clock.take_turn();
            let arrival = clock.now();
            if self.holder.get() != NOBODY {
                self.queue(clock);
                clock.count(clock.now() - arrival, purpose(rank));
            } else {
                self.holder.set(clock.cpu());
                clock.spend(self.free_at.get().saturating_sub(arrival), purpose(rank));
            }
            self.enter(clock, rank);
        });
    }

    fn try_lock(&self, rank: Rank) -> bool {
        clock::with_clock(|clock| {
            if clock.is_observed() {
                let is_free = self.holder.get() == NOBODY;
                self.holder.set(if is_free { OBSERVER } else { self.holder.get() });
                return is_free;
            }
            freehold_fiber::note(self);
            clock.take_turn();
            if self.holder.get() != NOBODY || clock.now() < self.free_at.get() {
                let price = self.last_of_another(clock).map_or(0, |far| clock.prices().look[far]);
                clock.spend(price, purpose(rank));
                return false;
            }
            self.holder.set(clock.cpu());
            self.enter(clock, rank);
            true
        })
    }

    unsafe fn unlock(&self, rank: Rank) {
        clock::with_clock(|clock| {
            self.holder.set(NOBODY);
            if clock.is_observed() {
                return;
            }
            clock.set_held(clock.held() & !(1 << rank as u8));
            if rank == Rank::Zone {
                clock.count_hold(clock.now() - self.since.get());
            }
            self.free_at.set(clock.now());
            let next = self.first_waiter.get();
            if next != NOBODY {
                self.first_waiter.set(clock.behind(next).replace(NOBODY));
                self.holder.set(next);
                clock.resume_at(next, clock.now());
            }
        });
    }
}

impl VirtualLock {
    /// Queues and parks the CPU. When it resumes, it holds the lock.
    #[cold]
    fn queue(&self, clock: &Clock) {
        let cpu = clock.cpu();
        if self.first_waiter.get() == NOBODY {
            self.first_waiter.set(cpu);
        } else {
            clock.behind(self.last_waiter.get()).set(cpu);
        }
        self.last_waiter.set(cpu);
        clock.park();
        debug_assert_eq!(self.holder.get(), cpu);
    }

    /// Records that the CPU holds the lock from now on, and charges the costs of taking it.
    #[inline]
    fn enter(&self, clock: &Clock, rank: Rank) {
        self.since.set(clock.now());
        let far = self.last_of_another(clock);
        self.last.set(clock.cpu());
        clock.set_held(clock.held() | 1 << rank as u8);
        if rank == Rank::Zone {
            clock.spend(clock.prices().zone_lock, purpose(rank));
        }
        if let Some(far) = far {
            clock.spend(clock.prices().transfer[far], purpose(rank));
        }
    }

    /// If another CPU held the lock last, returns 1 if that CPU is on another node, otherwise 0.
    #[inline]
    fn last_of_another(&self, clock: &Clock) -> Option<usize> {
        let last = self.last.get();
        (last != NOBODY && last != clock.cpu()).then(|| clock.distance_to(last))
    }
}

/// Returns the purpose of the time spent waiting for a lock.
fn purpose(rank: Rank) -> Purpose {
    if rank == Rank::Zone { Purpose::ZoneWait } else { Purpose::ListWait }
}
