//! Who runs when: requests that reclaim or compact, kswapd and kcompactd, each on a fiber of its own.
//!
//! Work takes time: so long a page that is looked at, so long a page that is moved, as the recorded machine took
//! ([`Costs`](super::platform::Costs)). Whoever has worked sleeps until that time is over, and meanwhile the recording
//! goes on, other requests find memory as it is by then, and may stall beside it. kswapd and kcompactd are woken by the
//! engine's own decision, as long after it as the recorded ones, and wait where the recorded kswapd waited ([`Pace`]).
//!
//! Under [`Pacing::Recorded`] requests take no time, as if each were alone on a machine without end.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use freehold::base::{CpuId, Gfp, NodeId, Order, Pfn};
use freehold::page::{AllocError, Background};
use freehold::platform::probe::Compactor;
use freehold_fiber::Fiber;

use super::survey::Pace;
use super::{Engine, Pacing};

/// Nanoseconds between two looks of kcompactd at fragmentation. linux: mm/compaction.c:kcompactd
const LOOK: u64 = 500_000_000;
/// Nanoseconds without an event of which no more is worth looking at.
const IDLE_MAX: u64 = 60_000_000_000;
/// Nanoseconds that a pass of kswapd takes at least, so that one which finds nothing to look at takes its time too.
const PASS_MIN: u64 = 10_000;

/// A request, as it is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) gfp: Gfp,
    pub(crate) order: Order,
    pub(crate) cpu: CpuId,
}

/// What a fiber works on.
#[derive(Clone, Copy, Debug)]
enum Job {
    Request(Request),
    Kswapd(NodeId),
    Kcompactd(NodeId),
    /// kcompactd looks whether there is something to do unasked.
    Look(NodeId),
}

/// Number of a request that takes time.
pub(crate) type Ticket = usize;
/// The engine's answer.
pub(crate) type Answer = Result<Pfn, AllocError>;

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It has its answer.
    Now(Answer),
    /// It is under way.
    Later(Ticket),
}

/// A fiber, and what passes between it and the schedule.
struct Worker<'e> {
    fiber: Fiber<'e>,
    desk: Rc<Desk>,
}

#[derive(Default)]
struct Desk {
    job: Cell<Option<Job>>,
    result: Cell<Option<JobResult>>,
}

/// How a job ended.
#[derive(Clone, Copy, Debug)]
enum JobResult {
    Request(Answer),
    Background,
}

/// All fibers.
pub(crate) struct Schedule<'e, 'm> {
    engine: &'e Engine<'m>,
    pacing: Pacing,
    workers: Vec<Worker<'e>>,
    idle: Vec<Ticket>,
    /// Who goes on when: time, a number that keeps their order, worker.
    sleeping: BinaryHeap<Reverse<(u64, u64, Ticket)>>,
    numbers: u64,
    /// Whether each node's kswapd, or kcompactd, is at work.
    kswapd: Vec<bool>,
    kcompactd: Vec<bool>,
    waits: Vec<Vec<(u64, u64)>>,
    wake_latency: u64,
    next_look: u64,
    /// When somebody last worked: when those that were woken since were woken.
    clock: u64,
}

impl<'e, 'm> Schedule<'e, 'm> {
    /// Nobody works.
    pub(crate) fn new(engine: &'e Engine<'m>, pace: &Pace, pacing: Pacing) -> Schedule<'e, 'm> {
        let nodes = usize::from(engine.nodes());
        Schedule {
            engine,
            pacing,
            workers: Vec::new(),
            idle: Vec::new(),
            sleeping: BinaryHeap::new(),
            numbers: 0,
            kswapd: vec![false; nodes],
            kcompactd: vec![false; nodes],
            waits: pace.waits.clone(),
            wake_latency: pace.wake_latency,
            next_look: LOOK,
            clock: 0,
        }
    }

