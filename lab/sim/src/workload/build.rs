//! `build`: the page allocations of a kernel build: many short processes, and a page cache that only grows.
//!
//! Each CPU runs one process after the other. A process
//!
//! ```text
//! forks        task, kernel stack, page tables: unmovable, orders 0 to 2
//! executes     allocates new page tables, and frees the forked ones
//! runs         in steps: thinks, faults pages in (movable), opens files (kernel objects: unmovable and reclaimable,
//!              some short-lived, some permanent), reads and writes files (page cache: movable, permanent)
//! exits        everything that the process owns is freed at once
//! ```
//!
//! Halfway through its steps a process may migrate to another CPU, with all its pages. These are freed there, while the
//! pageblocks they come from are local to the old CPU. Permanent pages are freed only by reclaim: pages of files oldest
//! first, pages of inodes at random. Without pressure they stay until the run ends. With `files_kept`, files are
//! deleted instead.
//!
//! The proportions follow recordings/build.parquet (see `freehold inspect recordings/build.parquet`): nearly all
//! requests are of order 0, most of them movable, and some of the blocks are freed on another CPU than the one that
//! allocated them. The numbers depend on the parameters; the plan `recording` plays the recorded events themselves.

use freehold::base::{Gfp, Order};
use serde::{Deserialize, Serialize};

use crate::block::Block;
use crate::cpu::Cpu;
use crate::executor::Executor;
use crate::random::{LogUniform, occurs};

/// Flags of page tables, kernel stacks and tasks.
const KERNEL: Gfp = Gfp::KERNEL.union(Gfp::ZERO);
/// Flags of inodes and directory entries, which shrinkers free.
const SHRINKABLE: Gfp = Gfp::KERNEL.union(Gfp::RECLAIMABLE);
/// Order of a task's structure, and of its kernel stack.
const TASK: Order = Order::new(2);

/// Parameters of `build`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Build {
    /// Pages that a process faults in, over its lifetime.
    pub faults: LogUniform,
    /// Page-table pages of a process at its fork, and again at its execution.
    pub page_tables: LogUniform,
    /// Pages faulted in per step.
    pub faults_per_step: u32,
    /// Pages that a process adds to the page cache.
    pub cached_pages: LogUniform,
    /// Pages that each CPU adds to the page cache before its first process, as files that were read long ago.
    pub cached_at_start: u32,
    /// Pages of files that a CPU keeps before it deletes a random one, as builds do with temporary files. If 0, none is
    /// deleted, and all are left to reclaim.
    pub files_kept: u32,
    /// Percentage of cached pages that hold inodes and similar objects: reclaimable, not movable.
    pub cached_inode_percent: u32,
    /// Blocks of short-lived kernel objects (slabs) that a process allocates, orders 0 to 3.
    pub slabs: LogUniform,
    /// Slabs that a CPU keeps before it frees a random one.
    pub slabs_kept: u32,
    /// Percentage of processes that migrate to another CPU halfway.
    pub migrate_percent: u32,
    /// Computing time of a process per step, in ns, so that its time grows with its faults.
    pub think_ns: u64,
}

impl Default for Build {
    fn default() -> Build {
        Build {
            faults: LogUniform::new(128, 8191),
            page_tables: LogUniform::new(8, 31),
            faults_per_step: 16,
            cached_pages: LogUniform::new(2, 63),
            cached_at_start: 0,
            files_kept: 0,
            cached_inode_percent: 10,
            slabs: LogUniform::new(8, 63),
            slabs_kept: 128,
            migrate_percent: 30,
            think_ns: 10_000,
        }
    }
}

/// Blocks of a process, and its remaining work.
struct Process {
    blocks: Vec<Block>,
    tables: u32,
    faults: u32,
    cached: u32,
    slabs: u32,
}

/// State of a CPU besides its process.
struct Kernel {
    slabs: Vec<Block>,
    /// Pages of files that will be deleted.
    files: Vec<Block>,
    /// Random generator for processes that are forked here. They do not depend on arrivals from other CPUs.
    births: fastrand::Rng,
    /// Random generator for the remaining work of processes that migrate to this CPU.
    arrivals: fastrand::Rng,
}

impl Build {
    /// Returns a likely upper bound of the pages in use at a time on `cpus` CPUs, without the page cache.
    pub fn pages_in_use(&self, cpus: u16) -> u64 {
        let process = self.faults.mean_at_most() + 2 * self.page_tables.mean_at_most() + 8;
        let kept = u64::from(self.slabs_kept) * 4 + u64::from(self.files_kept);
        // One process runs on each CPU, and some wait in mailboxes after a migration.
        (2 * process + kept) * u64::from(cpus) + 2 * u64::from(self.faults.most)
    }

