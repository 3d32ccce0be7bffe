//! Schedule of the requests that reclaim or compact, of kswapd and of kcompactd, each on its own fiber.
//!
//! Work takes time: for each scanned page and each moved page, the time that the recorded machine took
//! ([`Costs`](super::platform::Costs)). A fiber that has worked sleeps for that time. Meanwhile the recording
//! continues, and other requests see the memory of that moment and may stall as well. kswapd and kcompactd are woken by
//! the engine's decisions. kswapd starts after the wake-up latency of the recorded kswapd, and waits where the recorded
//! kswapd waited ([`Pace`]).
//!
//! Under [`Pacing::Recorded`] requests take no time, as if each ran alone on an infinitely fast machine.
//!
//! # Design
//!
//! Fibers make a state machine in the engine unnecessary. A request that may reclaim runs on a fiber, and the platform
//! suspends it for the recorded time of the same work: a page that reclaim scans, a frame that compaction scans, a page
//! that is moved (`survey/pace`). kswapd and kcompactd are fibers as well. Several requests can stall at once, and
//! proactive compaction takes its seconds and stops when kswapd wakes. The engine only has to call `cond_resched`
//! between two batches of compaction.
//!
//! The request behind a recorded stall is issued at the first event of the stall and not at the event of its
//! allocation. Recorded frames are resolved in the recorded order, and the engine's work on them happens later
//! (`player/waiting`). A frame whose request is under way is *awaited*. A block that a late task frees becomes a tenant
//! without a frame until the turn of the task.
//!
//! A task that waited catches up without delay. The other rule, that it stays late, was built and measured. Processes
//! of a script then overlap that really wait for each other, and in one cell direct reclaims came out thousands of
//! times too many. A recording without scheduler events does not show which tasks wait for each other, so the delay of
//! the remaining work is known only within two bounds. `--pace recorded` lets requests take no time, as every replay
//! did before.

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

/// Nanoseconds after which kcompactd checks the fragmentation of its node, unless it is woken before.
/// linux: mm/compaction.c:kcompactd
const LOOK: u64 = 500_000_000;
/// Longest time without an event, in nanoseconds, for which these checks are made up.
const IDLE_MAX: u64 = 60_000_000_000;
/// Shortest duration of a pass of kswapd, in nanoseconds, so that a pass without scanned pages takes time too.
const PASS_MIN: u64 = 10_000;

/// Parameters of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) gfp: Gfp,
    pub(crate) order: Order,
    pub(crate) cpu: CpuId,
    /// Row of the recorded request.
    pub(crate) row: u64,
}

/// Job of a fiber.
#[derive(Clone, Copy, Debug)]
enum Job {
    Request(Request),
    Kswapd(NodeId),
    Kcompactd(NodeId),
    /// kcompactd had no work for a while, and checks whether the node needs proactive compaction.
    Look(NodeId),
}

/// Number of a request that takes time: the index of its worker.
pub(crate) type Ticket = usize;
/// The engine's answer.
pub(crate) type Answer = Result<Pfn, AllocError>;

/// State of a request after it was issued.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The request has its answer.
    Now(Answer),
    /// The request is under way.
    Later(Ticket),
}

/// A fiber, and the cells for its jobs and results.
struct Worker<'e> {
    fiber: Fiber<'e>,
    desk: Rc<Desk>,
}

#[derive(Default)]
struct Desk {
    job: Cell<Option<Job>>,
    result: Cell<Option<JobResult>>,
}

/// Result of a job.
#[derive(Clone, Copy, Debug)]
enum JobResult {
    Request(Answer),
    Background,
}

/// All fibers and their wake-up times.
pub(crate) struct Schedule<'e, 'm> {
    engine: &'e Engine<'m>,
    pacing: Pacing,
    workers: Vec<Worker<'e>>,
    idle: Vec<Ticket>,
    /// Sleeping workers: wake-up time, a number that keeps their order, and the worker.
    sleeping: BinaryHeap<Reverse<(u64, u64, Ticket)>>,
    numbers: u64,
    /// Whether each node's kswapd is working.
    kswapd: Vec<bool>,
    waits: Vec<Vec<(u64, u64)>>,
    wake_latency: u64,
    /// Time of each node's next check by kcompactd; `u64::MAX` while kcompactd is working.
    looks: Vec<u64>,
    /// Time of the last work, which is when the tasks woken since then were woken.
    clock: u64,
}