    /// Asks for a block; what may have to wait does so on a fiber.
    pub(crate) fn ask(&mut self, now: u64, request: Request) -> Outcome {
        let stage = self.engine.platform();
        stage.run_on(request.cpu);
        self.clock = now;
        if self.pacing == Pacing::Recorded || !request.gfp.contains(Gfp::DIRECT_RECLAIM) {
            return Outcome::Now(self.engine.alloc_pages(request.gfp, request.order));
        }
        let ticket = self.hire(Job::Request(request));
        match self.go_on(now, ticket) {
            Some(JobResult::Request(answer)) => Outcome::Now(answer),
            Some(JobResult::Background) => unreachable!("a request has an answer"),
            None => Outcome::Later(ticket),
        }
    }

    /// Lets everybody go on until `time`; the first request that gets its answer by then, and when. To be called until
    /// nobody does.
    #[inline]
    pub(crate) fn next_until(&mut self, time: u64) -> Option<(Ticket, Answer, u64)> {
        let stage = self.engine.platform();
        let is_quiet = self.sleeping.peek().is_none_or(|&Reverse((due, ..))| due > time);
        if is_quiet && self.next_look > time && stage.kswapds().get() | stage.kcompactds().get() == 0 {
            return None;
        }
        self.work_until(time)
    }

    /// After the last event: the first request that is still under way gets its answer, however long that takes; and
    /// when. Background tasks stay where they are.
    pub(crate) fn next_at_last(&mut self) -> Option<(Ticket, Answer, u64)> {
        self.sleeping
            .retain(|&Reverse((.., ticket))| matches!(self.workers[ticket].desk.job.get(), Some(Job::Request(_))));
        while let Some(Reverse((due, _, ticket))) = self.sleeping.pop() {
            if let Some(JobResult::Request(answer)) = self.go_on(due, ticket) {
                return Some((ticket, answer, due));
            }
        }
        None
    }

    #[cold]
    fn work_until(&mut self, time: u64) -> Option<(Ticket, Answer, u64)> {
        self.next_look = self.next_look.max(time.saturating_sub(IDLE_MAX));
        loop {
            self.start_daemons();
            let due = self.sleeping.peek().map_or(u64::MAX, |&Reverse((due, ..))| due);
            if due.min(self.next_look) > time {
                return None;
            }
            if self.next_look <= due {
                self.look();
                continue;
            }
            let Reverse((due, _, ticket)) = self.sleeping.pop().expect("it was just looked at");
            if let Some(JobResult::Request(answer)) = self.go_on(due, ticket) {
                return Some((ticket, answer, due));
            }
        }
    }

    /// kcompactd of each node looks unasked, twice a second, if it does not work.
    fn look(&mut self) {
        let now = self.next_look;
        self.next_look += LOOK;
        for node in 0..self.engine.nodes() {
            if !self.kcompactd[usize::from(node)] {
                self.kcompactd[usize::from(node)] = true;
                self.begin(now, Job::Look(NodeId(node)));
            }
        }
    }

    /// Those that the engine woke begin as long after it as recorded ones did.
    fn start_daemons(&mut self) {
        let now = self.clock;
        let stage = self.engine.platform();
        for node in 0..self.engine.nodes() {
            let (at, bit) = (usize::from(node), 1_u64 << node);
            if stage.kswapds().get() & bit != 0 && !self.kswapd[at] {
                self.kswapd[at] = true;
                self.begin(now + self.wake_latency, Job::Kswapd(NodeId(node)));
            }
            if stage.kcompactds().get() & bit != 0 && !self.kcompactd[at] {
                self.kcompactd[at] = true;
                self.begin(now, Job::Kcompactd(NodeId(node)));
            }
        }
    }

    fn begin(&mut self, at: u64, job: Job) {
        let ticket = self.hire(job);
        self.sleep(at, job, ticket);
    }

    /// A worker for a job.
    fn hire(&mut self, job: Job) -> Ticket {
        let ticket = self.idle.pop().unwrap_or_else(|| {
            self.workers.push(Worker::new(self.engine));
            self.workers.len() - 1
        });
        self.workers[ticket].desk.job.set(Some(job));
        ticket
    }

