//! Blocks that were given back, and are not used again yet.
//!
//! One that is given back takes the place of the one that came first, which leaves: one atomic step. Each CPU, or each
//! 16th of them, has places of its own, so what is held is bounded, whatever their number:
//!
//! ```text
//! up to 1 KiB        1024 places       1 MiB at most
//! up to 32 KiB         64              2 MiB
//! runs of pages      1024 of all CPUs: they have no memory, but an eighth of the addresses that there are for runs at most
//! ```

use core::ptr::{NonNull, with_exposed_provenance_mut};
use core::sync::atomic::Ordering::{AcqRel, Relaxed};
use core::sync::atomic::{AtomicU64, AtomicUsize};

use freehold::base::CpuId;

use super::{Site, Slot};
use crate::os::lock::Mutex;
use crate::runs;

/// CPUs that have places of their own.
const STRIPES: usize = 16;
/// Bytes of the largest block that has many places.
const SMALL: usize = 1 << 10;
const SMALL_PLACES: usize = 1024;
const LARGE_PLACES: usize = 64;
/// Runs that are held.
const RUNS: usize = 1024;

/// Where a block begins, and in the bits above how many words it has: 0 for none.
type Place = AtomicU64;

/// Bits of an address that differ.
const ADDRESS_BITS: u32 = 48;
const WORD: usize = 8;

/// Places for blocks of some sizes, which take turns.
struct Rotation<const PLACES: usize> {
    /// Blocks that came. Who is moved between reading and writing it takes a place twice, which does no harm.
    came: AtomicUsize,
    places: [Place; PLACES],
}

impl<const PLACES: usize> Rotation<PLACES> {
    const fn new() -> Rotation<PLACES> {
        Rotation { came: AtomicUsize::new(0), places: [const { AtomicU64::new(0) }; PLACES] }
    }

    /// Puts a block in the place of the one that came first.
    #[inline]
    fn swap(&self, block: u64) -> u64 {
        let came = self.came.load(Relaxed);
        self.came.store(came.wrapping_add(1), Relaxed);
        self.places[came % PLACES].swap(block, AcqRel)
    }
}

/// A CPU's.
#[repr(align(64))]
struct Stripe {
    small: Rotation<SMALL_PLACES>,
    large: Rotation<LARGE_PLACES>,
}

impl Stripe {
    const fn new() -> Stripe {
        Stripe { small: Rotation::new(), large: Rotation::new() }
    }
}

/// A run of pages that is held: its own memory cannot say any more what it was.
#[derive(Debug)]
pub(super) struct HeldRun {
    /// Where it begins.
    pub start: usize,
    /// Bytes that were asked for.
    pub asked: usize,
    pub allocated: Site,
    pub freed: Site,
    pub run: runs::ProtectedRun,
}

/// Runs in the order in which they came.
#[derive(Debug)]
struct Ring {
    runs: [Option<HeldRun>; RUNS],
    /// Where the next one goes, and the one leaves that came first.
    next: usize,
    /// Bytes of addresses of all.
    bytes: usize,
}

/// All that is held.
pub(super) struct Quarantine {
    stripes: [Stripe; STRIPES],
    runs: Mutex<Ring>,
}

/// The process's.
pub(super) static QUARANTINE: Quarantine = Quarantine::new();

impl Quarantine {
    const fn new() -> Quarantine {
        Quarantine {
            stripes: [const { Stripe::new() }; STRIPES],
            runs: Mutex::new(Ring { runs: [const { None }; RUNS], next: 0, bytes: 0 }),
        }
    }

    /// Holds a block; returns the one that leaves for it.
    #[inline]
    pub(super) fn swap(&self, cpu: CpuId, slot: Slot) -> Option<Slot> {
        let stripe = &self.stripes[usize::from(cpu.0) % STRIPES];
        decode(if slot.bytes() <= SMALL { stripe.small.swap(encode(slot)) } else { stripe.large.swap(encode(slot)) })
    }

    /// Takes each block that is held.
    pub(super) fn take_all(&self, visit: impl FnMut(Slot)) {
        self.places().filter_map(|place| decode(place.swap(0, AcqRel))).for_each(visit);
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        self.stripes.iter().flat_map(|stripe| stripe.small.places.iter().chain(&stripe.large.places))
    }

    /// Holds a run; returns the one that leaves for it.
    pub(super) fn push_run(&self, run: HeldRun) -> Option<HeldRun> {
        let mut ring = self.runs.lock();
        let next = ring.next;
        ring.next = (next + 1) % RUNS;
        ring.bytes += run.run.bytes();
        let left = ring.runs[next].replace(run);
        ring.bytes -= left.as_ref().map_or(0, |left| left.run.bytes());
        left
    }

    /// Takes the run that came first, if all of them have more than so many bytes.
    pub(super) fn pop_run(&self, bytes: usize) -> Option<HeldRun> {
        let mut ring = self.runs.lock();
        if ring.bytes <= bytes {
            return None;
        }
        let next = ring.next;
        let first = (0..RUNS).map(|step| (next + step) % RUNS).find(|&at| ring.runs[at].is_some())?;
        let left = ring.runs[first].take();
        ring.bytes -= left.as_ref().map_or(0, |left| left.run.bytes());
        left
    }

    /// What is known of the held run that begins there.
    pub(super) fn find_run<R>(&self, start: usize, show: impl FnOnce(&HeldRun) -> R) -> Option<R> {
        self.runs.lock().runs.iter().flatten().find(|run| run.start == start).map(show)
    }
}

fn encode(slot: Slot) -> u64 {
    slot.start().as_ptr().expose_provenance() as u64 | ((slot.bytes() / WORD) as u64) << ADDRESS_BITS
}

fn decode(place: u64) -> Option<Slot> {
    let address = place & ((1 << ADDRESS_BITS) - 1);
    let start = NonNull::new(with_exposed_provenance_mut(address as usize))?;
    Some(Slot::new(start, (place >> ADDRESS_BITS) as usize * WORD))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_leave_in_turn_whatever_others_come() {
        let (small, large) = (Rotation::<4>::new(), Rotation::<2>::new());
        let left: [u64; 6] = core::array::from_fn(|at| {
            large.swap(at as u64 + 100);
            small.swap(at as u64 + 1)
        });
        assert_eq!(left, [0, 0, 0, 0, 1, 2]);
        assert_eq!(large.swap(200), 104);
    }
}
