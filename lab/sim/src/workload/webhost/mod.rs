//! `webhost`: a host that serves requests for hours, with memory full of page cache.
//!
//! Every CPU makes one small step after the other. In a step
//!
//! ```text
//! readers    read files into the page cache, and come back to what is there
//! tasks      touch memory for the first time: a huge page where one is to be had, single pages otherwise; old ones end
//! kernel     objects come and go: some that cannot move, some that shrinkers can take back
//! atomic     packets and extents want blocks of orders 0 to 3 in bursts, at once, and for a short time
//! ```
//!
//! Everything is measured in pages turned over: in [`turnover_s`](Webhost::turnover_s) seconds the CPUs together ask
//! for as many pages as the machine has, and each kind of request comes so many times in a hundred, a thousand or ten
//! thousand of these. So hosts of all sizes do the same to their memory, a large one only with more operations. It
//! comes in runs: a file is read, and memory touched, as fast as that goes. Steps are due at times that do not depend
//! on how long the last one took: who waits for memory is late, and catches up.
//!
//! Turning memory over in a minute or two is a fast-forward, since a production host takes longer. What the kernel does
//! by the clock (per-CPU lists decay each second, kcompactd looks twice a second, khugepaged every ten) happens as
//! often as it does there by the second, hence less often by the page.

mod atomic;
mod kernel;
mod pace;
mod tasks;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use atomic::Atomic;
pub use kernel::Kernel;

use super::draw::Spread;
use crate::cpu::Cpu;
use crate::executor::Executor;
use crate::memory::Parameters;
use atomic::Bursts;
use kernel::Objects;
use pace::{Meter, Pace, Runs};
use tasks::Tasks;

/// Pages turned over in a step.
const STEP_PAGES: u64 = 16;
/// Pages that come with one read: the window of read-ahead. linux: include/linux/pagemap.h:VM_READAHEAD_PAGES
const READ_AHEAD: u64 = 32;
/// The slowest turnover: a day.
const TURNOVER_MAX_S: u32 = 86_400;
/// The largest task, in ranges: 128 GiB.
const TASK_RANGES_MAX: u32 = 1 << 16;
/// Most of memory that tasks and the kernel may be given to hold, in percent; page cache has the rest.
const HELD_MAX_PERCENT: u32 = 80;

/// What `webhost` can be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Webhost {
    /// Seconds in which as many pages are asked for as the machine has.
    pub turnover_s: u32,
    /// Of a hundred pages of memory, tasks hold so many.
    pub anon_percent: u32,
    /// Of a hundred pages turned over, so many are touched by tasks; the others are read from files.
    pub anon_turnover_percent: u32,
    /// Of a hundred reads of a page, so many find it in the page cache.
    pub reuse_percent: u32,
    /// Pages of files that are read without a pause.
    pub read_pages: Spread,
    /// How long reading a page takes, in ns.
    pub read_ns: u64,
    /// Pages that a task touches without a pause.
    pub touch_pages: Spread,
    /// How long a fault takes with what it brings, in ns.
    pub fault_ns: u64,
    /// The same for a huge page, in ns.
    pub huge_fault_ns: u64,
    /// Ranges of the size of a huge page that a task maps, and touches one after the other.
    pub task_ranges: Spread,
    /// Atomic requests of the network.
    pub network: Atomic,
    /// Atomic requests of the file system, as btrfs makes them.
    pub filesystem: Atomic,
    /// Kernel objects.
    pub kernel: Kernel,
    /// Huge pages, pinned and dirty pages.
    pub memory: Parameters,
}

impl Default for Webhost {
    fn default() -> Webhost {
        Webhost {
            turnover_s: 75,
            anon_percent: 34,
            anon_turnover_percent: 57,
            reuse_percent: 20,
            read_pages: Spread::new(1, 2047),
            read_ns: 741,
            touch_pages: Spread::new(1, 2047),
            fault_ns: 2133,
            huge_fault_ns: 485_131,
            task_ranges: Spread::new(1, 16),
            network: Atomic::default(),
            filesystem: Atomic::default(),
            kernel: Kernel::default(),
            memory: Parameters::default(),
        }
    }
}

/// A parameter that makes no sense: its key below `workload`, and a sentence that follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The key.
    pub key: &'static str,
    /// What is wrong with it, and what to write.
    pub sentence: String,
}

