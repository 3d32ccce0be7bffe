//! Requests that take time, and the tasks that wait for them.
//!
//! A request that stalled in the recording is asked when it began to stall there, and its event, which came when it had
//! its page, finds it answered or under way. A task whose request is under way does nothing else: what it does next
//! waits in its queue. Afterwards it catches up as fast as it can: what it did between two events it is taken to do
//! while it is late. Meanwhile recorded frames of such requests are *awaited*: what is freed of them goes back as soon
//! as it comes.
//!
//! What a late task frees it frees as late as that, but for ranges; others free when the recording says. A page that
//! one of them frees before the late task has it goes back as soon as it comes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rustc_hash::FxHashMap;

use freehold::base::{CpuId, Gfp, Order, Pfn};
use freehold_trace::Row;

use super::super::Pacing;
use super::super::identity::Tenant;
use super::super::schedule::{Answer, Asked, Outcome, Ticket};
use super::super::survey::{Stall, Work};
use super::serve::MEMALLOC;
use super::{Consequences, Player};
use crate::report::course::{StallTimes, Stalls};

/// Who asked for what, and which recorded frames it is for.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    pub task: u32,
    pub gfp: Gfp,
    pub order: Order,
    pub cpu: CpuId,
    /// Row of the recorded event.
    pub row: u64,
    /// Its time.
    pub time: u64,
    /// First recorded frame; none where the recorded kernel refused it.
    pub recorded: Option<usize>,
    /// What the task was at.
    pub work: Work,
    /// Whether it waited for its turn, and its frames are awaited since.
    pub is_queued: bool,
}

impl Claim {
    fn frames(&self) -> std::ops::Range<usize> {
        let first = self.recorded.unwrap_or(0);
        first..first + if self.recorded.is_some() { self.order.pages() as usize } else { 0 }
    }

    fn asked(&self) -> Asked {
        Asked { gfp: self.gfp, order: self.order, cpu: self.cpu }
    }
}

/// A request under way.
#[derive(Debug)]
struct UnderWay {
    /// When it was asked.
    since: u64,
    /// Row of its event, which may be yet to come.
    end: u64,
    order: Order,
    /// Whose it is.
    fate: Owner,
}

/// Who gets the block of a request under way.
#[derive(Clone, Copy, Debug)]
enum Owner {
    /// The task of an event that is yet to come.
    ToCome,
    /// This one.
    Claim(Claim),
    /// Nobody: the task has it already.
    Nobody,
}

/// An answer, and how long its request stalled, if it did.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    pub answer: Answer,
    pub stalled: Option<u64>,
}

impl Answered {
    fn at_once(answer: Answer) -> Answered {
        Answered { answer, stalled: None }
    }
}

/// A task that waits, or catches up.
#[derive(Debug, Default)]
struct Late {
    /// Its request is under way.
    waits: bool,
    /// What it does next.
    queue: VecDeque<Next>,
}

/// What a late task does when its turn comes.
#[derive(Clone, Copy, Debug)]
enum Next {
    Ask(Claim),
    Free(Release),
}

/// A block that a late task frees.
#[derive(Clone, Copy, Debug)]
struct Release {
    tenant: Tenant,
    order: Order,
    cpu: CpuId,
    /// When the recorded task freed it.
    time: u64,
}

/// Frames of a request that waits, which its own task frees later: from then on others stand for them.
#[derive(Clone, Copy, Debug)]
struct Detached {
    first: usize,
    pages: usize,
    tenant: Tenant,
}

/// All that wait.
#[derive(Debug, Default)]
pub struct Waiting {
    under_way: FxHashMap<Ticket, UnderWay>,
    /// Answers to requests whose events are yet to come, by the events' rows.
    answered: FxHashMap<u64, Answered>,
    /// Requests that were asked before their events, by the events' rows.
    begun: FxHashMap<u64, Ticket>,
    /// When requests of late tasks began to stall in the recording, by their events' rows.
    began: FxHashMap<u64, u64>,
    /// Rows and tasks of the requests that recorded frames wait for.
    awaited: FxHashMap<usize, (u64, u32)>,
    /// Of these requests, the frames that were freed meanwhile.
    freed: FxHashMap<u64, Vec<usize>>,
    detached: FxHashMap<u64, Vec<Detached>>,
    late: FxHashMap<u32, Late>,
    /// When late tasks go on.
    turns: BinaryHeap<Reverse<(u64, u64, u32)>>,
    numbers: u64,
    /// Nanoseconds that each request took which stalled.
    pub stalled: Vec<u64>,
    /// Nanoseconds by which tasks were late at last, by task.
    pub lateness: FxHashMap<u32, u64>,
}

