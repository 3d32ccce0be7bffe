//! `exit`: processes that fault memory in, live on it for a while, and end in an avalanche of frees.
//!
//! Each CPU runs a few processes in turn. At its turn a process thinks, then faults in a few pages; when it has all it
//! wants it lives on for some turns, and ends: everything it has goes back at once, as a process's memory does
//! (`zap_pte_range` gathers pages into batches, and each batch is freed in one call). A new one takes its place. Some
//! processes end on another CPU than the one that faulted their pages, as after a migration by the scheduler.
//!
//! How much a process wants, and how long it lives on, is drawn from [`LogUniform`]s.
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

/// What `exit` can be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Exit {
    /// Processes that take turns on a CPU.
    pub processes_per_cpu: u32,
    /// Pages that a process faults in.
    pub pages: LogUniform,
    /// Turns that it lives when it has them.
    pub lifetime_turns: LogUniform,
    /// Pages faulted in at one turn.
    pub pages_per_turn: u32,
    /// Of a hundred processes, so many have a huge page as well, and fault it in first.
    pub huge_percent: u32,
    /// Of a hundred processes, so many end on another CPU.
    pub remote_exit_percent: u32,
    /// What a process computes at one turn, in ns.
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

/// A process: what it has, and what it will want.
#[derive(Default)]
struct Process {
    blocks: Vec<Block>,
    pages_left: u32,
    turns_left: u32,
}

impl Exit {
    /// Pages that are in use at a time on so many CPUs, at most but for bad luck: processes are full for as long as
    /// they live on, and what ends elsewhere may have to wait there.
    pub fn pages_in_use(&self, cpus: u16) -> u64 {
        let huge = u64::from(self.huge_percent) * u64::from(HUGE.pages()) / 100;
        let process = self.pages.mean_at_most() + huge;
        // A CPU's few processes may all be large at once; on many CPUs that evens out.
        let unlucky = u64::from(self.pages.most) * 2;
        process * u64::from(self.processes_per_cpu) * u64::from(cpus) * 3 / 2 + unlucky
    }

    /// What every CPU does.
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

    /// One turn of a process; says whether that was its last.
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

    /// Everything goes back, here or, if it has time for that, on another CPU.
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
