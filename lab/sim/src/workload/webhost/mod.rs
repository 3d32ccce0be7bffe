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
mod parameters;
mod tasks;
#[cfg(test)]
mod tests;

pub use atomic::Atomic;
pub use kernel::Kernel;
pub use parameters::{Unfit, Webhost};

use crate::cpu::Cpu;
use crate::executor::Executor;
use atomic::Bursts;
use kernel::Objects;
use pace::{Meter, Pace, Runs};
use tasks::Tasks;

/// Pages turned over in a step.
const STEP_PAGES: u64 = 16;
/// Pages that come with one read: the window of read-ahead. linux: include/linux/pagemap.h:VM_READAHEAD_PAGES
const READ_AHEAD: u64 = 32;

impl Webhost {
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
    parameters: &'p Webhost,
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
    fn new<X: Executor>(parameters: &'p Webhost, cpu: &mut Cpu<'_, '_, X>, share: u64) -> Host<'p> {
        let rng = cpu.rng();
        Host {
            parameters,
            reads: Runs::new(&parameters.read_pages, rng),
            again: Meter::default(),
            tasks: Tasks::new(parameters, share * u64::from(parameters.anon_percent) / 100, rng),
            objects: Objects::new(share * u64::from(parameters.kernel.unmovable_permille) / 1000),
            network: Bursts::new(&parameters.network, rng),
            filesystem: Bursts::new(&parameters.filesystem, rng),
        }
    }

    fn step<X: Executor>(&mut self, cpu: &mut Cpu<'_, '_, X>) {
        self.network.step(cpu, &self.parameters.network, STEP_PAGES);
        self.read(cpu);
        self.tasks.step(cpu, self.parameters, STEP_PAGES);
        self.filesystem.step(cpu, &self.parameters.filesystem, STEP_PAGES);
        self.objects.step(cpu, &self.parameters.kernel, STEP_PAGES);
    }

    fn read<X: Executor>(&mut self, cpu: &mut Cpu<'_, '_, X>) {
        let file_percent = 100 - u64::from(self.parameters.anon_turnover_percent);
        self.reads.pass(STEP_PAGES, file_percent, 100);
        while let Some(mut left) = self.reads.next(&self.parameters.read_pages, cpu.rng()) {
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
        let reused = u64::from(self.parameters.reuse_percent);
        for _ in 0..self.again.due(pages, reused, 100 - reused) {
            cpu.use_cached();
        }
        cpu.work(pages * self.parameters.read_ns);
    }

    fn end<X: Executor>(self, cpu: &mut Cpu<'_, '_, X>) {
        self.tasks.end(cpu);
        self.objects.end(cpu);
        self.network.end(cpu);
        self.filesystem.end(cpu);
    }
}
