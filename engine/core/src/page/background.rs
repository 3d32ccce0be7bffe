//! A background task of a node, kswapd or kcompactd, as far as the engine knows it: asleep, awake or driven, and sent
//! on errands.
//!
//! It is no thread of the engine's, but a state that requests may raise and that the platform drives:
//!
//! ```text
//!            wake: somebody has an errand            the platform calls run_*
//!   Asleep ───────────────────────────────> Awake ──────────────────────────────> Driven
//!      ^                                      ^    there is more to do: Working      │ │
//!      │                                      └─────────────────────────────────────┘ │
//!      └──────────────────────────────────────────────────────────────────────────────┘
//!                                             nothing is left to do: Asleep
//! ```
//!
//! Only one CPU drives a task at a time; another that tries is told that it is asleep. Errands that come while a task
//! is awake are joined to those it has: the larger order, and zones as the task joins them. All of it is one or two
//! words that are read and written without a lock.

use core::sync::atomic::{
    AtomicU8, AtomicU16,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::base::{Order, ZoneKind};

/// Whether a background task goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// There is more to do: call again.
    Working,
    /// Nothing is left to do until it is woken.
    Asleep,
}

const ASLEEP: u8 = 0;
const AWAKE: u8 = 1;
const DRIVEN: u8 = 2;

/// What a background task does at the moment.
#[derive(Debug, Default)]
pub(super) struct Phase(AtomicU8);

impl Phase {
    pub(super) fn is_asleep(&self) -> bool {
        self.expect_known();
        self.0.load(Relaxed) == ASLEEP
    }

    /// Wakes a sleeping task; says whether it slept.
    pub(super) fn wake(&self) -> bool {
        self.change(ASLEEP, AWAKE)
    }

    /// Takes the task, if it is awake and nobody drives it. What its last driver wrote is seen.
    pub(super) fn drive(&self) -> Option<Driver<'_>> {
        self.change(AWAKE, DRIVEN).then(|| Driver { phase: self, then: Background::Working })
    }

    /// Takes the task out of its sleep, to do something unasked.
    pub(super) fn drive_asleep(&self) -> Option<Driver<'_>> {
        self.change(ASLEEP, DRIVEN).then(|| Driver { phase: self, then: Background::Working })
    }

    /// Whether it is in one of its phases.
    #[inline]
    fn expect_known(&self) {
        debug_assert!(
            self.0.load(Relaxed) <= DRIVEN,
            "background task: its phase is {}, which is none",
            self.0.load(Relaxed)
        );
    }

    /// Writes the phase's number, without any check.
    #[cfg(feature = "damage")]
    pub(super) fn plant(&self, phase: u8) {
        self.0.store(phase, Relaxed);
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.expect_known();
        self.0.load(Relaxed) == from && self.0.compare_exchange(from, to, Acquire, Relaxed).is_ok()
    }
}

/// A task that the caller drives. Dropped early, by a panic of the platform's, the task is awake: somebody else may
/// drive it.
#[derive(Debug)]
pub(super) struct Driver<'p> {
    phase: &'p Phase,
    then: Background,
}

impl Driver<'_> {
    /// Leaves the task asleep or awake, as `then` says.
    pub(super) fn leave(mut self, then: Background) -> Background {
        debug_assert!(
            self.phase.0.load(Relaxed) == DRIVEN,
            "background task: left by its driver, and its phase is {}",
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

/// What a background task is sent for: a block of this order, in zones up to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Errand {
    pub(super) order: Order,
    pub(super) highest: ZoneKind,
}

impl Errand {
    /// Order and zone packed into a word, which is never 0.
    fn packed(self) -> u16 {
        u16::from_be_bytes([self.order.get(), self.highest as u8 + 1])
    }

    fn unpacked(word: u16) -> Option<Errand> {
        let [order, above] = word.to_be_bytes();
        debug_assert!(
            usize::from(above) <= ZoneKind::COUNT && Order::from_u8(order).is_some() && (above > 0 || order == 0),
            "errand: {word:#06x} names order {order} and zone {above}"
        );
        let highest = ZoneKind::ALL[usize::from(above).checked_sub(1)?];
        Some(Errand { order: Order::new(order), highest })
    }
}

/// All errands that wait for a task, joined to one.
#[derive(Debug, Default)]
pub(super) struct Errands(AtomicU16);

impl Errands {
    /// The joined errand that waits, if any does.
    pub(super) fn look(&self) -> Option<Errand> {
        Errand::unpacked(self.0.load(Relaxed))
    }

    /// Writes the errand that waits, as a packed word.
    #[cfg(feature = "damage")]
    pub(super) fn plant(&self, word: u16) {
        self.0.store(word, Relaxed);
    }

    /// Takes the joined errand, so that none waits.
    pub(super) fn take(&self) -> Option<Errand> {
        Errand::unpacked(self.0.swap(0, Relaxed))
    }

    /// Replaces the errand that waits by what `change` makes of it.
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
    fn one_drives_and_the_others_are_told_that_it_sleeps() {
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
    fn errands_are_what_they_were_packed_of() {
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
