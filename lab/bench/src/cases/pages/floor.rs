//! The floor: an array of free frames for each CPU, protected by a lock for each CPU.
//!
//! No per-CPU list can do less as long as other CPUs may drain it. A frame number is the minimum that identifies a free
//! page, and the lock is the engine's own. The floor cannot find a buddy, a larger block or a double free, and pages
//! that a CPU frees stay with that CPU.

use freehold::base::lock::{Locked, Rank, Ranked};
use freehold::base::{CpuId, Pfn};
use freehold::platform::host::Threads;
use freehold::platform::{NoProbe, Platform};

use super::work::Blocks;

/// Free frames by CPU.
pub(super) struct Floor {
    platform: Threads<NoProbe>,
    cpus: Vec<Array>,
}

#[repr(align(128))]
struct Array(Locked<<Threads<NoProbe> as Platform>::Lock, Free>);

/// Stack of free frames; the last one freed is on top.
struct Free(Vec<Pfn>);

impl Ranked for Free {
    const RANK: Rank = Rank::Pcp;
}

impl Floor {
    /// Creates a floor of `cpus` CPUs with `frames` free frames each.
    pub(super) fn new(cpus: u16, frames: u32) -> Floor {
        let arrays = (0..cpus).map(|cpu| {
            let first = u32::from(cpu) * frames;
            Array(Locked::new(Free((first..first + frames).rev().map(Pfn::new).collect())))
        });
        Floor { platform: Threads::default(), cpus: arrays.collect() }
    }

    #[inline]
    fn here(&self) -> &Array {
        let CpuId(cpu) = self.platform.cpu();
        &self.cpus[usize::from(cpu)]
    }
}

impl Blocks for Floor {
    #[inline]
    fn get(&self) -> Pfn {
        self.here()
            .0
            .try_lock()
            .and_then(|mut free| free.0.pop())
            .expect("frames remain, and no other thread uses them")
    }

    #[inline]
    fn put(&self, pfn: Pfn) {
        self.here().0.try_lock().expect("no other thread uses the lock").0.push(pfn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_differ_and_the_last_freed_is_reused_first() {
        let floor = Floor::new(2, 4);
        let taken: Vec<u32> = (0..4).map(|_| floor.get().raw()).collect();
        assert_eq!(taken, [0, 1, 2, 3]);
        floor.put(Pfn::new(2));
        assert_eq!(floor.get(), Pfn::new(2));
    }
}