impl<'e, 'm> Schedule<'e, 'm> {
    /// Creates a schedule without work.
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
            waits: pace.waits.clone(),
            wake_latency: pace.wake_latency,
            looks: vec![LOOK; nodes],
            clock: 0,
        }
    }

    /// Issues a request to the engine. A request that may have to wait runs on a fiber.
    pub(crate) fn ask(&mut self, now: u64, request: Request) -> Outcome {
        let stage = self.engine.platform();
        stage.run_on(request.cpu);
        self.clock = now;
        if self.pacing == Pacing::Recorded || !request.gfp.contains(Gfp::DIRECT_RECLAIM) {
            return Outcome::Now(request.issue(self.engine));
        }
        let ticket = self.hire(Job::Request(request));
        match self.go_on(now, ticket) {
            Some(JobResult::Request(answer)) => Outcome::Now(answer),
            Some(JobResult::Background) => unreachable!("the job of a request ends with an answer"),
            None => Outcome::Later(ticket),
        }
    }

    /// Runs all workers until `time`, or until the first request gets its answer. Returns that request, its answer and
    /// the time. Must be called until it returns `None`.
    #[inline]
    pub(crate) fn next_until(&mut self, time: u64) -> Option<(Ticket, Answer, u64)> {
        let stage = self.engine.platform();
        let is_quiet = self.sleeping.peek().is_none_or(|&Reverse((due, ..))| due > time);
        if is_quiet && self.next_look() > time && stage.kswapds().get() | stage.kcompactds().get() == 0 {
            return None;
        }
        self.work_until(time)
    }

    /// After the last event, runs the requests that are still under way until the first of them gets its answer,
    /// however long that takes. Returns the request, its answer and the time. Background tasks no longer run.
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
        let first = time.saturating_sub(IDLE_MAX);
        self.looks.iter_mut().for_each(|look| *look = first.max(*look));
        loop {
            self.start_daemons();
            let (look, due) = (self.next_look(), self.sleeping.peek().map_or(u64::MAX, |&Reverse((due, ..))| due));
            if due.min(look) > time {
                return None;
            }
            if look <= due {
                self.look(look);
                continue;
            }
            let Reverse((due, _, ticket)) =
                self.sleeping.pop().expect("the heap is not empty: its first entry was due");
            if let Some(JobResult::Request(answer)) = self.go_on(due, ticket) {
                return Some((ticket, answer, due));
            }
        }
    }

    /// Returns the time of the next check by a kcompactd.
    fn next_look(&self) -> u64 {
        self.looks.iter().copied().min().unwrap_or(u64::MAX)
    }

    /// Starts the check of kcompactd on each node where it is due.
    fn look(&mut self, now: u64) {
        for node in (0..self.engine.nodes()).map(NodeId) {
            if self.looks[usize::from(node.0)] <= now {
                self.begin_compacting(now, node, Job::Look(node));
            }
        }
    }

    /// Starts a job of a node's kcompactd. The time to its next check restarts when the job ends.
    fn begin_compacting(&mut self, now: u64, node: NodeId, job: Job) {
        self.looks[usize::from(node.0)] = u64::MAX;
        self.begin(now, job);
    }

    /// Starts the background tasks that the engine woke; kswapd starts after its recorded wake-up latency.
    fn start_daemons(&mut self) {
        let now = self.clock;
        let stage = self.engine.platform();
        for node in 0..self.engine.nodes() {
            let (at, bit) = (usize::from(node), 1_u64 << node);
            if stage.kswapds().get() & bit != 0 && !self.kswapd[at] {
                self.kswapd[at] = true;
                self.begin(now + self.wake_latency, Job::Kswapd(NodeId(node)));
            }
            if stage.kcompactds().get() & bit != 0 && self.looks[at] != u64::MAX {
                self.begin_compacting(now, NodeId(node), Job::Kcompactd(NodeId(node)));
            }
        }
    }

    fn begin(&mut self, at: u64, job: Job) {
        let ticket = self.hire(job);
        self.sleep(at, job, ticket);
    }

    /// Gives a job to an idle worker, or to a new one.
    fn hire(&mut self, job: Job) -> Ticket {
        let ticket = self.idle.pop().unwrap_or_else(|| {
            self.workers.push(Worker::new(self.engine));
            self.workers.len() - 1
        });
        self.workers[ticket].desk.job.set(Some(job));
        ticket
    }

    /// Resumes a worker. Returns the result of its job, if the job ended.
    fn go_on(&mut self, now: u64, ticket: Ticket) -> Option<JobResult> {
        self.clock = now;
        let worker = &mut self.workers[ticket];
        let job = worker.desk.job.get().expect("a worker keeps its job until the next one");
        let has_ended = worker.fiber.resume();
        debug_assert!(!has_ended, "the fiber of a worker ended");
        if let Some(result) = worker.desk.result.take() {
            self.idle.push(ticket);
            match job {
                Job::Request(_) => {}
                Job::Kswapd(node) => self.kswapd[usize::from(node.0)] = false,
                Job::Kcompactd(node) | Job::Look(node) => self.looks[usize::from(node.0)] = now + LOOK,
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

    /// Returns the time at which a node's kswapd continues, if it could at `time`. The result is later if the recorded
    /// kswapd waited at that time.
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
        Worker { fiber: fiber.expect("the system has memory for the stack of a fiber"), desk }
    }
}

impl Request {
    /// Issues the request to the engine, and keeps the journal of its decisions. A request for a single page never
    /// compacts and has no journal.
    fn issue(self, engine: &Engine<'_>) -> Answer {
        if self.order == Order::ZERO {
            return engine.alloc_pages(self.gfp, self.order);
        }
        let journal = engine.platform().journal();
        journal.begin();
        let answer = engine.alloc_pages(self.gfp, self.order);
        journal.end(self.row);
        answer
    }
}

impl Job {
    fn run(self, engine: &Engine<'_>) -> JobResult {
        let stage = engine.platform();
        stage.meter().works_as(self.compactor());
        match self {
            Job::Request(request) => {
                stage.run_on(request.cpu);
                return JobResult::Request(request.issue(engine));
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

    /// Returns the kind of task for which the job compacts. kswapd never compacts.
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

/// Sets the CPU of a background task: the first CPU of its node.
fn run_on_node(engine: &Engine<'_>, node: NodeId) {
    let cpu = engine.cpu_ids().find(|&cpu| engine.node_of(cpu) == node);
    engine.platform().run_on(cpu.unwrap_or(CpuId(0)));
}

fn sleep_again(woken: &Cell<u64>, node: NodeId) {
    woken.set(woken.get() & !(1 << node.0));
}
