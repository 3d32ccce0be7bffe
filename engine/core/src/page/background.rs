//! State of a node's background tasks, kswapd and kcompactd: asleep, awake or driven, with the errands that wait.
//!
//! A task is not a thread of the engine. It is a state that requests change and that the platform drives:
//!
//! ```text
//!            wake: an errand is posted               the platform calls run_*
//!   Asleep ───────────────────────────────> Awake ──────────────────────────────> Driven
//!      ^                                      ^    there is more to do: Working      │ │
//!      │                                      └─────────────────────────────────────┘ │
//!      └──────────────────────────────────────────────────────────────────────────────┘
//!                                             nothing is left to do: Asleep
//! ```
//!
//! An errand is the order and the highest zone of the request that wakes a task. Only one CPU drives a task at a time.
//! Another CPU that tries gets the answer that the task is asleep. Proactive compaction drives kcompactd directly from
//! Asleep, without an errand. An errand that arrives while another is pending is merged with it: the larger order is
//! kept, and each task has its own rule for the zones. The state is one or two words, which are read and written
//! without a lock.
//!
//! # Design
//!
//! Background tasks are states and not threads. The engine determines when to wake them, and the platform calls
//! `run_kswapd`, on a thread, a timer or a coroutine of its own, until it returns `Asleep`. One pass is one call. The
//! same code therefore serves a kernel thread, and a simulation in which a request comes between two passes.

use core::sync::atomic::{
    AtomicU8, AtomicU16,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::base::{Order, ZoneKind};

/// Result of one call that drives a background task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// There is more to do; the platform should call again.
    Working,
    /// Nothing is left to do until the task is woken, or another CPU drives the task.
    Asleep,
}

const ASLEEP: u8 = 0;
const AWAKE: u8 = 1;
const DRIVEN: u8 = 2;

/// Phase of a background task: asleep, awake or driven.
#[derive(Debug, Default)]
pub(super) struct Phase(AtomicU8);

impl Phase {
    pub(super) fn is_asleep(&self) -> bool {
        self.expect_known();
        self.0.load(Relaxed) == ASLEEP
    }

    /// Wakes a sleeping task. Returns whether the task was asleep.
    pub(super) fn wake(&self) -> bool {
        self.change(ASLEEP, AWAKE)
    }

    /// Takes the task if it is awake and no other CPU drives it; otherwise returns `None`. The acquire ordering makes
    /// the last driver's writes visible.
    pub(super) fn drive(&self) -> Option<Driver<'_>> {
        self.change(AWAKE, DRIVEN).then(|| Driver { phase: self, then: Background::Working })
    }

    /// Takes the task if it is asleep, for work that no errand requested; otherwise returns `None`.
    pub(super) fn drive_asleep(&self) -> Option<Driver<'_>> {
        self.change(ASLEEP, DRIVEN).then(|| Driver { phase: self, then: Background::Working })
    }

    /// Checks, in debug builds, that the phase has a valid value.
    #[inline]
    fn expect_known(&self) {
        debug_assert!(self.0.load(Relaxed) <= DRIVEN, "background task: {} is not a phase", self.0.load(Relaxed));
    }

    /// Stores a phase number without any check.
    #[cfg(feature = "damage")]
    pub(super) fn plant(&self, phase: u8) {
        self.0.store(phase, Relaxed);
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.expect_known();
        self.0.load(Relaxed) == from && self.0.compare_exchange(from, to, Acquire, Relaxed).is_ok()
    }
}

/// A task that the caller drives. If the driver is dropped early because the platform panicked, the task is awake
/// again, and another CPU may drive it.
#[derive(Debug)]
pub(super) struct Driver<'p> {
    phase: &'p Phase,
    then: Background,
}

impl Driver<'_> {
    /// Ends the drive and leaves the task asleep or awake, as `then` specifies.
    pub(super) fn leave(mut self, then: Background) -> Background {
        debug_assert!(
            self.phase.0.load(Relaxed) == DRIVEN,
            "background task: the driver ended, but the phase is {}",
            self.phase.0.load(Relaxed)
        );
        self.then = then;
        then
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        let phase = if self.then == Background::Working { AWAKE } else { ASLEEP };
        self.phase.0.store(phase, Release);
    }
}

/// Work that a background task is woken for: a block of this order, in zones up to this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Errand {
    pub(super) order: Order,
    pub(super) highest: ZoneKind,
}

impl Errand {
    /// Packs order and zone into a word, which is never 0.
    fn packed(self) -> u16 {
        u16::from_be_bytes([self.order.get(), self.highest as u8 + 1])
    }

    fn unpacked(word: u16) -> Option<Errand> {
        let [order, above] = word.to_be_bytes();
        debug_assert!(
            usize::from(above) <= ZoneKind::COUNT && Order::from_u8(order).is_some() && (above > 0 || order == 0),
            "errand: {word:#06x} is invalid: order {order}, zone {above}"
        );
        let highest = ZoneKind::ALL[usize::from(above).checked_sub(1)?];
        Some(Errand { order: Order::new(order), highest })
    }
}

/// The errands of a task that are pending, merged into one.
#[derive(Debug, Default)]
pub(super) struct Errands(AtomicU16);

impl Errands {
    /// Returns the merged errand that is pending, if any.
    pub(super) fn look(&self) -> Option<Errand> {
        Errand::unpacked(self.0.load(Relaxed))
    }

    /// Stores a packed word as the pending errand.
    #[cfg(feature = "damage")]
    pub(super) fn plant(&self, word: u16) {
        self.0.store(word, Relaxed);
    }

    /// Takes the merged errand, so that none is pending.
    pub(super) fn take(&self) -> Option<Errand> {
        Errand::unpacked(self.0.swap(0, Relaxed))
    }

    /// Replaces the pending errand by the result of `change`, which is called again if another CPU changes the errand
    /// meanwhile.
    pub(super) fn change(&self, change: impl Fn(Option<Errand>) -> Option<Errand>) {
        let mut before = self.0.load(Relaxed);
        loop {
            let after = change(Errand::unpacked(before)).map_or(0, Errand::packed);
            if after == before {
                return;
            }
            match self.0.compare_exchange_weak(before, after, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(now) => before = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_caller_drives_an_awake_task() {
        let phase = Phase::default();
        assert!(phase.drive().is_none(), "it sleeps");
        assert!(phase.wake() && !phase.wake());
        let driver = phase.drive().expect("it is awake");
        assert!(phase.drive().is_none() && phase.drive_asleep().is_none());
        assert!(!phase.wake(), "it is awake already");
        assert_eq!(driver.leave(Background::Working), Background::Working);
        drop(phase.drive().expect("there is more to do"));
        phase.drive().expect("a driver that panicked leaves it awake").leave(Background::Asleep);
        assert!(phase.is_asleep() && phase.drive_asleep().is_some());
    }

    #[test]
    fn errands_round_trip() {
        let errands = Errands::default();
        assert_eq!(errands.take(), None);
        for order in Order::all() {
            for highest in ZoneKind::ALL {
                let errand = Some(Errand { order, highest });
                errands.change(|_| errand);
                assert_eq!((errands.look(), errands.take(), errands.look()), (errand, errand, None));
            }
        }
    }
}
