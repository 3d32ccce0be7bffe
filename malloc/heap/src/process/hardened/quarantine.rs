//! Quarantine of blocks that were freed and are not reused yet.
//!
//! A freed block replaces the oldest block of the quarantine by one atomic step, and the oldest block leaves. CPUs are
//! mapped to 16 stripes, each with places of its own, so the number of held blocks is bounded for any number of CPUs:
//!
//! ```text
//! up to 1 KiB        1024 places       1 MiB at most
//! up to 32 KiB         64              2 MiB
//! runs of pages      1024 for all CPUs: they have no memory, but take at most an eighth of the addresses for runs
//! ```

use core::ptr::{NonNull, with_exposed_provenance_mut};
use core::sync::atomic::Ordering::{AcqRel, Relaxed};
use core::sync::atomic::{AtomicU64, AtomicUsize};

use freehold::base::CpuId;

use super::{Site, Slot};
use crate::os::lock::Mutex;
use crate::runs;

/// Number of stripes. CPUs with numbers equal modulo it share one.
const STRIPES: usize = 16;
/// Bytes of the largest block in a rotation with many places.
const SMALL: usize = 1 << 10;
const SMALL_PLACES: usize = 1024;
const LARGE_PLACES: usize = 64;
/// Most runs that are held.
const RUNS: usize = 1024;

/// Address of a block, with its number of words in the upper bits; 0 for an empty place.
type Place = AtomicU64;

/// Bits of an address that can be nonzero.
const ADDRESS_BITS: u32 = 48;
const WORD: usize = 8;

/// Places for blocks of a size class, which are used in turn.
struct Rotation<const PLACES: usize> {
    /// Number of blocks that were put in. A thread that is preempted between the load and the store may use a place
    /// twice, which is harmless.
    blocks: AtomicUsize,
    places: [Place; PLACES],
}

impl<const PLACES: usize> Rotation<PLACES> {
    const fn new() -> Rotation<PLACES> {
        Rotation { blocks: AtomicUsize::new(0), places: [const { AtomicU64::new(0) }; PLACES] }
    }

    /// Puts a block into the place of the oldest one, and returns the oldest one.
    #[inline]
    fn swap(&self, block: u64) -> u64 {
        let blocks = self.blocks.load(Relaxed);
        self.blocks.store(blocks.wrapping_add(1), Relaxed);
        self.places[blocks % PLACES].swap(block, AcqRel)
    }
}

/// Places of the CPUs of one stripe.
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

/// A run that is held. Its own memory cannot hold a seal any more.
#[derive(Debug)]
pub(super) struct HeldRun {
    /// Address of the first byte.
    pub start: usize,
    /// Requested bytes.
    pub requested: usize,
    pub allocated: Site,
    pub freed: Site,
    pub run: runs::ProtectedRun,
}

/// Held runs in the order of their frees.
#[derive(Debug)]
struct Ring {
    runs: [Option<HeldRun>; RUNS],
    /// Index for the next run, whose present occupant is the oldest one.
    next: usize,
    /// Bytes of addresses of all held runs.
    bytes: usize,
}

/// All held blocks.
pub(super) struct Quarantine {
    stripes: [Stripe; STRIPES],
    runs: Mutex<Ring>,
}

/// The quarantine of the process.
pub(super) static QUARANTINE: Quarantine = Quarantine::new();

impl Quarantine {
    const fn new() -> Quarantine {
        Quarantine {
            stripes: [const { Stripe::new() }; STRIPES],
            runs: Mutex::new(Ring { runs: [const { None }; RUNS], next: 0, bytes: 0 }),
        }
    }

    /// Holds an object, and returns the object that leaves in exchange; `None` if the place was empty.
    #[inline]
    pub(super) fn swap(&self, cpu: CpuId, slot: Slot) -> Option<Slot> {
        let stripe = &self.stripes[usize::from(cpu.0) % STRIPES];
        decode(if slot.bytes() <= SMALL { stripe.small.swap(encode(slot)) } else { stripe.large.swap(encode(slot)) })
    }

    /// Takes all objects, but no runs, out of the quarantine, and passes each to `visit`.
    pub(super) fn take_all(&self, visit: impl FnMut(Slot)) {
        self.places().filter_map(|place| decode(place.swap(0, AcqRel))).for_each(visit);
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        self.stripes.iter().flat_map(|stripe| stripe.small.places.iter().chain(&stripe.large.places))
    }

    /// Holds a run, and returns the run that leaves in exchange; `None` if the place was empty.
    pub(super) fn push_run(&self, run: HeldRun) -> Option<HeldRun> {
        let mut ring = self.runs.lock();
        let next = ring.next;
        ring.next = (next + 1) % RUNS;
        ring.bytes += run.run.bytes();
        let left = ring.runs[next].replace(run);
        ring.bytes -= left.as_ref().map_or(0, |left| left.run.bytes());
        left
    }

    /// Takes the oldest run, if all held runs together have more than `bytes` bytes.
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

    /// Passes the held run that starts at an address to `show`; returns `None` if there is none.
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
    fn quarantine_rotations_are_fifo_and_independent() {
        let (small, large) = (Rotation::<4>::new(), Rotation::<2>::new());
        let left: [u64; 6] = core::array::from_fn(|at| {
            large.swap(at as u64 + 100);
            small.swap(at as u64 + 1)
        });
        assert_eq!(left, [0, 0, 0, 0, 1, 2]);
        assert_eq!(large.swap(200), 104);
    }
}