    /// Lets a worker go on; how its job ended, if it did.
    fn go_on(&mut self, now: u64, ticket: Ticket) -> Option<JobResult> {
        self.clock = now;
        let worker = &mut self.workers[ticket];
        let job = worker.desk.job.get().expect("a worker that goes on has a job");
        let has_ended = worker.fiber.resume();
        debug_assert!(!has_ended, "a worker waits for the next job");
        if let Some(result) = worker.desk.result.take() {
            self.idle.push(ticket);
            match job {
                Job::Request(_) => {}
                Job::Kswapd(node) => self.kswapd[usize::from(node.0)] = false,
                Job::Kcompactd(node) | Job::Look(node) => self.kcompactd[usize::from(node.0)] = false,
            }
            return Some(result);
        }
        let ns = self.engine.platform().meter().take_sleep();
        self.sleep(now + ns, job, ticket);
        None
    }

    fn sleep(&mut self, until: u64, job: Job, ticket: Ticket) {
        let due = match job {
            Job::Kswapd(node) => self.after_wait(usize::from(node.0), until),
            Job::Request(_) | Job::Kcompactd(_) | Job::Look(_) => until,
        };
        self.numbers += 1;
        self.sleeping.push(Reverse((due, self.numbers, ticket)));
    }

    /// When a node's kswapd goes on, if it would at `time`: later if it has to wait then.
    fn after_wait(&self, node: usize, time: u64) -> u64 {
        let Some(waits) = self.waits.get(node) else { return time };
        let next = waits.partition_point(|&(_, until)| until <= time);
        waits.get(next).filter(|&&(from, _)| from <= time).map_or(time, |&(_, until)| until)
    }
}

impl<'e> Worker<'e> {
    fn new(engine: &'e Engine<'_>) -> Worker<'e> {
        let desk = Rc::new(Desk::default());
        let own = desk.clone();
        let fiber = Fiber::new(move || {
            while let Some(job) = own.job.get() {
                let result = job.run(engine);
                engine.platform().pay();
                own.result.set(Some(result));
                freehold_fiber::suspend();
            }
        });
        Worker { fiber: fiber.expect("the system has memory for a stack"), desk }
    }
}

impl Job {
    fn run(self, engine: &Engine<'_>) -> JobResult {
        let stage = engine.platform();
        stage.meter().works_as(self.compactor());
        match self {
            Job::Request(Request { gfp, order, cpu }) => {
                stage.run_on(cpu);
                return JobResult::Request(engine.alloc_pages(gfp, order));
            }
            Job::Kswapd(node) => {
                run_on_node(engine, node);
                while engine.run_kswapd(node) == Background::Working {
                    stage.owe(PASS_MIN);
                    stage.pay();
                }
                sleep_again(stage.kswapds(), node);
            }
            Job::Kcompactd(node) => compact(engine, node),
            Job::Look(node) => {
                run_on_node(engine, node);
                engine.tick_kcompactd(node);
                compact(engine, node);
            }
        }
        JobResult::Background
    }

    /// On whose behalf it compacts, if it does; kswapd never does.
    fn compactor(self) -> Compactor {
        match self {
            Job::Request(_) | Job::Kswapd(_) => Compactor::Direct,
            Job::Kcompactd(_) | Job::Look(_) => Compactor::Kcompactd,
        }
    }
}

fn compact(engine: &Engine<'_>, node: NodeId) {
    run_on_node(engine, node);
    while engine.run_kcompactd(node) == Background::Working {
        engine.platform().pay();
    }
    sleep_again(engine.platform().kcompactds(), node);
}

/// Background tasks run on the first CPU of their node.
fn run_on_node(engine: &Engine<'_>, node: NodeId) {
    let cpu = engine.cpu_ids().find(|&cpu| engine.node_of(cpu) == node);
    engine.platform().run_on(cpu.unwrap_or(CpuId(0)));
}

fn sleep_again(woken: &Cell<u64>, node: NodeId) {
    woken.set(woken.get() & !(1 << node.0));
}
