//! The mark of a caller that reclaims, which keeps callbacks from nesting.
//!
//! A request that finds too little calls [`Promises::reclaim`](super::Promises::reclaim),
//! [`migrate`](super::Promises::migrate) or [`out_of_memory`](super::Promises::out_of_memory). These may request memory
//! themselves. Such a request uses the emergency reserve and does not call them again, so the stack is not nested
//! deeper than one callback a CPU.
//!
//! linux: include/linux/sched/mm.h:memalloc_noreclaim_save

use core::marker::PhantomData;

use super::Cpu;
use super::calls::{Part, this_cpu};

/// Marks the caller as one that reclaims, until it is dropped: a task where the kernel keeps the mark in its tasks, else
/// a CPU.
pub(super) struct ReclaimScope<H: Cpu> {
    /// The CPU on which the callback began. The mark is cleared there, even if the caller runs elsewhere by then.
    part: Option<&'static Part>,
    hardware: PhantomData<fn() -> H>,
}

impl<H: Cpu> ReclaimScope<H> {
    /// Begins a callback; `None` if the caller is inside one already.
    pub(super) fn enter() -> Option<ReclaimScope<H>> {
        let part = match H::is_reclaiming() {
            Some(true) => return None,
            Some(false) => {
                H::set_reclaiming(true);
                None
            }
            None => {
                let part = H::kernel().expect_part(this_cpu::<H>());
                if !part.begin_reclaim() {
                    return None;
                }
                Some(part)
            }
        };
        Some(ReclaimScope { part, hardware: PhantomData })
    }

    /// Whether the caller is inside a callback.
    pub(super) fn is_entered() -> bool {
        H::is_reclaiming().unwrap_or_else(|| H::kernel().part(this_cpu::<H>()).is_some_and(Part::is_reclaiming))
    }
}

impl<H: Cpu> Drop for ReclaimScope<H> {
    fn drop(&mut self) {
        match self.part {
            Some(part) => part.end_reclaim(),
            None => H::set_reclaiming(false),
        }
    }
}