impl Waiting {
    fn begin(&mut self, ticket: Ticket, since: u64, end: u64, order: Order) {
        self.under_way.insert(ticket, UnderWay { since, end, order, fate: Owner::ToCome });
    }

    /// Frames of a request that has no answer yet.
    fn wait_for(&mut self, claim: &Claim) {
        self.awaited.extend(claim.frames().map(|frame| (frame, (claim.row, claim.task))));
    }

    /// A task goes on with what is next in its queue.
    fn turn_at(&mut self, time: u64, task: u32) {
        self.numbers += 1;
        self.turns.push(Reverse((time, self.numbers, task)));
    }

    /// A late task has had its turn: the next one comes at once if it is due, else when the recording says.
    fn plan_next(&mut self, task: u32, now: u64) {
        let Some(late) = self.late.get(&task).filter(|late| !late.waits) else { return };
        match late.queue.front().copied() {
            Some(Next::Ask(Claim { row, time, .. })) => {
                let base = self.began.get(&row).copied().unwrap_or(time);
                self.turn_at(now.max(base), task);
            }
            Some(Next::Free(Release { time, .. })) => self.turn_at(now.max(time), task),
            None => _ = self.late.remove(&task),
        }
    }

    /// The frames of a request that were freed while it waited. None of the others is awaited any longer.
    fn take_freed(&mut self, claim: &Claim) -> Vec<usize> {
        if !self.awaited.is_empty() {
            for frame in claim.frames() {
                if self.awaited.get(&frame).is_some_and(|&(row, _)| row == claim.row) {
                    self.awaited.remove(&frame);
                }
            }
        }
        self.freed.remove(&claim.row).unwrap_or_default()
    }
}

impl Player<'_, '_> {
    fn waiting(&mut self) -> Option<&mut Waiting> {
        match &mut self.consequences {
            Consequences::Decided(decided) => Some(&mut decided.waiting),
            Consequences::Played(_) => None,
        }
    }

    /// A recorded request begins to stall here: the engine is asked now, unless its task is late.
    pub(super) fn begin_stalled(&mut self, stall: &Stall, time: u64, cpu: CpuId) {
        let Some((gfp, order)) = self.asked(stall.gfp, stall.order) else { return };
        let Some(waiting) = self.waiting() else { return };
        if waiting.late.contains_key(&stall.task) {
            waiting.began.insert(stall.end, time);
            return;
        }
        if stall.failed && self.will_repeat(stall.task, gfp, order) {
            return;
        }
        let Consequences::Decided(decided) = &mut self.consequences else { return };
        match decided.schedule.ask(time, Asked { gfp, order, cpu }) {
            Outcome::Now(answer) => {
                decided.waiting.answered.insert(stall.end, Answered::at_once(answer));
            }
            Outcome::Later(ticket) => {
                decided.waiting.begin(ticket, time, stall.end, order);
                decided.waiting.begun.insert(stall.end, ticket);
            }
        }
    }

