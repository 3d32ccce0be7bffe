//! Processing of a request: the claim, the check whether the task already has the memory, the engine's answer, and its
//! consequences.
//!
//! Where the answer differs from the recording, the replay continues with the recorded course. A success that the
//! engine refuses is made up of single pages. A failure that the engine serves is kept for the task, which would have
//! requested less next, or is freed.

use freehold::base::{CpuId, Gfp, Order};
use freehold::page::AllocError;
use freehold::platform::{Context, Task};

use super::super::identity::Tenant;
use super::super::schedule::Answer;
use super::super::{HUGE, ProbeCounts};
use super::held::is_huge;
use super::model::Cache;
use super::waiting::{Claim, Reply};
use super::{Consequences, Player};
use crate::report::course::Fate;

/// A task in reclaim (`PF_MEMALLOC`).
pub(crate) const MEMALLOC: Task = Task { memalloc: true, oom_victim: false, realtime: false, context: Context::Task };

impl Player<'_, '_> {
    /// Requests the claimed memory from the engine, unless the task already has it.
    pub(super) fn issue(&mut self, claim: Claim, now: u64) {
        self.engine.platform().run_on(claim.cpu);
        if self.has_it(claim) {
            self.failures.note(&claim, true);
            self.abandon(claim.row, claim.order);
        } else if let Some(answered) = self.answer_to(claim, now) {
            self.serve(claim, answered);
        }
    }

    /// Returns whether a task already has the claimed memory, in a block for a request that failed in the recording, or
    /// would not repeat its request.
    fn has_it(&mut self, claim: Claim) -> bool {
        let Claim { task, gfp, order, cpu, .. } = claim;
        let is_gone = self.is_gone(&claim);
        if !is_gone && self.has_kept(claim) {
            self.take_freed(&claim);
            self.tally.not_retried += 1;
            return true;
        }
        let Some(recorded) = claim.recorded else {
            let repeats = is_huge(gfp, order) && self.repeats_huge(task);
            self.tally.not_repeated += u64::from(repeats);
            return repeats;
        };
        // Memory that was freed while its task was late is still requested and freed, so that the request takes its
        // time.
        let found = !is_gone && self.find_in_huge(task, gfp, order, recorded, cpu);
        if found {
            self.take_freed(&claim);
            self.tally.found_in_huge += 1;
        }
        found
    }

    /// Applies the engine's answer to a request.
    pub(super) fn serve(&mut self, claim: Claim, Reply { answer, stalled }: Reply) {
        let Claim { gfp, order, cpu, row, .. } = claim;
        let served = stalled.map_or(Fate::Served, |ns| Fate::Stalled { ns });
        self.decision_log.note(&claim, if answer.is_ok() { served } else { Fate::Refused });
        let Some(recorded) = claim.recorded else {
            self.failures.note(&claim, answer.is_ok());
            return self.conclude(claim, answer);
        };
        let (pages, is_gone) = (order.pages() as usize, self.is_gone(&claim));
        let freed = self.take_freed(&claim);
        self.engine.platform().run_on(cpu);
        let answer = answer.or_else(|_| self.ask_below_watermark(gfp, order));
        self.failures.note(&claim, answer.is_ok());
        match answer {
            Ok(pfn) => {
                self.tally.huge_served += u64::from(order.get() == HUGE);
                if is_gone {
                    return self.serve_partly(claim, pfn, &freed);
                }
                self.memory().identity.set(recorded, pfn, pages, Some(cpu));
                self.settle(recorded, order, row, Cache::of_request(gfp));
            }
            Err(_) => {
                self.tally.failed += 1;
                let alive = self.tenants_of(&claim, &freed);
                let missing = self.make_up(alive.into_iter().flatten(), gfp, cpu);
                self.miss(missing, claim.time, claim.task);
            }
        }
    }

    /// Issues a request as this task.
    pub(super) fn ask_as(&self, task: Task, gfp: Gfp, order: Order) -> Answer {
        self.engine.platform().run_as(task);
        let served = self.engine.alloc_pages(gfp, order);
        self.engine.platform().run_as(Task::default());
        served
    }

    /// Repeats a refused request without watermarks, if the recorded kernel served it and it might have reclaimed.
    /// Under [`ReclaimMode::Recorded`](crate::ReclaimMode::Recorded), recorded reclaim cannot respond to a shortage in
    /// the engine, as the recorded kernel's reclaim did. Under [`ReclaimMode::Model`](crate::ReclaimMode::Model), only
    /// small blocks are requested again, which the kernel does not refuse either. A request that still fails lacks a
    /// free block.
    fn ask_below_watermark(&mut self, gfp: Gfp, order: Order) -> Answer {
        let is_decided_anew = matches!(self.consequences, Consequences::Model(_));
        if !gfp.contains(Gfp::DIRECT_RECLAIM) || (is_decided_anew && order > Order::COSTLY) {
            return Err(AllocError::OutOfMemory);
        }
        let served = self.ask_as(MEMALLOC, gfp - Gfp::NOMEMALLOC, order);
        self.tally.below_watermark += u64::from(served.is_ok());
        served
    }

    /// Applies the answer to a request that failed in the recording.
    fn conclude(&mut self, claim: Claim, answer: Answer) {
        let Claim { task, gfp, order, cpu, .. } = claim;
        let huge = is_huge(gfp, order);
        match answer {
            Ok(pfn) => {
                self.engine.platform().run_on(cpu);
                self.tally.huge_served += u64::from(order.get() == HUGE);
                self.tally.failures_served += 1;
                let is_kept = if huge { self.hold_huge(task, pfn) } else { self.keep(task, gfp, pfn, order) };
                if !is_kept {
                    self.give_back(pfn, order);
                }
            }
            Err(_) => {
                self.tally.failed += 1;
                self.tally.failed_in_both += 1;
            }
        }
    }

    /// Allocates single pages in place of a block that the engine refused. Returns the number of pages that could not
    /// be allocated either.
    fn make_up(&mut self, tenants: impl Iterator<Item = Tenant>, gfp: Gfp, cpu: CpuId) -> u64 {
        self.tally.made_up += 1;
        let (taken, mut missing) = (self.blocks_taken(), 0);
        for tenant in tenants {
            match self.engine.alloc_pages(gfp - Gfp::COMP, Order::ZERO) {
                Ok(pfn) => self.memory().identity.set_one(tenant, pfn, cpu),
                Err(_) => missing += 1,
            }
        }
        self.tally.made_up_blocks += self.blocks_taken() - taken;
        missing
    }

    /// Counts pages that could not be allocated for a task, and records the first time this happened.
    pub(super) fn miss(&mut self, pages: u64, time: u64, task: u32) {
        self.tally.unbacked += pages;
        if pages > 0 {
            self.out_of_memory.get_or_insert((time, task));
        }
    }

    fn blocks_taken(&self) -> u64 {
        self.engine.platform().probe_counts().zone_locked_blocks
    }
}
