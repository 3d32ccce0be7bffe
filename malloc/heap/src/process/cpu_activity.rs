//! Activity of CPUs that have cached objects.
//!
//! Each CPU caches its own objects, so idle memory grows with the number of CPUs that a program has ever run on. In a
//! container on a large machine this may be hundreds of CPUs, although few are used at a time. Therefore the number of
//! CPUs with cached objects is limited. When the limit is exceeded, an inactive CPU gives up its objects; CPUs that are
//! active in the current tick are exempt, so the limit may be exceeded for a while. A CPU that has been inactive for a
//! longer time gives up its objects as well.
//!
//! A slow path records the current tick in a byte of its CPU. Nothing is written if the byte holds this tick already.
//!
//! # Design
//!
//! The limit is in the malloc and not in the engine. The engine gives each CPU its sheaves, as a kernel needs. CPUs in
//! use are exempt because fetching their objects again at once costs more than the memory is worth.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU8, AtomicU32};

use freehold::base::CpuId;

use super::parts::Malloc;
use super::ticks::TICK;
use super::{AnyHeap, CPU_ACTIVITY, with_heap};

/// CPUs that have a byte of their own. CPUs whose numbers are equal modulo this number share a byte, and only the CPU
/// with the lowest of these numbers is drained.
const CPUS: usize = 1024;
/// Ticks that a byte can distinguish. The values from 1 on denote ticks, and 0 denotes a CPU without objects.
const MOMENTS: u32 = 254;

/// Multiple of [`Options::age`](super::options::Options::age) after which an inactive CPU gives up its objects.
const IDLE_AGES: u32 = 4;

/// CPUs that have cached objects, with the ticks of their last activity.
#[repr(C)]
pub(super) struct CpuActivity {
    /// Number of CPUs that have cached objects.
    count: AtomicU32,
    /// Index at which the next search begins.
    next: AtomicU32,
    /// Tick of each CPU's last activity, as encoded by [`byte`]; 0 if the CPU has no objects.
    last: [AtomicU8; CPUS],
}

impl CpuActivity {
    pub(super) const fn new() -> CpuActivity {
        CpuActivity { last: [const { AtomicU8::new(0) }; CPUS], count: AtomicU32::new(0), next: AtomicU32::new(0) }
    }

    /// Records that a CPU is active in a tick. If this is the CPU's first activity in the tick and more than `most`
    /// CPUs have objects, returns another CPU that was not active in this tick, whose objects the caller must drain.
    /// Returns `None` otherwise, or if all these CPUs were active.
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

    /// Returns a CPU that has been inactive for more than `moments` ticks, if there is one. It counts as without
    /// objects from now on.
    pub(super) fn take_idle(&self, moment: u32, moments: u32) -> Option<CpuId> {
        self.take(|last| (u32::from(byte(moment)) + MOMENTS - u32::from(last)) % MOMENTS > moments)
    }

    /// Returns the next CPU whose byte `is_meant` accepts, and clears the byte; returns `None` if there is none.
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
    /// Records the CPU on which a slow path runs. If too many CPUs have objects, drains an inactive one, provided that
    /// the process can fence CPUs.
    #[inline]
    pub(super) fn note_cpu(&self, now: u32) {
        if let Some(other) = CPU_ACTIVITY.note(self.cpu(), now, self.options.cpus) {
            self.drain(other);
        }
    }

    /// Drains a CPU that has been inactive for long, if there is one and the process can fence CPUs. Called within a
    /// slow path.
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

/// Encodes a tick in a byte.
fn byte(moment: u32) -> u8 {
    (moment % MOMENTS) as u8 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_beyond_the_limit_replaces_an_older_cpu() {
        static CPU_ACTIVITY: CpuActivity = CpuActivity::new();
        assert_eq!([3, 5, 3].map(|cpu| CPU_ACTIVITY.note(CpuId(cpu), 7, 2)), [None; 3]);
        // All of these CPUs are active in this tick. In the next tick, a CPU beyond the limit takes the place of
        // another one.
        assert_eq!([9, 3].map(|cpu| CPU_ACTIVITY.note(CpuId(cpu), 7, 2)), [None; 2]);
        assert_eq!(CPU_ACTIVITY.note(CpuId(5), 8, 2), Some(CpuId(3)));
        assert_eq!(CPU_ACTIVITY.note(CpuId(9), 8, 2), None);
        assert_eq!(CPU_ACTIVITY.note(CpuId(3), 9, 2), Some(CpuId(5)));
    }

    #[test]
    fn idle_cpu_is_taken_once() {
        static CPU_ACTIVITY: CpuActivity = CpuActivity::new();
        assert_eq!([(1, 250), (2, 256)].map(|(cpu, moment)| CPU_ACTIVITY.note(CpuId(cpu), moment, 9)), [None; 2]);
        assert_eq!(CPU_ACTIVITY.take_idle(257, 8), None);
        assert_eq!([CPU_ACTIVITY.take_idle(259, 8), CPU_ACTIVITY.take_idle(259, 8)], [Some(CpuId(1)), None]);
        assert_eq!(CPU_ACTIVITY.take_idle(270, 8), Some(CpuId(2)));
    }
}
