//! The interface that a workload needs beyond the engine's platform: time, other CPUs, and the cost of its steps.
//!
//! There are two executors, and workloads cannot distinguish them. In virtual time every CPU is a coroutine on one
//! thread, and each step advances that CPU's clock by its cost in the cost table. On real threads steps take real time,
//! and the methods that only charge a cost do nothing.

use freehold::base::{CpuId, Pfn};
use freehold::platform::Platform;

use super::memory::Model;

/// A platform on which CPUs run workloads.
pub trait Executor: Platform {
    /// Returns the picoseconds since the run began, by this CPU's clock.
    fn now(&self) -> u64;

    /// Returns whether the run's time is over. A workload checks this at the top of its loop, and then winds down.
    fn is_over(&self) -> bool;

    /// Spends `picoseconds` of this CPU on other work.
    fn work(&self, picoseconds: u64);

    /// Parks this CPU until another CPU [wakes](Executor::wake) it or the run is over. Returns at once if a wake
    /// arrived since the last wait, so no wake is lost. May also return spuriously.
    fn wait(&self);

    /// Ends the wait of another CPU, or its next wait if it is not waiting now.
    fn wake(&self, cpu: CpuId);

    /// Waits for this CPU's turn. A workload calls it before it reads or changes state that CPUs share. In virtual
    /// time, no other CPU's clock is behind this CPU's clock when the call returns.
    fn take_turn(&self);

    /// Records that this CPU uses a page: the cache line with the page's metadata moves to this CPU.
    fn touch(&self, pfn: Pfn);

    /// Announces the value that this CPU reads after other CPUs have had their turns. Where many CPUs share a thread,
    /// the value can be prefetched meanwhile. Has no other effect. On threads it does nothing and takes no time.
    #[inline]
    fn expect<'v, T: 'v>(&self, _find: impl FnOnce() -> &'v T) {}

    /// Charges one step to this CPU.
    #[inline]
    fn charge(&self, step: Step) {
        self.charge_times(step, 1);
    }

    /// Charges the same step `times` times to this CPU.
    fn charge_times(&self, step: Step, times: u64);

    /// Returns the current time if the operation that begins now is to be timed. An executor on which reading a clock
    /// costs more than the operation always returns `None`.
    fn stopwatch(&self) -> Option<u64>;

    /// Returns the model of the memory above the allocator, if this executor has one.
    fn memory(&self) -> Option<&Model>;
}

/// A step whose cost is in the cost table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An allocation, without work under a zone lock and without splits of larger blocks.
    Alloc,
    /// A free, without work under a zone lock and without merges.
    Free,
    /// A parcel of blocks is sent to another CPU, or received.
    Parcel,
    /// A page of the page cache is selected and removed.
    Reclaim,
    /// Reclaim examines a page that stays or a kernel object, khugepaged examines a range, or a background task's state
    /// machine is called once.
    Scan,
    /// A page is copied to another frame, and its owner's entry changed.
    Migrate,
}
