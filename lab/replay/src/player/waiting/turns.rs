//! Turns of tasks: requests that take time are issued, wait, and get their answer, and then their tasks catch up.
//!
//! A request that stalled in the recording is issued at the time at which it began to stall. Its event was recorded
//! when it had its page, and finds the request answered or under way. A task with a request under way does nothing
//! else; its next actions wait in its queue. Afterwards the task catches up without delay: the work between two of its
//! events is assumed to be done while the task is late.

use std::cmp::Reverse;

use freehold::base::{CpuId, Gfp, Order};

use super::super::super::Pacing;
use super::super::super::schedule::{Answer, Outcome, Request, Ticket};
use super::super::super::survey::{Stall, Work};
use super::super::serve::MEMALLOC;
use super::super::{Consequences, Player};
use super::{Claim, Next, Owner, Release, Reply, UnderWay};
use crate::report::course::{StallTimes, Stalls};

impl Player<'_, '_> {
    /// Handles the start of a recorded stall: issues the request to the engine now. Does not issue it if its task is
    /// late, its flags are impossible, or it repeats a request for a huge page that the engine served.
    pub(crate) fn begin_stalled(&mut self, stall: &Stall, time: u64, cpu: CpuId) {
        let Some((gfp, order)) = self.adjust_request(stall.gfp, stall.order) else { return };
        let Some(waiting) = self.waiting() else { return };
        if waiting.late.contains_key(&stall.task) {
            waiting.began.insert(stall.end, time);
            return;
        }
        if stall.failed && self.will_repeat(stall.task, gfp, order) {
            return;
        }
        let Consequences::Model(model) = &mut self.consequences else { return };
        match model.schedule.ask(time, Request { gfp, order, cpu, row: stall.end }) {
            Outcome::Now(answer) => {
                model.waiting.answered.insert(stall.end, Reply::immediate(answer));
            }
            Outcome::Later(ticket) => {
                model.waiting.begin(ticket, time, stall.end, order);
                model.waiting.begun.insert(stall.end, ticket);
            }
        }
    }

    /// Issues a task's request, or queues it behind the actions for which the task waits.
    pub(crate) fn take_turn(&mut self, mut claim: Claim) {
        let paces = self.options.pacing == Pacing::Work;
        if let Some(waiting) = self.waiting().filter(|_| paces)
            && let Some(late) = waiting.late.get_mut(&claim.task)
        {
            claim.is_queued = true;
            late.queue.push_back(Next::Ask(claim));
            let is_first = late.queue.len() == 1;
            waiting.wait_for(&claim);
            if is_first {
                waiting.plan_next(claim.task, claim.time);
            }
            return;
        }
        self.issue(claim, claim.time);
    }

    /// Returns the answer to a request; `None` if the request is under way and its answer will be delivered later.
    pub(crate) fn answer_to(&mut self, claim: Claim, time: u64) -> Option<Reply> {
        let Claim { task, gfp, order, row, work, .. } = claim;
        let model = match &mut self.consequences {
            // The recorded compaction is played, and the engine's own would be added to it. Without the I/O flag, the
            // engine does not compact for the request.
            Consequences::Recorded(_) => return Some(Reply::immediate(self.engine.alloc_pages(gfp - Gfp::IO, order))),
            // A task that reclaims or compacts does not start reclaim or compaction for this request, and may use all
            // reserves.
            Consequences::Model(_) if work != Work::Own => {
                return Some(Reply::immediate(self.ask_as(MEMALLOC, gfp, order)));
            }
            Consequences::Model(model) => model,
        };
        if let Some(answered) = model.waiting.answered.remove(&row) {
            return Some(answered);
        }
        let ticket = match model.waiting.begun.remove(&row) {
            Some(ticket) => ticket,
            None => match model.schedule.ask(time, claim.request()) {
                Outcome::Now(answer) => return Some(Reply::immediate(answer)),
                Outcome::Later(ticket) => {
                    model.waiting.begin(ticket, time, row, order);
                    ticket
                }
            },
        };
        let waiting = &mut model.waiting;
        let owner = Owner::Claim(Claim { is_queued: true, ..claim });
        waiting.under_way.get_mut(&ticket).expect("an unanswered request is under way").fate = owner;
        if !claim.is_queued {
            waiting.wait_for(&claim);
        }
        waiting.late.entry(task).or_default().waits = true;
        None
    }

