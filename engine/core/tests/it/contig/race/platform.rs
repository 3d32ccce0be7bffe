//! Platform of the threads: the owner of each block, the moves, and a stamp for every frame.
//!
//! Each frame has a stamp outside the engine: the owner of its block, or none. A move moves the stamps too. A frame
//! with two owners is detected when the second owner stamps it. A block that was moved without its owner's knowledge is
//! detected when the owner checks its stamps.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;

use fastrand::Rng;
use freehold::base::{CpuId, Order, Pfn};
use freehold::platform::host::Threads;
use freehold::platform::{Migrated, Migration, Patience, Platform};
use freehold::stats::Counters;
use parking_lot::Mutex;

/// A fault planted to show that the threads find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sabotage {
    None,
    /// Some moves are reported but not made.
    ClaimsMoves,
    /// Some moves are made but reported as refused.
    DeniesMoves,
    /// Some blocks are freed but stay with their owner.
    FreesTwice,
}

/// Number of a block's owner.
pub(super) type Owner = u32;

/// A block that may be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub pfn: Pfn,
    pub order: Order,
    pub refs: u32,
    pub compound: bool,
}

/// Movable blocks, by owner and by place.
#[derive(Default)]
struct Table {
    blocks: BTreeMap<Owner, Block>,
    at: BTreeMap<u32, Owner>,
    luck: Option<Rng>,
}

/// Platform of threads, with the state that they share outside the engine.
pub(super) struct Moving {
    threads: Threads<Counters>,
    table: Mutex<Table>,
    stamps: Vec<AtomicU32>,
    owners: AtomicU32,
    problem: Mutex<Option<String>>,
    stopped: AtomicBool,
    pub sabotage: Sabotage,
}

impl Moving {
    /// Creates the platform without any owner.
    pub(super) fn new(frames: u32, sabotage: Sabotage) -> Moving {
        Moving {
            threads: Threads::default(),
            table: Mutex::new(Table { luck: Some(Rng::with_seed(1)), ..Table::default() }),
            stamps: (0..frames).map(|_| AtomicU32::new(0)).collect(),
            owners: AtomicU32::new(1),
            problem: Mutex::default(),
            stopped: AtomicBool::new(false),
            sabotage,
        }
    }

    /// Returns the number of a new owner.
    pub(super) fn owner(&self) -> Owner {
        self.owners.fetch_add(1, Relaxed)
    }

    /// Records the first problem, and stops all threads.
    pub(super) fn report(&self, problem: String) {
        self.problem.lock().get_or_insert(problem);
        self.stopped.store(true, Relaxed);
    }

    /// Returns whether a problem was reported.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// Returns the first problem.
    pub(super) fn problem(&self) -> Option<String> {
        self.problem.lock().clone()
    }

    /// Replaces the stamp of each frame by `after`. Reports a problem if a stamp is not `before`.
    pub(super) fn stamp(&self, start: Pfn, pages: u32, before: Owner, after: Owner) {
        for pfn in start.up_to(start.offset(pages)) {
            let found = self.stamps[pfn.index()].swap(after, Relaxed);
            if found != before {
                self.report(format!("frame {pfn}, now of owner {after}, was of owner {found}, not of {before}"));
            }
        }
    }

    /// Adds a block that may be moved from now on.
    pub(super) fn add(&self, owner: Owner, block: Block) {
        let mut table = self.table.lock();
        if let Some(other) = table.at.insert(block.pfn.raw(), owner) {
            self.report(format!("{block:?} of owner {owner} is owner {other}'s as well"));
        }
        table.blocks.insert(owner, block);
    }

    /// Removes a block, which is not moved any more. Returns its current place.
    pub(super) fn remove(&self, owner: Owner) -> Option<Block> {
        let mut table = self.table.lock();
        let block = table.blocks.remove(&owner)?;
        table.at.remove(&block.pfn.raw());
        Some(block)
    }

    /// Runs `action` on a block while the block cannot move.
    pub(super) fn with<R>(&self, owner: Owner, action: impl FnOnce(Block) -> R) -> Option<R> {
        let table = self.table.lock();
        table.blocks.get(&owner).copied().map(action)
    }

    fn re_point(&self, table: &mut Table, owner: Owner, to: Block) {
        if let Some(from) = table.blocks.insert(owner, to) {
            table.at.remove(&from.pfn.raw());
            table.at.insert(to.pfn.raw(), owner);
            self.stamp(from.pfn, from.order.pages(), owner, 0);
            self.stamp(to.pfn, to.order.pages(), 0, owner);
        }
    }
}

impl Platform for Moving {
    type Lock = <Threads<Counters> as Platform>::Lock;
    type Probe = Counters;

    fn probe(&self) -> &Counters {
        self.threads.probe()
    }

    fn cpu(&self) -> CpuId {
        self.threads.cpu()
    }

    fn relax(&self) -> Patience {
        self.threads.relax()
    }

    /// Moves a block if it is as described in the request; refuses at random.
    fn migrate(&self, &Migration { from, to, order, refs, compound, .. }: &Migration) -> Migrated {
        // Gives other threads time to free the block and allocate a new one at its place.
        thread::yield_now();
        let mut table = self.table.lock();
        let Some(&owner) = table.at.get(&from.raw()) else { return Migrated::Refused };
        let block = table.blocks[&owner];
        let luck = table.luck.as_mut().map_or(0, |luck| luck.u32(0..100));
        if (block.order, block.refs, block.compound) != (order, refs, compound) || luck < 15 {
            return Migrated::Refused;
        }
        match self.sabotage {
            Sabotage::ClaimsMoves if luck < 20 => return Migrated::Moved,
            Sabotage::DeniesMoves if luck < 20 => {
                self.re_point(&mut table, owner, Block { pfn: to, ..block });
                return Migrated::Refused;
            }
            _ => self.re_point(&mut table, owner, Block { pfn: to, ..block }),
        }
        Migrated::Moved
    }
}
