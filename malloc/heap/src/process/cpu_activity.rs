//! Which CPUs have cached objects, and since when nobody asked on them for more.
//!
//! What a CPU has is its own, so a program has as much idle memory as CPUs that it has ever run on. In a container on a
//! machine of hundreds that are all of them, one after the other, though few at a time. So only so many CPUs have
//! objects, and those on which somebody asks at this moment: one more takes those of another on which nobody does. And
//! a CPU on which nobody has asked for a while gives its own back.
//!
//! A slow path says where it runs and when, in a byte of that CPU: nothing is written as long as the byte says this
//! moment.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU8, AtomicU32};

use freehold::base::CpuId;

use super::returns::TICK;
use super::start::Malloc;
use super::{AnyHeap, CPU_ACTIVITY, with_heap};

/// CPUs that are told apart; of others, every so many have one byte.
const CPUS: usize = 1024;
/// Moments of a byte: one more, and none, make what it can say.
const MOMENTS: u32 = 254;

/// Ages of free memory after which a CPU on which nobody asked gives up what it has.
const IDLE_AGES: u32 = 4;

/// Which CPUs have objects.
#[repr(C)]
pub(super) struct CpuActivity {
    /// How many have some.
    count: AtomicU32,
    /// Where the next search begins.
    next: AtomicU32,
    /// Of each, the moment of the last request from 1 on; 0 if it has none.
    last: [AtomicU8; CPUS],
}

impl CpuActivity {
    pub(super) const fn new() -> CpuActivity {
        CpuActivity { last: [const { AtomicU8::new(0) }; CPUS], count: AtomicU32::new(0), next: AtomicU32::new(0) }
    }

    /// Notes that a CPU asks at a moment; returns another one that is to give up what it has, if more have some than
    /// may and it has not asked at this moment.
    #[inline]
    pub(super) fn note(&self, cpu: CpuId, moment: u32, most: u32) -> Option<CpuId> {
        let last = &self.last[usize::from(cpu.0) % CPUS];
        let now = byte(moment);
        if last.load(Relaxed) == now { None } else { self.note_moment(last, now, most) }
    }

    #[cold]
    fn note_moment(&self, last: &AtomicU8, now: u8, most: u32) -> Option<CpuId> {
        let is_new = last.swap(now, Relaxed) == 0;
        let count = if is_new { self.count.fetch_add(1, Relaxed) + 1 } else { self.count.load(Relaxed) };
        if count > most { self.take(|last| last != now) } else { None }
    }

    /// A CPU on which nobody has asked for so many moments, if there is one: it has nothing from now on.
    pub(super) fn take_idle(&self, moment: u32, moments: u32) -> Option<CpuId> {
        self.take(|last| (u32::from(byte(moment)) + MOMENTS - u32::from(last)) % MOMENTS > moments)
    }

    /// The next CPU of such a moment.
    fn take(&self, is_meant: impl Fn(u8) -> bool) -> Option<CpuId> {
        let from = self.next.load(Relaxed) as usize;
        let mut places = (0..CPUS).map(|step| (from + step) % CPUS);
        let found = places.find(|&at| {
            let last = self.last[at].load(Relaxed);
            last != 0 && is_meant(last) && self.last[at].compare_exchange(last, 0, Relaxed, Relaxed).is_ok()
        })?;
        self.next.store((found + 1) as u32, Relaxed);
        self.count.fetch_sub(1, Relaxed);
        Some(CpuId(found as u16))
    }
}

impl Malloc {
    /// Notes where a slow path runs. Another CPU gives up what it has, if there are too many that have something.
    #[inline]
    pub(super) fn note_cpu(&self, now: u32) {
        if let Some(other) = CPU_ACTIVITY.note(self.cpu(), now, self.options.cpus) {
            self.drain(other);
        }
    }

    /// Takes what a CPU has on which nobody has asked for long, if there is one. Within a slow path.
    pub(super) fn drain_idle(&self, now: u32) {
        let moments = (IDLE_AGES * self.options.age.div_ceil(TICK)).min(MOMENTS / 2);
        if let Some(idle) = CPU_ACTIVITY.take_idle(now, moments) {
            self.drain(idle);
        }
    }

    #[cold]
    fn drain(&self, cpu: CpuId) {
        if self.can_fence() {
            with_heap!(&self.heap, heap => heap.slab().drain_cpu(cpu));
        }
    }
}

/// What a byte says of a moment.
fn byte(moment: u32) -> u8 {
    (moment % MOMENTS) as u8 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_than_may_takes_the_place_of_another() {
        static CPU_ACTIVITY: CpuActivity = CpuActivity::new();
        assert_eq!([3, 5, 3].map(|cpu| CPU_ACTIVITY.note(CpuId(cpu), 7, 2)), [None; 3]);
        // All of them ask at this moment; at the next one a place is made for one that went beyond.
        assert_eq!([9, 3].map(|cpu| CPU_ACTIVITY.note(CpuId(cpu), 7, 2)), [None; 2]);
        assert_eq!(CPU_ACTIVITY.note(CpuId(5), 8, 2), Some(CpuId(3)));
        assert_eq!(CPU_ACTIVITY.note(CpuId(9), 8, 2), None);
        assert_eq!(CPU_ACTIVITY.note(CpuId(3), 9, 2), Some(CpuId(5)));
    }

    #[test]
    fn those_on_which_nobody_asks_are_found_once() {
        static CPU_ACTIVITY: CpuActivity = CpuActivity::new();
        assert_eq!([(1, 250), (2, 256)].map(|(cpu, moment)| CPU_ACTIVITY.note(CpuId(cpu), moment, 9)), [None; 2]);
        assert_eq!(CPU_ACTIVITY.take_idle(257, 8), None);
        assert_eq!([CPU_ACTIVITY.take_idle(259, 8), CPU_ACTIVITY.take_idle(259, 8)], [Some(CpuId(1)), None]);
        assert_eq!(CPU_ACTIVITY.take_idle(270, 8), Some(CpuId(2)));
    }
}
