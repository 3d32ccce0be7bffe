//! Mark of a caller that reclaims, which keeps callbacks from nesting.
//!
//! A request that finds too little memory calls [`Promises::reclaim`](super::Promises::reclaim),
//! [`migrate`](super::Promises::migrate) or [`out_of_memory`](super::Promises::out_of_memory), which may request memory
//! themselves. Such a nested request uses the emergency reserve and calls none of the three. So at most one of these
//! callbacks is on a task's stack, or on a CPU's stack if the mark is kept per CPU.
//!
//! linux: include/linux/sched/mm.h:memalloc_noreclaim_save

use core::marker::PhantomData;

use super::Cpu;
use super::calls::{Part, this_cpu};

/// Marks the caller as reclaiming until dropped. The mark belongs to the task if the kernel keeps it in its tasks,
/// otherwise to the CPU.
pub(super) struct ReclaimScope<H: Cpu> {
    /// Part of the CPU on which the callback began. The mark is cleared there, even if the caller has moved to another
    /// CPU.
    part: Option<&'static Part>,
    hardware: PhantomData<fn() -> H>,
}

impl<H: Cpu> ReclaimScope<H> {
    /// Enters a callback; returns `None` if the caller is already inside one.
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

    /// Returns whether the caller is inside a callback.
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
