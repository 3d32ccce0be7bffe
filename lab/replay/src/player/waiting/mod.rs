//! Requests that take time, and the tasks that wait for them: who waits for what, since when, and what comes next.
//!
//! [`turns`] says whose turn it is; [`awaited`] keeps the recorded frames of requests that have no page yet.

mod awaited;
mod turns;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rustc_hash::FxHashMap;

use freehold::base::{CpuId, Gfp, Order};

use super::super::identity::Tenant;
use super::super::schedule::{Answer, Request, Ticket};
use super::super::survey::Work;
use super::{Consequences, Player};

/// Who asked for what, and which recorded frames it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) task: u32,
    pub(crate) gfp: Gfp,
    pub(crate) order: Order,
    pub(crate) cpu: CpuId,
    /// Row of the recorded event.
    pub(crate) row: u64,
    /// Its time.
    pub(crate) time: u64,
    /// First recorded frame; none where the recorded kernel refused it.
    pub(crate) recorded: Option<usize>,
    /// What the task was at.
    pub(crate) work: Work,
    /// Whether it waited for its turn, and its frames are awaited since.
    pub(crate) is_queued: bool,
}

impl Claim {
    fn frames(&self) -> std::ops::Range<usize> {
        let first = self.recorded.unwrap_or(0);
        first..first + if self.recorded.is_some() { self.order.pages() as usize } else { 0 }
    }

    fn request(&self) -> Request {
        Request { gfp: self.gfp, order: self.order, cpu: self.cpu }
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
pub(crate) struct Reply {
    pub(crate) answer: Answer,
    pub(crate) stalled: Option<u64>,
}

impl Reply {
    fn immediate(answer: Answer) -> Reply {
        Reply { answer, stalled: None }
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
struct DetachedFrames {
    first: usize,
    pages: usize,
    tenant: Tenant,
}

/// All that wait.
#[derive(Debug, Default)]
pub(crate) struct WaitQueue {
    under_way: FxHashMap<Ticket, UnderWay>,
    /// Answers to requests whose events are yet to come, by the events' rows.
    answered: FxHashMap<u64, Reply>,
    /// Requests that were asked before their events, by the events' rows.
    begun: FxHashMap<u64, Ticket>,
    /// When requests of late tasks began to stall in the recording, by their events' rows.
    began: FxHashMap<u64, u64>,
    /// Rows and tasks of the requests that recorded frames wait for.
    awaited: FxHashMap<usize, (u64, u32)>,
    /// Of these requests, the frames that were freed meanwhile.
    freed: FxHashMap<u64, Vec<usize>>,
    detached: FxHashMap<u64, Vec<DetachedFrames>>,
    late: FxHashMap<u32, Late>,
    /// When late tasks go on.
    turns: BinaryHeap<Reverse<(u64, u64, u32)>>,
    numbers: u64,
    /// Nanoseconds that each request took which stalled.
    pub(crate) stalled: Vec<u64>,
    /// Nanoseconds by which tasks were late at last, by task.
    pub(crate) lateness: FxHashMap<u32, u64>,
}

impl WaitQueue {
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
    fn waiting(&mut self) -> Option<&mut WaitQueue> {
        match &mut self.consequences {
            Consequences::Model(model) => Some(&mut model.waiting),
            Consequences::Recorded(_) => None,
        }
    }
}
