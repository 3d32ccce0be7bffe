//! `webhost`: a host that serves requests for hours, with memory full of page cache.
//!
//! Every CPU makes one small step after the other. A step consists of
//!
//! ```text
//! readers    read files into the page cache, and use cached pages again
//! tasks      touch memory for the first time: a huge page if one is available, otherwise single pages; old tasks exit
//! kernel     allocate and free objects: some unmovable, some that shrinkers can free
//! atomic     packets and extents request blocks of orders 0 to 3, in bursts, at once, and for a short time
//! ```
//!
//! All rates are relative to pages turned over. In [`turnover_s`](Webhost::turnover_s) seconds the CPUs together
//! request as many pages as the machine has. Each kind of request has a rate per hundred, thousand or ten thousand of
//! these pages. So hosts of all sizes treat their memory alike; a large host just takes more operations. Reads and
//! touches are done in runs: a file is read, and memory touched, as fast as possible. Steps are due at times that do
//! not depend on the duration of the previous step: a CPU that waited for memory is late, and catches up.
//!
//! A turnover in a minute or two is faster than on a production host. Actions of the kernel that are driven by time
//! (decay of per-CPU lists each second, kcompactd twice a second, khugepaged every ten) keep their real rate per
//! second, so they are less frequent per page.

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
/// Pages of one read: the readahead window. linux: include/linux/pagemap.h:VM_READAHEAD_PAGES
const READ_AHEAD: u64 = 32;

impl Webhost {
    /// Returns the number of pages that CPUs use at a time in addition to their shares of memory: a run of touches, and
    /// bursts.
    pub fn pages_in_use(&self, cpus: u16) -> u64 {
        let run = tasks::RANGE + u64::from(self.touch_pages.most);
        u64::from(cpus) * (run + self.network.pages_at_once() + self.filesystem.pages_at_once())
    }

    /// Runs the workload on a CPU.
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

/// State of a CPU of the host.
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

    /// Reads a readahead window, and uses as many cached pages again as are due.
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
