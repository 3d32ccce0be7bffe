//! Costs of the engine's steps: a probe that advances the clock for each event, and tracks the location of cache lines.
//!
//! [`costs`](crate::costs) documents the cost of each event, and what the simulation leaves out.

use std::cell::{Cell, RefCell};

use freehold::base::{CpuId, Pfn};
use freehold::platform::{Event, Probe};
use freehold::stats::Counters;

use super::clock::{self, Clock, NOBODY, Purpose};
use crate::costs::Costs;

/// Frames whose metadata share a cache line.
const FRAMES_PER_LINE: usize = 4;

/// The probe.
pub struct Account {
    counters: Counters<Cell<u64>>,
    costs: Costs,
    /// For each line of metadata, the CPU that touched it last.
    lines: Vec<Cell<u16>>,
    /// Each CPU's stack in each zone, zone by zone.
    stacks: Vec<Stack>,
    cpus: usize,
}

/// State of a stack for cost accounting.
struct Stack {
    /// CPU that touched the stack's word last.
    toucher: Cell<u16>,
    /// Blocks on the stack.
    blocks: RefCell<Vec<Pfn>>,
}

impl Default for Stack {
    fn default() -> Stack {
        Stack { toucher: Cell::new(NOBODY), blocks: RefCell::default() }
    }
}

impl Account {
    /// Creates the probe of a machine with this number of frames, CPUs and zones.
    pub fn new(costs: &Costs, frames: u32, cpus: u16, zones: usize) -> Account {
        Account {
            counters: Counters::default(),
            costs: costs.clone(),
            lines: vec![Cell::new(NOBODY); (frames as usize).div_ceil(FRAMES_PER_LINE)],
            stacks: (0..zones * usize::from(cpus)).map(|_| Stack::default()).collect(),
            cpus: usize::from(cpus),
        }
    }

    /// Returns the counters of the engine so far.
    pub fn counters(&self) -> &Counters<Cell<u64>> {
        &self.counters
    }

    /// Returns the cost table.
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    /// Moves a frame's line of metadata to the running CPU, and charges the transfer if another CPU touched the line
    /// last. Does nothing while the observer runs.
    #[inline]
    pub fn touch(&self, clock: &Clock, pfn: Pfn, purpose: Purpose) {
        self.fetch(clock, &self.lines[pfn.index() / FRAMES_PER_LINE], purpose);
    }

    fn fetch(&self, clock: &Clock, line: &Cell<u16>, purpose: Purpose) {
        if clock.is_observed() {
            return;
        }
        let toucher = line.replace(clock.cpu());
        if toucher != NOBODY && toucher != clock.cpu() {
            let price = [self.costs.line_ps, self.costs.line_remote_ps][clock.distance_to(toucher)];
            clock.spend(price, purpose);
        }
    }

    fn push(&self, clock: &Clock, stack: &Stack, pfn: Pfn) {
        clock.take_turn();
        self.fetch(clock, &stack.toucher, Purpose::Stack);
        clock.spend(self.costs.push_ps, Purpose::Stack);
        stack.blocks.borrow_mut().push(pfn);
    }

    fn take(&self, clock: &Clock, stack: &Stack) {
        clock.take_turn();
        self.fetch(clock, &stack.toucher, Purpose::Stack);
        clock.spend(self.costs.take_ps, Purpose::Stack);
        for pfn in stack.blocks.borrow_mut().drain(..) {
            self.touch(clock, pfn, Purpose::Stack);
            clock.spend(self.costs.absorb_ps, Purpose::Stack);
        }
    }

    fn stack(&self, zone: u8, owner: CpuId) -> &Stack {
        &self.stacks[usize::from(zone) * self.cpus + owner.index()]
    }
}

impl Probe for Account {
    fn report(&self, event: Event) {
        self.counters.report(event);
        clock::with_clock(|clock| match event {
            Event::ZoneLockReleased { links, .. } => {
                clock.spend(u64::from(links) * self.costs.link_ps, Purpose::Operation);
            }
            Event::ZoneLocked { pfn, .. } | Event::PcpuDrain { pfn, .. } => {
                clock.spend(self.costs.block_ps, Purpose::Operation);
                self.touch(clock, pfn, Purpose::Operation);
            }
            Event::PcpSplit { blocks, .. } => clock.spend(u64::from(blocks) * self.costs.split_ps, Purpose::List),
            Event::PcpMerge { blocks, .. } => clock.spend(u64::from(blocks) * self.costs.merge_ps, Purpose::List),
            Event::CompactScan { migrate_scanned, free_scanned, .. } => {
                let frames = u64::from(migrate_scanned) + u64::from(free_scanned);
                clock.spend(frames * self.costs.compact_scan_ps, Purpose::Reclaim);
            }
            Event::StackPush { zone, owner, pfn, .. } => self.push(clock, self.stack(zone, owner), pfn),
            Event::StackTake { zone, owner } => self.take(clock, self.stack(zone, owner)),
            _ => {}
        });
    }
}
