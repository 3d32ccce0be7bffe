//! Requests that take time, and the tasks that wait for them.
//!
//! [`turns`] issues requests and lets late tasks continue; [`awaited`] keeps the recorded frames of requests that have
//! no page yet.

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

/// A recorded request: the task, its parameters, and the recorded frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) task: u32,
    pub(crate) gfp: Gfp,
    pub(crate) order: Order,
    pub(crate) cpu: CpuId,
    /// Row of the recorded event.
    pub(crate) row: u64,
    /// Time of the recorded event, in nanoseconds.
    pub(crate) time: u64,
    /// First recorded frame; `None` if the recorded kernel refused the request.
    pub(crate) recorded: Option<usize>,
    /// Flags of the request that the task makes next if this one is refused.
    pub(crate) second: Option<Gfp>,
    /// Work of the task at the request.
    pub(crate) work: Work,
    /// Whether the request waited for its task's turn or for an answer, so that its frames are already awaited.
    pub(crate) is_queued: bool,
}

impl Claim {
    pub(crate) fn frames(&self) -> std::ops::Range<usize> {
        let first = self.recorded.unwrap_or(0);
        first..first + if self.recorded.is_some() { self.order.pages() as usize } else { 0 }
    }

    fn request(&self) -> Request {
        Request { gfp: self.gfp, order: self.order, cpu: self.cpu, row: self.row }
    }
}

/// A request under way.
#[derive(Debug)]
struct UnderWay {
    /// Time at which the request was issued.
    since: u64,
    /// Row of the request's event, which may be still to come.
    end: u64,
    order: Order,
    /// Owner of the result.
    fate: Owner,
}

/// Owner of the block of a request under way.
#[derive(Clone, Copy, Debug)]
enum Owner {
    /// The task of an event that is still to come.
    ToCome,
    /// The task of this claim.
    Claim(Claim),
    /// No task: the requesting task already has the memory.
    Nobody,
}

/// An answer, and the time for which its request stalled, if it did.
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

/// A task that waits or catches up.
#[derive(Debug, Default)]
struct Late {
    /// Whether the task's request is under way.
    waits: bool,
    /// Actions of the task that are due, in order.
    queue: VecDeque<Next>,
}

/// Action of a late task at its turn.
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
    /// Time at which the recorded task freed the block.
    time: u64,
}

/// Frames of a waiting request that its own task frees later. Their contents get tenants above all frames, since other
/// contents use the recorded frames from then on.
#[derive(Clone, Copy, Debug)]
struct DetachedFrames {
    first: usize,
    pages: usize,
    tenant: Tenant,
}

/// All waiting requests and late tasks.
#[derive(Debug, Default)]
pub(crate) struct WaitQueue {
    under_way: FxHashMap<Ticket, UnderWay>,
    /// Answers to requests whose events are still to come, by the events' rows.
    answered: FxHashMap<u64, Reply>,
    /// Requests that were issued before their events, by the events' rows.
    begun: FxHashMap<u64, Ticket>,
    /// Times at which requests of late tasks began to stall in the recording, by their events' rows.
    began: FxHashMap<u64, u64>,
    /// Row and task of the waiting request of each recorded frame.
    awaited: FxHashMap<usize, (u64, u32)>,
    /// Frames of waiting requests that other tasks freed in the meantime, by the rows of the requests.
    freed: FxHashMap<u64, Vec<usize>>,
    detached: FxHashMap<u64, Vec<DetachedFrames>>,
    late: FxHashMap<u32, Late>,
    /// Turns of late tasks: time, number of the turn, and task.
    turns: BinaryHeap<Reverse<(u64, u64, u32)>>,
    numbers: u64,
    /// Duration in nanoseconds of each request that stalled.
    pub(crate) stalled: Vec<u64>,
    /// Delay in nanoseconds of each late task at its last answer.
    pub(crate) lateness: FxHashMap<u32, u64>,
}

impl WaitQueue {
    fn begin(&mut self, ticket: Ticket, since: u64, end: u64, order: Order) {
        self.under_way.insert(ticket, UnderWay { since, end, order, fate: Owner::ToCome });
    }

    /// Marks the frames of a request that has no answer yet as awaited.
    fn wait_for(&mut self, claim: &Claim) {
        self.awaited.extend(claim.frames().map(|frame| (frame, (claim.row, claim.task))));
    }

    /// Schedules a task's next queued action.
    fn turn_at(&mut self, time: u64, task: u32) {
        self.numbers += 1;
        self.turns.push(Reverse((time, self.numbers, task)));
    }

    /// Schedules the next action of a late task, after it has had a turn: at once if the action is due, else at its
    /// recorded time.
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

    /// Returns the frames of a request that were freed while it waited. Its other frames are no longer awaited.
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
