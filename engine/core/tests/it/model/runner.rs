//! Runs steps on the engine, the frame model and the reference side by side, and reports the first difference.

use std::cell::{Cell, RefCell};

use fastrand::Rng;
use freehold::base::{CpuId, Gfp, MigrateType, NodeId, Order, Pfn, State};
use freehold::page::{AllocError, Background, PageAllocator};
use freehold::platform::{self, Context, Platform};
use freehold::policy::DefragMode;
use freehold::stats::Counts;

use crate::common::{self, Host, Memory};
use crate::model::compare;
use crate::model::frame_model::FrameModel;
use crate::model::reference::owned::Cases;
use crate::model::reference::{Call, Reference};
use crate::model::step::{AllocWay, Step, Task};
use crate::model::world::World;

/// A fault planted to show that the harness finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sabotage {
    None,
    /// Every hundredth free does not reach the engine.
    ForgetFree,
    /// Every hundredth result is wrong by one frame.
    ShiftAnswer,
    /// The word of a free frame is overwritten.
    OverwriteWord,
    /// The reference puts freed blocks at the wrong end of their list.
    WrongEnd,
    /// The reference never boosts watermarks.
    NoBoost,
    /// The reference does not increase the urgency of reclaim when too few pages are freed.
    NeverUrgent,
    /// The reference's kswapd does not remove boosts.
    KeepBoost,
    /// The reference moves pages to the target that it found last.
    LastTargetFirst,
    /// The reference returns no idle pageblocks of the reserve.
    KeepIdle,
    /// The reference recalls the pageblock whose pages arrived in the zone last.
    RecallNewest,
    /// The reference takes whole pageblocks while smaller blocks are sufficient.
    OpenEarly,
    /// The reference does not make a CPU the owner of a pageblock of which it took a part.
    LeaveNobodys,
    /// The reference splits parts down to the requested size.
    CutAtOnce,
    /// The reference splits the last blocks of an order for smaller requests even if few pageblocks are whole.
    CutLast,
    /// The reference does not put drained blocks of owned pageblocks at the tail.
    OwnedFirst,
    /// The reference frees pages to their owner even if few pageblocks are whole.
    HomeAnyway,
    /// The reference takes blocks off a stack in the order in which they were pushed.
    FirstHomeFirst,
    /// The reference's requests do not flush stacks before they fail.
    PassStacks,
    /// The reference's requests do not free their CPU's lists to the zone before they fail.
    KeepHomecoming,
    /// The reference lets offline CPUs keep their pageblocks.
    KeepEstates,
    /// The reference lets CPUs keep pageblocks whose type is set.
    KeepThroughUse,
}

/// Steps between two of the costly comparisons.
const CHECK_EVERY: usize = 250;

/// The engine's counts, and how often each rule about owned pageblocks was applied.
pub(super) struct Met {
    pub counts: Counts,
    pub cases: Cases,
}

/// Runs the steps on a new machine.
pub(super) fn run(world: &World, steps: &[Step], sabotage: Sabotage) -> Result<Met, String> {
    let config = world.config();
    let mut memory = Memory::new(&config, &world.ranges);
    let allocator = common::build(&config, &world.ranges, &mut memory);
    for &pfn in &world.cma {
        allocator.set_pageblock_type(Pfn::new(pfn), MigrateType::Cma).expect("the pageblock must be online");
    }
    for (start, end) in world.released() {
        allocator.release(Pfn::new(start), Pfn::new(end)).map_err(|error| error.to_string())?;
    }
    allocator.set_up_watermarks(world.min_free);
    let reference = Reference::new(world, &allocator, sabotage);
    let runner = Runner {
        world,
        allocator: &allocator,
        frame_model: RefCell::new(FrameModel::new(world)),
        reference: RefCell::new(reference),
        log: RefCell::default(),
        luck: RefCell::new(Rng::with_seed(0)),
        calls: Cell::new(0),
        reclaimable: Cell::new(0),
        problem: RefCell::default(),
        sabotage,
        turn: Cell::new(0),
        online: RefCell::new(vec![true; world.cpu_nodes.len()]),
    };
    allocator.platform().answer_with(&runner);
    runner.run(steps)?;
    let cases = runner.reference.borrow().map.owned.cases;
    Ok(Met { counts: allocator.platform().events.counts(), cases })
}

/// State of a run. Most fields are cells because the platform's answers change them in the middle of a request.
pub(super) struct Runner<'a, 'h> {
    pub world: &'a World,
    pub allocator: &'a PageAllocator<'a, Host<'h>>,
    pub frame_model: RefCell<FrameModel>,
    pub reference: RefCell<Reference>,
    pub log: RefCell<Vec<Call>>,
    pub luck: RefCell<Rng>,
    pub calls: Cell<u32>,
    pub reclaimable: Cell<u64>,
    /// Invalid call that the engine made to its platform.
    pub problem: RefCell<Option<String>>,
    pub sabotage: Sabotage,
    pub turn: Cell<u32>,
    /// Whether each CPU is online.
    pub online: RefCell<Vec<bool>>,
}

