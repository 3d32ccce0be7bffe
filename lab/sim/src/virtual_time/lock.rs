//! The lock of virtual time: taken in order of time, first come first served.
//!
//! A CPU takes its turn before it asks for a lock, so all who ask later do so at a later time. Most sections end
//! without a switch: then the lock is open for the code, and only remembers until when it was held. Who comes at an
//! earlier time than that waits, by moving its clock on; a trylock fails. A holder that awaits another lock itself is
//! parked, and the lock is held in earnest; who comes then is parked behind it and gets the lock at the moment of the
//! unlock.
//!
//! Whoever had the lock last has its cache line, and those of what it protects. Fetching them counts as holding.

use std::cell::Cell;

use freehold::base::RawLock;
use freehold::base::lock::Rank;

use super::clock::{self, Clock, NOBODY, Purpose};

/// The observer as a holder.
const OBSERVER: u16 = NOBODY - 1;

/// A lock among simulated CPUs. Not `Sync`: all of them are on one thread.
#[derive(Debug)]
pub struct VirtualLock {
    holder: Cell<u16>,
    /// Who had it last.
    last: Cell<u16>,
    /// The CPUs that are parked for it, from the first to the last.
    first_waiter: Cell<u16>,
    last_waiter: Cell<u16>,
    /// When the holder got it.
    since: Cell<u64>,
    /// When it was given back.
    free_at: Cell<u64>,
}

// SAFETY: not `Sync`, so all callers are on one thread, and `holder` keeps a second one out, whose fiber is parked
// until the lock is handed to it.
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
                assert_eq!(self.holder.replace(OBSERVER), NOBODY, "the observer came while a lock was held");
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
    /// Parks the CPU behind those that wait already. When it goes on, the lock is its own.
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

    /// The lock is the CPU's from now on.
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

    /// If another CPU had the lock last: 1 if it is on another node, else 0.
    #[inline]
    fn last_of_another(&self, clock: &Clock) -> Option<usize> {
        let last = self.last.get();
        (last != NOBODY && last != clock.cpu()).then(|| clock.distance_to(last))
    }
}

/// What waiting for a lock counts as.
fn purpose(rank: Rank) -> Purpose {
    if rank == Rank::Zone { Purpose::ZoneWait } else { Purpose::ListWait }
}
