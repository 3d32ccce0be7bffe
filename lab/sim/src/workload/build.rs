//! `build`: what a kernel build does to the page allocator: many short processes, and a page cache that only grows.
//!
//! Each CPU runs one process after the other. A process
//!
//! ```text
//! is forked    task, kernel stack, page tables: unmovable, orders 0 to 2
//! is executed  some of that anew; from here on perhaps on another CPU
//! runs         in steps: thinks, faults pages in (movable), opens files (kernel objects: unmovable and reclaimable,
//!              some short-lived, some for good), reads and writes files (page cache: movable, kept for good)
//! exits        everything of its own goes back at once
//! ```
//!
//! Tasks migrate: halfway through its steps a process may move to another CPU, with all it has. Its pages are freed
//! there, while the pageblocks they come from are where it was before. What is kept for good is freed by reclaim only:
//! pages of files oldest first, those of inodes by chance. Without pressure it stays until the run ends. With
//! `files_kept`, files are deleted instead.
//!
//! The shape follows recordings/build.parquet (see `freehold inspect recordings/build.parquet`): nearly all requests
//! are of order 0, most of them movable, and some of the blocks are freed on another CPU than the one that allocated
//! them. How many is a matter of the parameters; the plan `recording` plays the recorded events themselves.

use freehold::base::{Gfp, Order};
use serde::{Deserialize, Serialize};

use crate::block::Block;
use crate::cpu::Cpu;
use crate::executor::Executor;
use crate::random::{LogUniform, occurs};

/// Page tables, kernel stacks and tasks.
const KERNEL: Gfp = Gfp::KERNEL.union(Gfp::ZERO);
/// Inodes, directory entries: given back by shrinkers.
const SHRINKABLE: Gfp = Gfp::KERNEL.union(Gfp::RECLAIMABLE);
/// Order of a task's structure, and of its kernel stack.
const TASK: Order = Order::new(2);

/// What `build` can be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Build {
    /// Pages that a process faults in, over its life.
    pub faults: LogUniform,
    /// Page-table pages of a process, and as many again when it is executed.
    pub page_tables: LogUniform,
    /// Pages faulted in at one step.
    pub faults_per_step: u32,
    /// Pages that the page cache gains from a process.
    pub cached_pages: LogUniform,
    /// Pages that each CPU puts into the page cache before its first process: files that were read long ago.
    pub cached_at_start: u32,
    /// Pages of files that a CPU keeps before it deletes one by chance, as builds do with what is temporary; 0 if none
    /// is ever deleted, and all are left to reclaim.
    pub files_kept: u32,
    /// Of a hundred pages of the page cache, so many are of inodes and the like: reclaimable, not movable.
    pub cached_inode_percent: u32,
    /// Blocks of short-lived kernel objects (slabs) that a process asks for, orders 0 to 3.
    pub slabs: LogUniform,
    /// Slabs that a CPU keeps before it gives back one by chance.
    pub slabs_kept: u32,
    /// Of a hundred processes, so many move to another CPU halfway.
    pub migrate_percent: u32,
    /// What a process computes at one step, in ns, so that its time grows with its faults.
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

/// What remains to be done by a process, over its steps.
struct Process {
    blocks: Vec<Block>,
    tables: u32,
    faults: u32,
    cached: u32,
    slabs: u32,
}

/// What a CPU has besides its process.
struct Kernel {
    slabs: Vec<Block>,
    /// Pages of files that will be deleted.
    files: Vec<Block>,
    /// What decides the processes that are forked here: the same ones, whatever comes from elsewhere and when.
    births: fastrand::Rng,
    /// What decides what is left to do for those that move here.
    arrivals: fastrand::Rng,
}

impl Build {
    /// Pages that are in use at a time on so many CPUs, at most but for bad luck, without the page cache.
    pub fn pages_in_use(&self, cpus: u16) -> u64 {
        let process = self.faults.mean_at_most() + 2 * self.page_tables.mean_at_most() + 8;
        let kept = u64::from(self.slabs_kept) * 4 + u64::from(self.files_kept);
        // One runs, and some wait where they moved to.
        (2 * process + kept) * u64::from(cpus) + 2 * u64::from(self.faults.most)
    }

    /// What every CPU does.
    pub fn run<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>) {
        let [births, arrivals] = [0, 1].map(|_| fastrand::Rng::with_seed(cpu.rng().u64(..)));
        let mut kernel = Kernel { slabs: Vec::new(), files: Vec::new(), births, arrivals };
        for _ in 0..self.cached_at_start {
            self.fill_cache(cpu, &mut kernel);
        }
        while !cpu.is_over() {
            // Who moved here goes first: it has waited.
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

    /// A process from its fork to halfway, or to its end.
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

    /// A process from halfway to its end.
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

    /// The forked address space goes, a new one comes.
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

    /// One half of what a process does.
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

    /// A slab comes, and one of those that the CPU has goes. linux: mm/slub.c:calculate_order
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

/// Frees one of these blocks by chance, if there are more than are kept.
fn drop_one<X: Executor>(cpu: &mut Cpu<'_, '_, X>, blocks: &mut Vec<Block>, kept: u32) {
    if blocks.len() > kept as usize {
        let victim = cpu.rng().usize(0..blocks.len());
        let block = blocks.swap_remove(victim);
        cpu.free(block);
    }
}

/// The part of `left` that is due when so many steps remain, this one among them.
fn share(left: &mut u32, steps: u32) -> u32 {
    let due = left.div_ceil(steps);
    *left -= due;
    due
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_add_up() {
        for total in [0, 1, 7, 100] {
            let mut left = total;
            let sum: u32 = (1..=8).rev().map(|steps| share(&mut left, steps)).sum();
            assert_eq!((sum, left), (total, 0));
        }
    }
}