impl Runner<'_, '_> {
    fn run(&self, steps: &[Step]) -> Result<(), String> {
        self.check_all().map_err(|problem| format!("before the first step: {problem}"))?;
        for (number, &step) in steps.iter().enumerate() {
            let checked = self.step(step).and_then(|()| self.problem.take().map_or(Ok(()), Err));
            let checked = checked.and_then(|()| self.check_sum());
            let checked = if number % CHECK_EVERY == 0 { checked.and_then(|()| self.check_all()) } else { checked };
            checked.map_err(|problem| format!("step {number}, {step:?}: {problem}"))?;
        }
        self.check_all().map_err(|problem| format!("after the last step: {problem}"))
    }

    /// Checks that the numbers of free, allocated and withheld pages add up to the total.
    fn check_sum(&self) -> Result<(), String> {
        let frame_model = self.frame_model.borrow();
        let mut held = frame_model.allocated + frame_model.withheld;
        for zone in self.allocator.zones().iter().filter(|zone| zone.is_populated()) {
            held += zone.free_pages();
            held += self.allocator.cpu_ids().map(|cpu| self.count(cpu, zone.index())).sum::<u64>();
        }
        if held == frame_model.released {
            Ok(())
        } else {
            Err(format!("{held} pages of {} are left", frame_model.released))
        }
    }

    /// Returns the number of pages on a CPU's lists and on its stack.
    fn count(&self, cpu: CpuId, zone: usize) -> u64 {
        let pcp = self.allocator.pcp(cpu, &self.allocator.zones()[zone]);
        u64::from(pcp.inspect(|lists| lists.count()) + pcp.waiting())
    }

    fn check_all(&self) -> Result<(), String> {
        let census = self.allocator.check().map_err(|violation| violation.to_string())?;
        let frame_model = self.frame_model.borrow();
        if (census.allocated, census.withheld) != (frame_model.allocated, frame_model.withheld) {
            let FrameModel { allocated, withheld, .. } = *frame_model;
            return Err(format!("{census:?}, expected {allocated} allocated and {withheld} withheld"));
        }
        for live in &frame_model.live {
            let state = self.allocator.state(live.head());
            if state != Some(live.state()) {
                return Err(format!("block {:#x} is {state:?}, expected {:?}", live.pfn, live.state()));
            }
        }
        compare::states(self.allocator, &self.reference.borrow())
    }

    /// Switches to a CPU, or to the next one that is online.
    fn on_cpu(&self, cpu: u16) {
        let online = self.online.borrow();
        let cpus = (cpu..self.world.cpus()).chain(0..cpu);
        let cpu = cpus.into_iter().find(|&cpu| online[usize::from(cpu)]).expect("one of them runs");
        self.allocator.platform().run_on(cpu);
        self.reference.borrow_mut().cpu = usize::from(cpu);
    }

    fn step(&self, step: Step) -> Result<(), String> {
        match step {
            Step::Alloc { cpu, gfp, order, way, luck } => {
                self.on_cpu(cpu);
                self.prepare(luck);
                self.alloc(gfp, order, way)
            }
            Step::Bulk { cpu, gfp, count, luck } => {
                self.on_cpu(cpu);
                self.prepare(luck);
                self.bulk(gfp, count)
            }
            Step::Free { cpu, pick } => {
                self.on_cpu(cpu);
                self.free(pick)
            }
            Step::FreeBulk { cpu, pick } => {
                self.on_cpu(cpu);
                self.free_bulk(pick)
            }
            Step::Get { pick } => self.get(pick),
            Step::Put { cpu, pick } => {
                self.on_cpu(cpu);
                self.put(pick)
            }
            Step::Split { pick, to } => self.split(pick, to),
            Step::Misuse { cpu, pfn, order } => {
                self.on_cpu(cpu);
                self.misuse(pfn, order)
            }
            Step::FreeFrozenInUse { cpu, pick } => {
                self.on_cpu(cpu);
                self.free_frozen_in_use(pick)
            }
            Step::Isolate { pfn, order } => self.isolate(pfn, order),
            Step::IsolateNear { pfn, order } => self.isolate_near(pfn, order),
            Step::TakeRange { pick, order, luck } => {
                self.prepare(luck);
                self.take_range(pick, order)
            }
            Step::Poison { pfn } => self.poison(pfn),
            Step::CpuDead { cpu } => {
                self.cpu_dead(cpu);
                Ok(())
            }
            Step::CpuOnline { cpu } => {
                self.online.borrow_mut()[usize::from(cpu)] = true;
                self.allocator.cpu_online(CpuId(cpu));
                Ok(())
            }
            Step::Background { cpu, node, task, luck } => {
                self.on_cpu(cpu);
                self.prepare(luck);
                self.background(NodeId(node), task)
            }
            other => {
                self.tend(other);
                Ok(())
            }
        }
    }