impl Webhost {
    /// Whether the parameters can be had together.
    ///
    /// # Errors
    /// Names the key that cannot.
    pub fn check(&self) -> Result<(), Unfit> {
        let unfit = |key, sentence| Err(Unfit { key, sentence });
        if !(1..=TURNOVER_MAX_S).contains(&self.turnover_s) {
            return unfit("turnover_s", format!("is {}; give seconds from 1 to {TURNOVER_MAX_S}", self.turnover_s));
        }
        let most = self.task_ranges.most;
        if most > TASK_RANGES_MAX {
            return unfit("task_ranges", format!("goes up to {most}; give at most {TASK_RANGES_MAX}"));
        }
        let (touched, reused) = (self.anon_turnover_percent, self.reuse_percent);
        for (key, percent) in [("anon_turnover_percent", touched), ("reuse_percent", reused)] {
            if percent > 99 {
                return unfit(key, format!("is {percent}; give a share from 0 to 99"));
            }
        }
        let held = self.anon_percent.saturating_add(self.kernel.unmovable_permille.div_ceil(10));
        if held > HELD_MAX_PERCENT {
            let sentence = "with `kernel.unmovable_permille`; give both together at most";
            return unfit("anon_percent", format!("makes {held} % {sentence} {HELD_MAX_PERCENT} %"));
        }
        for (key, atomic) in [("network", &self.network), ("filesystem", &self.filesystem)] {
            let larger = atomic.larger_percent();
            if larger > 100 {
                let sentence = "of its requests of orders 1 to 3; give at most 100 in all";
                return unfit(key, format!("wants {larger} % {sentence}"));
            }
        }
        Ok(())
    }

    /// Pages that CPUs have at a time whatever memory there is: what a task touches without a pause, and bursts.
    pub fn pages_in_use(&self, cpus: u16) -> u64 {
        let run = tasks::RANGE + u64::from(self.touch_pages.most);
        u64::from(cpus) * (run + self.network.pages_at_once() + self.filesystem.pages_at_once())
    }

    /// What every CPU does.
    pub fn run<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>) {
        let share = cpu.memory_pages() / u64::from(cpu.cpus());
        let mut pace = Pace::new(cpu, u64::from(self.turnover_s), STEP_PAGES, share.max(1));
        let mut host = Host::new(self, cpu, share);
        host.tasks.inherit(cpu);
        while !cpu.is_over() {
            pace.wait(cpu);
            host.step(cpu);
        }
        host.end(cpu);
    }
}

/// What a CPU of the host has, and what is due on it.
struct Host<'p> {
    told: &'p Webhost,
    /// Pages to be read.
    reads: Runs,
    /// Cached pages to be read again.
    again: Meter,
    tasks: Tasks,
    objects: Objects,
    network: Bursts,
    filesystem: Bursts,
}

impl<'p> Host<'p> {
    fn new<X: Executor>(told: &'p Webhost, cpu: &mut Cpu<'_, '_, X>, share: u64) -> Host<'p> {
        let rng = cpu.rng();
        Host {
            told,
            reads: Runs::new(&told.read_pages, rng),
            again: Meter::default(),
            tasks: Tasks::new(told, share * u64::from(told.anon_percent) / 100, rng),
            objects: Objects::new(share * u64::from(told.kernel.unmovable_permille) / 1000),
            network: Bursts::new(&told.network, rng),
            filesystem: Bursts::new(&told.filesystem, rng),
        }
    }

    fn step<X: Executor>(&mut self, cpu: &mut Cpu<'_, '_, X>) {
        self.network.step(cpu, &self.told.network, STEP_PAGES);
        self.read(cpu);
        self.tasks.step(cpu, self.told, STEP_PAGES);
        self.filesystem.step(cpu, &self.told.filesystem, STEP_PAGES);
        self.objects.step(cpu, &self.told.kernel, STEP_PAGES);
    }

    fn read<X: Executor>(&mut self, cpu: &mut Cpu<'_, '_, X>) {
        let file_percent = 100 - u64::from(self.told.anon_turnover_percent);
        self.reads.pass(STEP_PAGES, file_percent, 100);
        while let Some(mut left) = self.reads.next(&self.told.read_pages, cpu.rng()) {
            while left > 0 {
                let window = left.min(READ_AHEAD);
                self.read_window(cpu, window);
                left -= window;
            }
        }
    }

    /// Reads what is read ahead at once, and comes back to as many cached pages as are due.
    fn read_window<X: Executor>(&mut self, cpu: &mut Cpu<'_, '_, X>, pages: u64) {
        cpu.read_file(pages as u32);
        let reused = u64::from(self.told.reuse_percent);
        for _ in 0..self.again.due(pages, reused, 100 - reused) {
            cpu.use_cached();
        }
        cpu.work(pages * self.told.read_ns);
    }

    fn end<X: Executor>(self, cpu: &mut Cpu<'_, '_, X>) {
        self.tasks.end(cpu);
        self.objects.end(cpu);
        self.network.end(cpu);
        self.filesystem.end(cpu);
    }
}