    /// A task asks: at once, or after what it waits for.
    pub(super) fn take_turn(&mut self, mut claim: Claim) {
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

    /// The answer to a request; none if it is under way, and will be served when it comes.
    pub(super) fn answer_to(&mut self, claim: Claim, time: u64) -> Option<Answered> {
        let Claim { task, gfp, order, row, work, .. } = claim;
        let decided = match &mut self.consequences {
            // The recorded compaction is played: the engine's own would come on top, and leaves requests without I/O
            // alone.
            Consequences::Played(_) => return Some(Answered::at_once(self.engine.alloc_pages(gfp - Gfp::IO, order))),
            // It does not begin to reclaim or compact for this request as well, and may use all reserves.
            Consequences::Decided(_) if work != Work::Own => {
                return Some(Answered::at_once(self.ask_as(MEMALLOC, gfp, order)));
            }
            Consequences::Decided(decided) => decided,
        };
        if let Some(answered) = decided.waiting.answered.remove(&row) {
            return Some(answered);
        }
        let ticket = match decided.waiting.begun.remove(&row) {
            Some(ticket) => ticket,
            None => match decided.schedule.ask(time, claim.asked()) {
                Outcome::Now(answer) => return Some(Answered::at_once(answer)),
                Outcome::Later(ticket) => {
                    decided.waiting.begin(ticket, time, row, order);
                    ticket
                }
            },
        };
        let waiting = &mut decided.waiting;
        waiting.under_way.get_mut(&ticket).expect("it is under way").fate = Owner::Claim(claim);
        if !claim.is_queued {
            waiting.wait_for(&claim);
        }
        waiting.late.entry(task).or_default().waits = true;
        None
    }

    /// The task of an event has what it asks for, or nobody can have it: what was asked before the event goes back.
    pub(super) fn abandon(&mut self, row: u64, order: Order) {
        let Some(waiting) = self.waiting() else { return };
        if let Some(ticket) = waiting.begun.remove(&row) {
            waiting.under_way.get_mut(&ticket).expect("it is under way").fate = Owner::Nobody;
        }
        if let Some(Answered { answer: Ok(pfn), .. }) = waiting.answered.remove(&row) {
            self.give_back(pfn, order);
        }
    }

    /// Lets everybody work until `time`, and serves those who have their answer by then.
    pub(super) fn work_until(&mut self, time: u64) {
        while let Consequences::Decided(decided) = &mut self.consequences {
            let turn = decided.waiting.turns.peek().map_or(u64::MAX, |&Reverse((due, ..))| due);
            if let Some((ticket, answer, at)) = decided.schedule.next_until(time.min(turn)) {
                self.answered(ticket, answer, at);
            } else if turn <= time {
                self.go_on(turn);
            } else {
                return;
            }
        }
    }

    /// The next late task asks for what is next.
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

    /// After the last event, serves everybody who is under way, and what late tasks still ask for.
    pub(super) fn work_to_end(&mut self) {
        while let Consequences::Decided(decided) = &mut self.consequences {
            if let Some((ticket, answer, at)) = decided.schedule.next_at_last() {
                self.answered(ticket, answer, at);
            } else if let Some(&Reverse((turn, ..))) = decided.waiting.turns.peek() {
                self.go_on(turn);
            } else {
                return;
            }
        }
    }

    /// A request has its answer, at this time.
    fn answered(&mut self, ticket: Ticket, answer: Answer, at: u64) {
        let Some(waiting) = self.waiting() else { return };
        let UnderWay { since, end, order, fate } = waiting.under_way.remove(&ticket).expect("it was asked");
        let ns = at.saturating_sub(since);
        waiting.stalled.push(ns);
        let answered = Answered { answer, stalled: Some(ns) };
        let claim = match (fate, answer) {
            (Owner::Claim(claim), _) => claim,
            (Owner::ToCome, _) => {
                waiting.begun.remove(&end);
                waiting.answered.insert(end, answered);
                return;
            }
            (Owner::Nobody, Ok(pfn)) => return self.give_back(pfn, order),
            (Owner::Nobody, Err(_)) => return,
        };
        self.serve(claim, answered);
        let Some(waiting) = self.waiting() else { return };
        if let Some(late) = waiting.late.get_mut(&claim.task) {
            late.waits = false;
            waiting.lateness.insert(claim.task, at.saturating_sub(claim.time));
        }
        waiting.plan_next(claim.task, at);
    }

    /// Whether frames of a request were freed while it waited.
    pub(super) fn is_gone(&mut self, claim: &Claim) -> bool {
        let is_in =
            |waiting: &mut Waiting| waiting.freed.contains_key(&claim.row) || waiting.detached.contains_key(&claim.row);
        self.waiting().is_some_and(is_in)
    }

    /// Whether a block is freed by a late task, which does so when its turn comes. From now on its recorded frames may
    /// stand for something else.
    pub(super) fn frees_late(&mut self, row: &Row, order: Order, cpu: CpuId) -> bool {
        let (first, pages) = (row.pfn as usize, order.pages() as usize);
        let Consequences::Decided(decided) = &mut self.consequences else { return false };
        let waiting = &mut decided.waiting;
        if !waiting.late.contains_key(&row.task) {
            return false;
        }
        let mut memory = self.engine.platform().memory();
        let awaited: Vec<_> = (first..first + pages).filter_map(|frame| waiting.awaited.get(&frame).copied()).collect();
        // What another task asked for is freed as soon as that has it.
        let is_own = awaited.iter().all(|&(number, task)| (number, task) == (awaited[0].0, row.task));
        let tenant = if awaited.len() == pages && is_own {
            (first..first + pages).for_each(|frame| _ = waiting.awaited.remove(&frame));
            let tenant = memory.identity.reserve(pages);
            waiting.detached.entry(awaited[0].0).or_default().push(Detached { first, pages, tenant });
            tenant
        } else if awaited.is_empty() && (first..first + pages).all(|frame| memory.identity.get(frame).is_some()) {
            memory.move_out(first, pages)
        } else {
            return false;
        };
        drop(memory);
        let late = waiting.late.get_mut(&row.task).expect("it was just found");
        late.queue.push_back(Next::Free(Release { tenant, order, cpu, time: row.time }));
        if late.queue.len() == 1 {
            waiting.plan_next(row.task, row.time);
        }
        true
    }

    /// How long requests stalled; none where they take no time.
    pub fn stalls(&self) -> Option<Stalls> {
        let Consequences::Decided(decided) = &self.consequences else { return None };
        let recorded = self.survey.stalls.iter().map(Stall::ns).collect();
        let recorded = StallTimes::of(recorded);
        let replayed = StallTimes::of(decided.waiting.stalled.clone());
        let later_at_least = decided.waiting.lateness.values().copied().max().unwrap_or(0);
        let later_at_most = replayed.total as i64 - recorded.total as i64;
        let takes_time = self.options.pacing == Pacing::Work;
        takes_time.then_some(Stalls { recorded, replayed, later_at_least, later_at_most })
    }

    /// Frames of a request that were freed while it waited; none of them is awaited any longer.
    pub(super) fn take_freed(&mut self, claim: &Claim) -> Vec<usize> {
        self.waiting().map(|waiting| waiting.take_freed(claim)).unwrap_or_default()
    }

    /// Frees a block of which some frames are for requests that wait. `false`, and nothing happened, if none is.
    pub(super) fn frees_before_its_time(&mut self, recorded: usize, pages: usize) -> bool {
        if self.waiting().is_none_or(|waiting| waiting.awaited.is_empty()) {
            return false;
        }
        let there: Vec<usize> = (recorded..recorded + pages).filter(|&frame| !self.frees_awaited(frame)).collect();
        let is_partly = there.len() < pages;
        if is_partly {
            there.into_iter().for_each(|frame| self.free_page(frame));
        }
        is_partly
    }

    /// Whether a recorded frame is for a request that waits. If so, it is free from now on as soon as the request has
    /// it.
    pub(super) fn frees_awaited(&mut self, recorded: usize) -> bool {
        let Some(waiting) = self.waiting().filter(|waiting| !waiting.awaited.is_empty()) else { return false };
        let Some((row, _)) = waiting.awaited.remove(&recorded) else { return false };
        waiting.freed.entry(row).or_default().push(recorded);
        true
    }

    /// The block of a request stands for its recorded frames, but for those that were freed while it waited.
    pub(super) fn serve_partly(&mut self, claim: Claim, pfn: Pfn, freed: &[usize]) {
        self.engine.platform().run_on(claim.cpu);
        if freed.len() == claim.frames().len() {
            return self.give_back(pfn, claim.order);
        }
        for (page, tenant) in (0..).zip(self.tenants_of(&claim, freed)) {
            let here = pfn.offset(page);
            if let Some(tenant) = tenant {
                self.memory().identity.set_one(tenant, here, claim.cpu);
            } else {
                self.cut(pfn, claim.order, Order::ZERO);
                self.give_back(here, Order::ZERO);
            }
        }
    }

    /// Who stands for each page of a request by now; nobody for those that were freed while it waited.
    pub(super) fn tenants_of(&mut self, claim: &Claim, freed: &[usize]) -> Vec<Option<Tenant>> {
        let detached = self.waiting().and_then(|waiting| waiting.detached.remove(&claim.row)).unwrap_or_default();
        let tenant = |frame: usize| {
            let other = detached.iter().find(|other| (other.first..other.first + other.pages).contains(&frame));
            other.map_or(frame, |other| other.tenant + frame - other.first)
        };
        claim.frames().map(|frame| (!freed.contains(&frame)).then(|| tenant(frame))).collect()
    }
}