    /// Takes a CPU offline, unless it is the last one. The run continues on another CPU.
    fn cpu_dead(&self, cpu: u16) {
        let rest: Vec<u16> = (0..self.world.cpus()).filter(|&other| other != cpu).collect();
        let Some(&other) = rest.iter().find(|&&other| self.online.borrow()[usize::from(other)]) else { return };
        self.online.borrow_mut()[usize::from(cpu)] = false;
        self.on_cpu(other);
        self.allocator.cpu_dead(CpuId(cpu));
        self.reference.borrow_mut().cpu_dead(usize::from(cpu));
    }

    /// Takes a step that cannot fail: drains, decay, and flags.
    fn tend(&self, step: Step) {
        let reference = &mut *self.reference.borrow_mut();
        let zones = self.allocator.zones();
        match step {
            Step::DrainAll => {
                self.allocator.drain_all_pages();
                reference.drain_all_pages();
            }
            Step::Drain { cpu, pick } => {
                let zone = &zones[pick as usize % zones.len()];
                self.allocator.drain_pages_zone(CpuId(cpu), zone);
                reference.drain_pages_zone(usize::from(cpu), zone.index());
            }
            Step::Decay { cpu, pick } => {
                let zone = &zones[pick as usize % zones.len()];
                self.allocator.decay_pcp(CpuId(cpu), zone);
                reference.decay(usize::from(cpu), zone.index());
            }
            Step::ReclaimActive { pick, on } => {
                let zone = &zones[pick as usize % zones.len()];
                let now = if on { Background::Working } else { Background::Asleep };
                self.allocator.note_kswapd(zone.node(), zone.kind(), now);
                reference.zones[zone.index()].reclaim_active = on;
            }
            Step::LowerBoost { pick } => {
                let zone = &zones[pick as usize % zones.len()];
                let boost = zone.boost();
                self.allocator.note_boost_worked_off(zone.node(), zone.kind(), boost);
                reference.zones[zone.index()].boost -= boost as i64;
            }
            Step::Task { pick } => {
                let [memalloc, oom_victim, realtime] = [0, 1, 2].map(|bit| pick >> (bit * 3) & 7 == 7);
                let interrupts = [Context::SoftirqsOff, Context::Softirq, Context::Hardirq];
                let context = if pick >> 9 & 7 == 7 { interrupts[(pick >> 12) as usize % 3] } else { Context::Task };
                let task = platform::Task { memalloc, oom_victim, realtime, context };
                self.allocator.platform().run_as(task);
                reference.task = task;
            }
            other => unreachable!("{other:?} is handled by `step`"),
        }
    }

    /// Seeds the platform's next answers.
    fn prepare(&self, luck: u32) {
        *self.luck.borrow_mut() = Rng::with_seed(u64::from(luck));
        self.calls.set(0);
        self.reclaimable.set([0, 32, 100_000][luck as usize % 3]);
        self.log.borrow_mut().clear();
    }

    /// Runs a background task once.
    fn background(&self, node: NodeId, task: Task) -> Result<(), String> {
        let engine = self.allocator;
        let working = match task {
            Task::Kswapd => engine.run_kswapd(node) == Background::Working,
            Task::Kcompactd => engine.run_kcompactd(node) == Background::Working,
            Task::Tick => {
                engine.tick_kcompactd(node);
                false
            }
        };
        let reference = &mut *self.reference.borrow_mut();
        reference.script = self.log.take().into();
        reference.reclaimable = self.reclaimable.get();
        let expected = match task {
            Task::Kswapd => reference.run_kswapd(node),
            Task::Kcompactd => reference.run_kcompactd(node),
            Task::Tick => {
                reference.tick(node);
                false
            }
        };
        settle(reference)?;
        if working == expected {
            Ok(())
        } else {
            Err(format!("{task:?} is awake: {working}, the rules say {expected}"))
        }
    }

