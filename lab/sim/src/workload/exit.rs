//! `exit`: processes that fault memory in, use it for a while, and exit with a burst of frees.
//!
//! Each CPU runs a few processes in turn. At its turn a process thinks, then faults in a few pages. When it has all its
//! pages, it lives on for some turns and exits. All its memory is then freed at once, as a process's memory is
//! (`zap_pte_range` gathers pages into batches, and each batch is freed in one call). A new process takes its place.
//! Some processes exit on another CPU than the one that faulted their pages, as after a migration by the scheduler.
//!
//! The size and the lifetime of a process are drawn from [`LogUniform`] distributions.
//!
//! linux: mm/mmu_gather.c:tlb_batch_pages_flush, mm/swap.c:folios_put_refs

use freehold::base::{Gfp, Order};
use serde::{Deserialize, Serialize};

use crate::block::Block;
use crate::cpu::Cpu;
use crate::executor::Executor;
use crate::random::{LogUniform, occurs};

/// Order of a huge page.
const HUGE: Order = Order::new(9);

/// Parameters of `exit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Exit {
    /// Processes that take turns on a CPU.
    pub processes_per_cpu: u32,
    /// Pages that a process faults in.
    pub pages: LogUniform,
    /// Turns that a process lives after its last fault.
    pub lifetime_turns: LogUniform,
    /// Pages faulted in per turn.
    pub pages_per_turn: u32,
    /// Percentage of processes that also have a huge page, which they fault in first.
    pub huge_percent: u32,
    /// Percentage of processes that exit on another CPU.
    pub remote_exit_percent: u32,
    /// Computing time of a process per turn, in ns.
    pub think_ns: u64,
}

impl Default for Exit {
    fn default() -> Exit {
        Exit {
            processes_per_cpu: 4,
            pages: LogUniform::new(32, 8191),
            lifetime_turns: LogUniform::new(4, 127),
            pages_per_turn: 16,
            huge_percent: 5,
            remote_exit_percent: 20,
            think_ns: 4_000,
        }
    }
}

/// A process: its blocks, and its remaining faults and turns.
#[derive(Default)]
struct Process {
    blocks: Vec<Block>,
    pages_left: u32,
    turns_left: u32,
}

impl Exit {
    /// Returns a likely upper bound of the pages in use at a time on `cpus` CPUs. Processes hold all their pages while
    /// they live on, and memory that is sent to another CPU may wait there.
    pub fn pages_in_use(&self, cpus: u16) -> u64 {
        let huge = u64::from(self.huge_percent) * u64::from(HUGE.pages()) / 100;
        let process = self.pages.mean_at_most() + huge;
        // The few processes of a CPU may all be large at once; on many CPUs sizes average out.
        let unlucky = u64::from(self.pages.most) * 2;
        process * u64::from(self.processes_per_cpu) * u64::from(cpus) * 3 / 2 + unlucky
    }

    /// Runs the workload on a CPU.
    pub fn run<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>) {
        let mut processes: Vec<Process> = (0..self.processes_per_cpu.max(1)).map(|_| self.begin(cpu)).collect();
        while !cpu.is_over() {
            self.end_arrivals(cpu);
            let turn = cpu.rng().usize(0..processes.len());
            cpu.work(self.think_ns);
            if self.take_turn(cpu, &mut processes[turn]) {
                let blocks = std::mem::take(&mut processes[turn].blocks);
                self.end(cpu, blocks);
                processes[turn] = self.begin(cpu);
            }
        }
        for process in &mut processes {
            cpu.free_all(&mut process.blocks);
        }
        self.end_arrivals(cpu);
    }

    fn begin<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>) -> Process {
        let rng = cpu.rng();
        let (pages_left, turns_left) = (self.pages.draw(rng), self.lifetime_turns.draw(rng));
        let mut process = Process { blocks: Vec::new(), pages_left, turns_left };
        if occurs(rng, self.huge_percent) {
            process.blocks.extend(cpu.alloc(Gfp::TRANSHUGE_LIGHT, HUGE));
        }
        process
    }

    /// Runs one turn of a process; returns whether it was the last.
    fn take_turn<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>, process: &mut Process) -> bool {
        if process.pages_left == 0 {
            process.turns_left = process.turns_left.saturating_sub(1);
            return process.turns_left == 0;
        }
        let pages = self.pages_per_turn.clamp(1, process.pages_left);
        process.pages_left -= pages;
        for _ in 0..pages {
            process.blocks.extend(cpu.alloc(Gfp::HIGHUSER_MOVABLE, Order::ZERO));
        }
        false
    }

    /// Frees all blocks of a process, here or on another CPU if that CPU's mailbox has room.
    fn end<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>, mut blocks: Vec<Block>) {
        if let Some(other) = cpu.draw_other_cpu(self.remote_exit_percent) {
            match cpu.try_send(other, blocks) {
                Some(back) => blocks = back,
                None => return,
            }
        }
        cpu.free_all(&mut blocks);
    }

    fn end_arrivals<X: Executor>(&self, cpu: &mut Cpu<'_, '_, X>) {
        while let Some(mut blocks) = cpu.try_receive() {
            cpu.free_all(&mut blocks);
        }
    }
}
