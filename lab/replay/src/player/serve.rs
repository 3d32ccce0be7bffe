//! Processing of a request: the claim, the check whether the task already has the memory, the engine's answer, and its
//! consequences.
//!
//! Where the answer differs from the recording, the replay continues with the recorded course. A fault for a huge page
//! whose first request is refused makes a second one. A success that the engine refuses is made up of single pages
//! ([`make_up`](super::make_up)). A failure that the engine serves is kept for the task, which would have requested less
//! next, or is freed.

use freehold::base::{Gfp, Order};
use freehold::platform::{Context, Task};

use super::super::HUGE;
use super::super::schedule::Answer;
use super::Player;
use super::held::is_huge;
use super::waiting::{Claim, Reply};
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
            self.serve(claim, answered, now);
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
        if !is_gone && self.has_served_first(&claim, recorded) {
            self.take_freed(&claim);
            self.tally.not_repeated += 1;
            return true;
        }
        // Memory that was freed while its task was late is still requested and freed, so that the request takes its
        // time.
        let found = !is_gone && self.find_in_huge(task, gfp, order, recorded, cpu);
        if found {
            self.take_freed(&claim);
            self.tally.found_in_huge += 1;
        }
        found
    }

    /// Applies the engine's answer to a request at the time `now`.
    pub(super) fn serve(&mut self, claim: Claim, Reply { answer, stalled }: Reply, now: u64) {
        let Claim { gfp, order, cpu, row, .. } = claim;
        let served = stalled.map_or(Fate::Served, |ns| Fate::Stalled { ns });
        self.decision_log.note(&claim, if answer.is_ok() { served } else { Fate::Refused });
        self.compare_compaction(&claim, answer.is_ok());
        if let (Err(_), Some(gfp)) = (&answer, claim.second) {
            return self.ask_again(claim, gfp, now);
        }
        let Some(recorded) = claim.recorded else {
            self.failures.note(&claim, answer.is_ok());
            return self.conclude(claim, answer);
        };
        let (pages, is_gone) = (order.pages() as usize, self.is_gone(&claim));
        let freed = self.take_freed(&claim);
        self.engine.platform().run_on(cpu);
        let answer = answer.or_else(|_| self.ask_below_watermark(gfp, order));
        self.failures.note(&claim, answer.is_ok());
        self.tally.note_request(gfp, order, answer.is_ok());
        match answer {
            Ok(pfn) => {
                self.tally.huge_served += u64::from(order.get() == HUGE);
                if is_gone {
                    return self.serve_partly(claim, pfn, &freed);
                }
                self.memory().identity.set(recorded, pfn, pages, Some(cpu));
                self.settle_request(recorded, order, row, gfp);
            }
            Err(_) => {
                let alive = self.tenants_of(&claim, &freed);
                let is_whole = alive.iter().copied().eq(claim.frames().map(Some));
                let missing = self.make_up(alive.into_iter().flatten(), gfp, cpu);
                if is_whole && missing == 0 {
                    self.memory().identity.mark_split(recorded);
                    self.settle_request(recorded, order, row, gfp);
                }
                self.miss(missing, gfp, claim.time, claim.task);
            }
        }
    }

    /// Makes the second request of a fault for a huge page, after the engine refused the first one. The recording does
    /// not have the second one, since its kernel served the first or made no second one under the recorded settings.
    fn ask_again(&mut self, first: Claim, gfp: Gfp, now: u64) {
        self.failures.note(&first, false);
        self.tally.note_request(first.gfp, first.order, false);
        self.tally.failed_in_both += u64::from(first.recorded.is_none());
        self.tally.asked_again += 1;
        let second = Claim { gfp, second: None, ..first };
        self.engine.platform().run_on(second.cpu);
        if let Some(answered) = self.answer_to(second, now) {
            self.serve(second, answered, now);
        }
    }

    /// Issues a request as this task.
    pub(super) fn ask_as(&self, task: Task, gfp: Gfp, order: Order) -> Answer {
        self.engine.platform().run_as(task);
        let served = self.engine.alloc_pages(gfp, order);
        self.engine.platform().run_as(Task::default());
        served
    }

    /// Applies the answer to a request that failed in the recording.
    fn conclude(&mut self, claim: Claim, answer: Answer) {
        let Claim { task, gfp, order, cpu, .. } = claim;
        let huge = is_huge(gfp, order);
        self.tally.note_request(gfp, order, answer.is_ok());
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
            Err(_) => self.tally.failed_in_both += 1,
        }
    }
}