    fn alloc(&self, gfp: Gfp, order: u8, way: AllocWay) -> Result<(), String> {
        let near = self.allocator.node_of(CpuId(self.cpu())).0;
        let size = Order::new(order);
        let comfortable = order == 0 && self.is_comfortable(gfp, way, near) && self.may_mix_types(gfp);
        let (answer, node, refs) = match way {
            AllocWay::Near => (self.allocator.alloc_pages(gfp, size), near, 1),
            AllocWay::Frozen => (self.allocator.alloc_frozen_pages(gfp, size), near, 0),
            AllocWay::Node(node) => (self.allocator.alloc_pages_node(NodeId(node), gfp, size), node, 1),
        };
        let answer = answer.map(|pfn| self.spoil(pfn));
        self.predict_alloc(gfp, order, node, answer)?;
        match answer {
            Ok(pfn) => self.frame_model.borrow_mut().give(pfn.raw(), order, gfp, node, refs),
            Err(AllocError::OutOfMemory) if comfortable => Err("a page was refused above the high watermark".into()),
            Err(AllocError::OutOfMemory) => Ok(()),
            Err(AllocError::Flags) if gfp.migratetype().is_none() || gfp.highest_zone().is_none() => Ok(()),
            Err(AllocError::Node) if node >= self.world.nodes => Ok(()),
            Err(other) => Err(format!("unexpected error: {other}")),
        }
    }

    fn spoil(&self, pfn: Pfn) -> Pfn {
        self.turn.set(self.turn.get() + 1);
        match self.sabotage {
            Sabotage::ShiftAnswer if self.turn.get().is_multiple_of(100) => Pfn::new(pfn.raw() ^ 1),
            Sabotage::OverwriteWord if self.turn.get().is_multiple_of(100) => {
                let frames = (0..self.world.end()).map(Pfn::new);
                let last = frames.filter(|&frame| self.allocator.state(frame) == Some(State::Interior)).last();
                let interior = last.expect("some block has two frames");
                self.allocator.damage().set_state(interior, State::Withheld);
                pfn
            }
            _ => pfn,
        }
    }

    fn cpu(&self) -> u16 {
        self.allocator.platform().cpu().0
    }

    /// Returns whether a zone of the request has enough free pages that a single page must not be refused.
    fn is_comfortable(&self, gfp: Gfp, way: AllocWay, near: u8) -> bool {
        let Some(highest) = gfp.highest_zone().filter(|_| gfp.migratetype().is_some()) else { return false };
        let node = if let AllocWay::Node(node) = way { node } else { near };
        node < self.world.nodes
            && self.allocator.zones().iter().any(|zone| {
                let unusable = zone.free_highatomic() + zone.free_cma() + zone.lowmem_reserve(highest) + zone.boost();
                zone.kind() <= highest
                    && (zone.node().0 == node || !gfp.contains(Gfp::THISNODE))
                    && zone.free_pages() > unusable + zone.watermarks().high
            })
    }

    /// Returns whether the request may eventually mix types. In defrag mode, a request that gives up early fails before
    /// that.
    fn may_mix_types(&self, gfp: Gfp) -> bool {
        let waits = if gfp.contains(Gfp::DIRECT_RECLAIM) {
            !gfp.contains(Gfp::NORETRY) && !self.allocator.platform().task().memalloc
        } else {
            gfp.contains(Gfp::KSWAPD_RECLAIM)
        };
        waits || self.world.policy.defrag_mode == DefragMode::Off
    }

    fn predict_alloc(&self, gfp: Gfp, order: u8, node: u8, answer: Result<Pfn, AllocError>) -> Result<(), String> {
        let reference = &mut *self.reference.borrow_mut();
        let request = if node < self.world.nodes { reference.request(gfp, order, Some(node)) } else { None };
        reference.script = self.log.take().into();
        reference.reclaimable = self.reclaimable.get();
        let expected = request.and_then(|request| reference.alloc(request));
        let answer = answer.ok().map(Pfn::raw);
        if answer != expected {
            return Err(format!("the engine gave {answer:x?}, the rules give {expected:x?}"));
        }
        settle(reference)
    }

    fn bulk(&self, gfp: Gfp, count: usize) -> Result<(), String> {
        let mut pages = vec![Pfn::new(0); count];
        let got = self.allocator.alloc_pages_bulk(gfp, &mut pages);
        pages.truncate(got);
        let reference = &mut *self.reference.borrow_mut();
        reference.script = self.log.take().into();
        reference.reclaimable = self.reclaimable.get();
        let request = reference.request(gfp, 0, None);
        let expected = request.map_or(Vec::new(), |request| reference.alloc_bulk(request, count));
        if !pages.iter().map(|pfn| pfn.raw()).eq(expected.iter().copied()) {
            return Err(format!("the engine gave {pages:?}, the rules give {expected:x?}"));
        }
        settle(reference)?;
        let near = self.allocator.node_of(CpuId(self.cpu())).0;
        pages.iter().try_for_each(|pfn| self.frame_model.borrow_mut().give(pfn.raw(), 0, gfp, near, 1))
    }
}

/// Checks that the reference has made all calls that the engine made to its platform.
pub(super) fn settle(reference: &mut Reference) -> Result<(), String> {
    if let Some(how) = reference.parted.take() {
        return Err(how);
    }
    match reference.script.pop_front() {
        Some(call) => Err(format!("the engine asked its platform for {call:?}, which the rules do not")),
        None => Ok(()),
    }
}