    /// Handles a request whose task already has the memory, or whose frames cannot be mapped: a block that was
    /// requested before the event is freed.
    pub(crate) fn abandon(&mut self, row: u64, order: Order) {
        let Some(waiting) = self.waiting() else { return };
        if let Some(ticket) = waiting.begun.remove(&row) {
            waiting.under_way.get_mut(&ticket).expect("an unanswered request is under way").fate = Owner::Nobody;
        }
        if let Some(Reply { answer: Ok(pfn), .. }) = waiting.answered.remove(&row) {
            self.give_back(pfn, order);
        }
    }

    /// Runs all work until `time`, and delivers the answers that are ready by then.
    pub(crate) fn work_until(&mut self, time: u64) {
        while let Consequences::Model(model) = &mut self.consequences {
            let turn = model.waiting.turns.peek().map_or(u64::MAX, |&Reverse((due, ..))| due);
            if let Some((ticket, answer, at)) = model.schedule.next_until(time.min(turn)) {
                self.deliver(ticket, answer, at);
            } else if turn <= time {
                self.go_on(turn);
            } else {
                return;
            }
        }
    }

    /// Performs the next queued action of the late task whose turn is next.
    fn go_on(&mut self, now: u64) {
        let Some(waiting) = self.waiting() else { return };
        let Some(Reverse((_, _, task))) = waiting.turns.pop() else { return };
        let Some(late) = waiting.late.get_mut(&task) else { return };
        match late.queue.pop_front() {
            Some(Next::Ask(claim)) => {
                waiting.began.remove(&claim.row);
                self.issue(claim, now);
            }
            Some(Next::Free(Release { tenant, order, cpu, .. })) => {
                self.engine.platform().run_on(cpu);
                let entry = self.memory().identity.get(tenant);
                if let Some(entry) = entry {
                    self.free_tenant(tenant, entry, order, cpu);
                }
            }
            None => return,
        }
        if let Some(waiting) = self.waiting() {
            waiting.plan_next(task, now);
        }
    }

    /// After the last event, finishes all requests under way and all queued actions of late tasks.
    pub(crate) fn work_to_end(&mut self) {
        while let Consequences::Model(model) = &mut self.consequences {
            if let Some((ticket, answer, at)) = model.schedule.next_at_last() {
                self.deliver(ticket, answer, at);
            } else if let Some(&Reverse((turn, ..))) = model.waiting.turns.peek() {
                self.go_on(turn);
            } else {
                return;
            }
        }
    }

    /// Delivers an answer to its request.
    fn deliver(&mut self, ticket: Ticket, answer: Answer, at: u64) {
        let Some(waiting) = self.waiting() else { return };
        let UnderWay { since, end, order, fate } =
            waiting.under_way.remove(&ticket).expect("an answer belongs to a request under way");
        let ns = at.saturating_sub(since);
        waiting.stalled.push(ns);
        if let Ok(pfn) = answer {
            self.memory().identity.touched().touch(pfn.raw(), order.pages());
        }
        let answered = Reply { answer, stalled: Some(ns) };
        let claim = match (fate, answer) {
            (Owner::Claim(claim), _) => claim,
            (Owner::ToCome, _) => {
                let Some(waiting) = self.waiting() else { return };
                waiting.begun.remove(&end);
                waiting.answered.insert(end, answered);
                return;
            }
            (Owner::Nobody, Ok(pfn)) => return self.give_back(pfn, order),
            (Owner::Nobody, Err(_)) => return,
        };
        let Some(waiting) = self.waiting() else { return };
        if let Some(late) = waiting.late.get_mut(&claim.task) {
            late.waits = false;
            waiting.lateness.insert(claim.task, at.saturating_sub(claim.time));
        }
        // A second request lets the task wait again.
        self.serve(claim, answered, at);
        let Some(waiting) = self.waiting() else { return };
        waiting.plan_next(claim.task, at);
    }

    /// Returns the stall times of requests; `None` if requests take no time.
    pub(crate) fn stalls(&self) -> Option<Stalls> {
        let Consequences::Model(model) = &self.consequences else { return None };
        let recorded = self.survey.stalls.iter().map(Stall::ns).collect();
        let recorded = StallTimes::from_stalls(recorded);
        let replayed = StallTimes::from_stalls(model.waiting.stalled.clone());
        let later_at_least = model.waiting.lateness.values().copied().max().unwrap_or(0);
        let later_at_most = replayed.total as i64 - recorded.total as i64;
        let takes_time = self.options.pacing == Pacing::Work;
        takes_time.then_some(Stalls { recorded, replayed, later_at_least, later_at_most })
    }
}
