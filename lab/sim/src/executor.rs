//! What a workload needs beyond the engine's platform: time, other CPUs, and a way to say what its steps cost.
//!
//! There are two executors, and workloads cannot tell them apart. In virtual time every CPU is a coroutine on one
//! thread, and each step moves that CPU's clock on by what the cost table says. On real threads steps cost what they
//! cost, and all methods that only charge something do nothing.

use freehold::base::{CpuId, Pfn};
use freehold::platform::Platform;

use super::memory::Model;

/// A platform on which CPUs run workloads.
pub trait Executor: Platform {
    /// Picoseconds since the run began, by this CPU's clock.
    fn now(&self) -> u64;

    /// Whether the run's time is up. A workload asks at the top of its loop, and winds down.
    fn is_over(&self) -> bool;

    /// This CPU does something else for so many picoseconds.
    fn work(&self, picoseconds: u64);

    /// Parks this CPU until another one [wakes](Executor::wake) it or the run is over. A wake that came since the last
    /// wait is not lost: then this returns at once. It may also return for no reason.
    fn wait(&self);

    /// Ends another CPU's wait, or its next one.
    fn wake(&self, cpu: CpuId);

    /// Called before a workload looks at, or changes, what CPUs share: in virtual time no other CPU's clock is behind
    /// this one's when it returns.
    fn take_turn(&self);

    /// This CPU uses a page: the cache line with its metadata moves here.
    fn touch(&self, pfn: Pfn);

    /// This CPU looks at a value as soon as others have had their turns: where many CPUs share a thread, it can be
    /// fetched meanwhile. Changes nothing; on threads, not even what time passes.
    #[inline]
    fn expect<'v, T: 'v>(&self, _find: impl FnOnce() -> &'v T) {}

    /// This CPU does a step of its own.
    #[inline]
    fn charge(&self, step: Step) {
        self.charge_times(step, 1);
    }

    /// This CPU does the same step so many times.
    fn charge_times(&self, step: Step, times: u64);

    /// The time now if what begins here shall be timed: an executor on which looking at a clock costs more than what is
    /// timed picks few of many.
    fn stopwatch(&self) -> Option<u64>;

    /// What the machine's memory is like above the allocator, if this executor has such a model.
    fn memory(&self) -> Option<&Model>;
}

/// A step that costs what the cost table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An allocation, without what it has to do under a zone lock or to larger blocks.
    Alloc,
    /// A free, likewise.
    Free,
    /// A parcel of blocks is handed to another CPU, or taken.
    Parcel,
    /// A page of the page cache is chosen and taken out.
    Reclaim,
    /// A page, or an object of the kernel's, is looked at by somebody who looks for what can be reclaimed.
    Scan,
    /// A page is copied to another place, and its owner's entry changed.
    Migrate,
}
