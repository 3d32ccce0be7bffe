//! A CPU-local primitive that interferes with one of its calls: the caller is moved to another CPU, or another caller
//! was first. Other kinds of interference are faults that the tests must detect.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use freehold::base::CpuId;
use freehold::machine::objects::HostCpu;
use freehold::platform::host::{CheckedSpinLock, current_cpu, run_on_cpu};
use freehold::slab::CpuLocal;
use freehold::slab::address::ObjectAddress;
use freehold::slab::bits::Bits;
use freehold::slab::cpu::locked::CpuLocks;
use freehold::slab::cpu::{Exchange, ExchangeOutcome, FenceOutcome, FreedObject, PushOutcome, Slots};
use freehold::slab::freelist::FixedLinks;

/// Interference that happens once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meddling {
    Nothing,
    /// A replacement finds that the caller was moved.
    Moved,
    /// A replacement finds another word.
    Changed,
    /// The caller runs on another CPU from this call on.
    Elsewhere,
    /// An object is also returned to the next caller.
    PopsTwice,
    /// A freed object is accepted but not stored.
    LosesPush,
    /// A replacement is reported but not made.
    LosesReplacement,
}

/// Address of an object, or its slab and its place in the slab.
type SlotValue = (u64, u32);

/// A primitive with interference.
#[derive(Debug)]
pub(super) struct Meddler<'l> {
    inner: CpuLocks<'l, CheckedSpinLock, HostCpu>,
    what: Meddling,
    at: u64,
    calls: AtomicU64,
    /// Value that the next caller also gets, and the address of the slots from which it came.
    again: Mutex<Option<(usize, SlotValue)>>,
    replacements: AtomicU64,
    /// Regions without preemption that callers have entered and not left.
    pinned: AtomicU64,
}

impl<'l> Meddler<'l> {
    /// Creates a primitive that interferes with call number `at` of those that this kind of interference affects.
    pub(super) fn new(inner: CpuLocks<'l, CheckedSpinLock, HostCpu>, what: Meddling, at: u64) -> Meddler<'l> {
        Meddler {
            inner,
            what,
            at,
            calls: AtomicU64::new(0),
            again: Mutex::new(None),
            replacements: AtomicU64::new(0),
            pinned: AtomicU64::new(0),
        }
    }

    /// Returns the number of regions without preemption that were entered and not left.
    pub(super) fn pinned(&self) -> u64 {
        self.pinned.load(Relaxed)
    }

    /// Returns whether the interference has happened.
    pub(super) fn has_meddled(&self) -> bool {
        self.calls.load(Relaxed) > self.at
    }

    /// Returns the number of replacements so far.
    pub(super) fn replacements(&self) -> u64 {
        self.replacements.load(Relaxed)
    }

    fn is_due(&self, what: Meddling) -> bool {
        self.what == what && self.calls.fetch_add(1, Relaxed) == self.at
    }

    /// Moves the caller between CPUs 0 and 1, which are always online.
    fn perhaps_move(&self) {
        if self.is_due(Meddling::Elsewhere) {
            run_on_cpu(CpuId(u16::from(current_cpu() == CpuId(0))));
        }
    }

    /// Takes an object, possibly the one that was taken just before.
    fn pop_with(&self, slots: Slots<'_>, pop: impl FnOnce() -> Option<SlotValue>) -> Option<SlotValue> {
        self.perhaps_move();
        let cache = slots.first().addr();
        if let Some((_, taken)) =
            self.again.lock().expect("no thread panicked while it held the lock").take_if(|again| again.0 == cache)
        {
            return Some(taken);
        }
        let taken = pop()?;
        if self.is_due(Meddling::PopsTwice) {
            *self.again.lock().expect("no thread panicked while it held the lock") = Some((cache, taken));
        }
        Some(taken)
    }

    fn push_with(&self, push: impl FnOnce() -> PushOutcome) -> PushOutcome {
        self.perhaps_move();
        if self.is_due(Meddling::LosesPush) { PushOutcome::Done } else { push() }
    }
}

// SAFETY: every operation is that of `CpuLocks`. A caller may be moved between any two calls, and a replacement may be
// refused at any time, both of which the contract permits. The faults break the contract on purpose, for tests that
// expect the damage.
unsafe impl CpuLocal for Meddler<'_> {
    fn cpus(&self) -> u16 {
        CpuLocal::cpus(&self.inner)
    }

    fn cpu(&self) -> CpuId {
        self.perhaps_move();
        self.inner.cpu()
    }

    fn pop<L: FixedLinks>(&self, slots: Slots<'_>, links: L) -> Option<ObjectAddress> {
        let taken = self.pop_with(slots, || Some((self.inner.pop(slots, links)?.get(), 0)));
        taken.map(|(object, _)| ObjectAddress::new(object))
    }

    fn push<L: FixedLinks>(&self, slots: Slots<'_>, freed: FreedObject<'_>, links: L) -> PushOutcome {
        self.push_with(|| self.inner.push(slots, freed, links))
    }

    fn push_paired<L: FixedLinks>(&self, slots: Slots<'_>, freed: FreedObject<'_>, links: L) -> PushOutcome {
        self.push_with(|| self.inner.push_paired(slots, freed, links))
    }

    fn pop_sheaf(&self, slots: Slots<'_>) -> Option<ObjectAddress> {
        self.perhaps_move();
        self.inner.pop_sheaf(slots)
    }

    unsafe fn push_sheaf(&self, slots: Slots<'_>, object: ObjectAddress) -> PushOutcome {
        // SAFETY: the caller promises that it owns the object and that the object is of these slots' cache.
        self.push_with(|| unsafe { self.inner.push_sheaf(slots, object) })
    }

    fn pop_bits(&self, slots: Slots<'_>) -> Option<(u64, u32)> {
        self.pop_with(slots, || self.inner.pop_bits(slots))
    }

    fn push_bits(&self, slots: Slots<'_>, freed: FreedObject<'_>, bit: Bits, all: Bits) -> PushOutcome {
        self.push_with(|| self.inner.push_bits(slots, freed, bit, all))
    }

    fn replace_if(&self, cpu: CpuId, exchange: Exchange<'_>) -> ExchangeOutcome {
        self.perhaps_move();
        if self.is_due(Meddling::Moved) {
            return ExchangeOutcome::Moved;
        }
        if self.is_due(Meddling::Changed) {
            return ExchangeOutcome::Changed;
        }
        if self.is_due(Meddling::LosesReplacement) {
            return ExchangeOutcome::Done;
        }
        self.replacements.fetch_add(1, Relaxed);
        self.inner.replace_if(cpu, exchange)
    }

    fn fence(&self, cpu: CpuId) -> FenceOutcome {
        self.perhaps_move();
        CpuLocal::fence(&self.inner, cpu)
    }

    fn preempt_disable(&self) {
        self.pinned.fetch_add(1, Relaxed);
    }

    fn preempt_enable(&self) {
        self.pinned.fetch_sub(1, Relaxed);
    }
}