    /// Runs the workload on a CPU.
    pub fn run<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>) {
        let [births, arrivals] = [0, 1].map(|_| fastrand::Rng::with_seed(cpu.rng().u64(..)));
        let mut kernel = Kernel { slabs: Vec::new(), files: Vec::new(), births, arrivals };
        for _ in 0..self.cached_at_start {
            self.fill_cache(cpu, &mut kernel);
        }
        while !cpu.is_over() {
            // A process that migrated to this CPU goes first, since it has waited.
            match cpu.try_receive() {
                Some(blocks) => {
                    let rest = self.half(&mut kernel.arrivals, blocks);
                    self.finish(cpu, &mut kernel, rest);
                }
                None => self.start(cpu, &mut kernel),
            }
        }
        while let Some(mut blocks) = cpu.try_receive() {
            cpu.free_all(&mut blocks);
        }
        cpu.free_all(&mut kernel.slabs);
        cpu.free_all(&mut kernel.files);
    }

    /// Runs a new process until it migrates, or to its end.
    fn start<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>, kernel: &mut Kernel) {
        let mut process = self.half(&mut kernel.births, Vec::new());
        let rest = self.half(&mut kernel.births, Vec::new());
        self.fork(cpu, &mut process);
        self.exec(cpu, &mut process);
        self.steps(cpu, kernel, &mut process);
        if let Some(other) = cpu.draw_other_cpu(self.migrate_percent) {
            match cpu.try_send(other, process.blocks) {
                Some(back) => process.blocks = back,
                None => return,
            }
        }
        self.finish(cpu, kernel, Process { blocks: process.blocks, ..rest });
    }

    /// Runs a process from halfway to its end.
    fn finish<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>, kernel: &mut Kernel, mut process: Process) {
        self.steps(cpu, kernel, &mut process);
        cpu.free_all(&mut process.blocks);
    }

    fn fork<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>, process: &mut Process) {
        for _ in 0..2 {
            process.blocks.extend(cpu.alloc(KERNEL, TASK));
        }
        self.map(cpu, process);
    }

    /// Allocates new page tables, and frees the forked ones.
    fn exec<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>, process: &mut Process) {
        let tables = process.blocks.iter().position(|block| block.order < TASK).unwrap_or(process.blocks.len());
        let mut forked = process.blocks.split_off(tables);
        self.map(cpu, process);
        cpu.free_all(&mut forked);
    }

    fn map<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>, process: &mut Process) {
        for _ in 0..process.tables {
            process.blocks.extend(cpu.alloc(KERNEL, Order::ZERO));
        }
    }

    /// Draws one half of a process's work.
    fn half(&self, rng: &mut fastrand::Rng, blocks: Vec<Block>) -> Process {
        let [faults, cached, slabs] =
            [&self.faults, &self.cached_pages, &self.slabs].map(|sizes| sizes.draw(rng).div_ceil(2));
        let tables = self.page_tables.draw(rng);
        Process { blocks, tables, faults, cached, slabs }
    }

    fn steps<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>, kernel: &mut Kernel, process: &mut Process) {
        let steps = process.faults.div_ceil(self.faults_per_step.max(1));
        for left in (1..=steps).rev() {
            if cpu.is_over() {
                return;
            }
            cpu.work(self.think_ns);
            for _ in 0..share(&mut process.faults, left) {
                process.blocks.extend(cpu.alloc(Gfp::HIGHUSER_MOVABLE, Order::ZERO));
            }
            for _ in 0..share(&mut process.slabs, left) {
                self.use_slab(cpu, kernel);
            }
            for _ in 0..share(&mut process.cached, left) {
                self.fill_cache(cpu, kernel);
            }
        }
    }

    /// Allocates a slab, and frees one if the CPU has too many. linux: mm/slub.c:calculate_order
    fn use_slab<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>, kernel: &mut Kernel) {
        let order = Order::new(cpu.rng().u8(0..=3));
        kernel.slabs.extend(cpu.alloc(Gfp::KERNEL | Gfp::COMP, order));
        drop_one(cpu, &mut kernel.slabs, self.slabs_kept);
    }

    fn fill_cache<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>, kernel: &mut Kernel) {
        let is_inode = occurs(cpu.rng(), self.cached_inode_percent);
        let gfp = if is_inode { SHRINKABLE } else { Gfp::HIGHUSER_MOVABLE };
        let Some(block) = cpu.alloc(gfp, Order::ZERO) else { return };
        if self.files_kept > 0 {
            kernel.files.push(block);
            drop_one(cpu, &mut kernel.files, self.files_kept);
        } else if is_inode {
            cpu.shrinkable(block);
        } else {
            cpu.cache(block);
        }
    }
}

/// Frees one random block, if there are more than are kept.
fn drop_one<X: Executor>(cpu: &mut Cpu<'_, '_, X>, blocks: &mut Vec<Block>, kept: u32) {
    if blocks.len() > kept as usize {
        let victim = cpu.rng().usize(0..blocks.len());
        let block = blocks.swap_remove(victim);
        cpu.free(block);
    }
}

/// Takes the part of `left` that is due if `steps` steps remain, including the current one.
fn share(left: &mut u32, steps: u32) -> u32 {
    let due = left.div_ceil(steps);
    *left -= due;
    due
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn build_shares_add_up() {
        for total in [0, 1, 7, 100] {
            let mut left = total;
            let sum: u32 = (1..=8).rev().map(|steps| share(&mut left, steps)).sum();
            assert_eq!((sum, left), (total, 0));
        }
    }
}
