//! Reclaim and compaction decided by the engine; the recorded ones are left out.
//!
//! *A page that the recorded kernel reclaimed* stays allocated. From its allocation on it is among the pages that the
//! engine reclaims first. If the engine reclaims it before its recorded free, that free is ignored. If the engine has
//! not reclaimed it by then, it stays allocated without a recorded frame. Memory on no LRU list, such as slab, is freed
//! as recorded.
//!
//! *A page that the recorded kernel moved* stays in place. The recording refers to it by another frame afterwards: the
//! source is freed while the task compacts, and the target is freed later without an allocation event. Sources and
//! targets are paired in the order of their events, by order. Targets without a source are ignored.
//!
//! *Requests of tasks that reclaim or compact* belong to the workload and are played like all others.

use std::collections::VecDeque;

use freehold::base::{Gfp, Order, Pfn, State};
use freehold_trace::Row;
use freehold_trace::facts::Facts;

use super::super::Pacing;
use super::super::identity::{Hold, Tenant};
use super::super::schedule::Schedule;
use super::super::survey::{Age, Place, Silent, Survey, Windows, Work};
use super::held::HeldPages;
use super::waiting::WaitQueue;
use super::{Consequences, Engine, Player};

/// State of the recorded tasks, and the blocks that they moved.
pub(crate) struct ModelReclaim<'e, 'm> {
    windows: Windows,
    pub(super) schedule: Schedule<'e, 'm>,
    pub(super) waiting: WaitQueue,
    /// Number of blocks that the recorded kernel has reclaimed so far.
    reclaimed: u32,
    /// By order: contents whose recorded source is free and whose recorded target is not known yet. `None` stands for
    /// contents that the engine has reclaimed.
    moving: [VecDeque<Option<MovingBlock>>; Order::COUNT],
    pub(super) held: HeldPages,
}

#[derive(Clone, Copy, Debug)]
struct MovingBlock {
    tenant: Tenant,
    cache: Cache,
}

/// Whether a page is page cache, which can be reclaimed without a place in swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    /// The page is page cache.
    Yes,
    /// The page is not page cache, or its use is not known.
    No,
}

impl Cache {
    /// Classifies a request. Page cache is a movable page that is read ahead or about to be written, and is not zeroed.
    pub(crate) fn of_request(gfp: Gfp) -> Cache {
        let cache = gfp.contains(Gfp::MOVABLE) && gfp.intersects(Gfp::WRITE | Gfp::NORETRY) && !gfp.contains(Gfp::ZERO);
        if cache { Cache::Yes } else { Cache::No }
    }
}

/// Returns whether the pages of a request have a mapping: they belong to a file or a block device. Anonymous memory is
/// movable too, but comes from high memory, and is zeroed, copied, or a huge page that uses no reserve. Shared memory
/// has the flags of a copied page, and counts as anonymous.
fn has_mapping(gfp: Gfp) -> bool {
    let is_device = !gfp.contains(Gfp::HIGHMEM);
    let is_file = gfp.intersects(Gfp::WRITE | Gfp::NORETRY) && !gfp.intersects(Gfp::ZERO | Gfp::NOMEMALLOC);
    gfp.contains(Gfp::MOVABLE) && (is_device || is_file)
}

impl<'e, 'm> ModelReclaim<'e, 'm> {
    /// Creates the state in which no page has been reclaimed or moved.
    pub(crate) fn new(
        engine: &'e Engine<'m>,
        facts: &Facts,
        survey: &'e Survey,
        pacing: Pacing,
    ) -> ModelReclaim<'e, 'm> {
        ModelReclaim {
            windows: Windows::new(facts),
            schedule: Schedule::new(engine, &survey.pace, pacing),
            waiting: WaitQueue::default(),
            reclaimed: 0,
            moving: Default::default(),
            held: HeldPages::default(),
        }
    }

    /// Updates the tasks' states by an event.
    pub(crate) fn observe(&mut self, row: &Row) {
        self.windows.observe(row);
    }

    /// Returns the current work of a task.
    pub(crate) fn work_of(&self, task: u32) -> Work {
        self.windows.work(task)
    }

    /// Returns the number of blocks that the recorded kernel moved to a place that the recording does not show.
    pub(crate) fn lost_moves(&self) -> u64 {
        self.moving.iter().flatten().flatten().count() as u64
    }
}

impl Player<'_, '_> {
    /// Makes the reclaimable memory that is allocated at the start available to reclaim, the oldest pages first.
    pub(super) fn settle_start(&self) {
        let since = self.survey.start_rows.saturating_sub(1);
        for age in [None].into_iter().chain(Age::ALL.map(Some)) {
            let cache = if age.is_some() { Cache::Yes } else { Cache::No };
            for owned in self.survey.allocated.iter().filter(|owned| owned.movable && owned.age == age) {
                let Some(order) = Order::from_u8(owned.order) else { continue };
                for pfn in owned.heads() {
                    if owned.mapping {
                        self.memory().identity.mark_mapping(pfn as usize, order.pages() as usize);
                    }
                    self.settle(pfn as usize, order, since, cache);
                }
            }
        }
    }

    /// Notes the two properties of a request's pages that follow from its flags: whether they have a mapping, and
    /// whether reclaim may take them.
    pub(super) fn settle_request(&self, recorded: usize, order: Order, since: u64, gfp: Gfp) {
        self.note_mapping(recorded, order.pages() as usize, gfp);
        self.settle(recorded, order, since, Cache::of_request(gfp));
    }

    /// Marks the pages of a request as pages with a mapping, if its flags show that they have one.
    pub(super) fn note_mapping(&self, tenant: Tenant, pages: usize, gfp: Gfp) {
        if has_mapping(gfp) {
            self.memory().identity.mark_mapping(tenant, pages);
        }
    }

    /// Makes a block available to the engine's reclaim that was allocated on these recorded frames at row `since`. The
    /// block must be movable in the engine, and be either reclaimed later by the recorded kernel as one block, or page
    /// cache. Does nothing for other blocks, or if reclaim is played as recorded.
    pub(super) fn settle(&self, recorded: usize, order: Order, since: u64, cache: Cache) {
        if matches!(self.consequences, Consequences::Recorded(_)) {
            return;
        }
        // Movability is checked last, since only this check reads the engine's state.
        if let Some(number) = self.survey.reclaimed.living_at(recorded as u32, since) {
            let whole = self.survey.reclaimed.blocks()[number as usize].order == order.get();
            if whole && self.is_movable(recorded, order) {
                self.memory().make_cold(number, recorded);
            }
        } else if cache == Cache::Yes && self.is_movable(recorded, order) {
            self.memory().make_cached(recorded, order);
        }
    }

    /// Returns whether movable memory of the engine backs these frames: one block of this order, or single pages in its
    /// place.
    fn is_movable(&self, recorded: usize, order: Order) -> bool {
        let is_split = self.memory().identity.is_split(recorded);
        let (blocks, order) = if is_split { (order.pages() as usize, Order::ZERO) } else { (1, order) };
        (recorded..recorded + blocks).all(|tenant| self.backs_movable(tenant, order))
    }

    /// Returns whether one movable block of this order backs a tenant.
    fn backs_movable(&self, tenant: Tenant, order: Order) -> bool {
        let Some(entry) = self.memory().identity.get(tenant) else { return false };
        matches!(self.engine.state(entry.pfn), Some(State::Allocated { order: found, movable: true, .. }) if found == order)
    }

    /// Returns whether a free must not be played, since it is a result of recorded reclaim or compaction, or the engine
    /// reclaimed the page before.
    pub(super) fn is_consequence(&mut self, row: &Row, order: Order) -> bool {
        let Consequences::Model(model) = &mut self.consequences else { return false };
        match model.work_of(row.task) {
            Work::Reclaiming => {
                model.reclaimed += 1;
                let number = model.reclaimed - 1;
                self.was_reclaimed(number, row.pfn as usize, order)
            }
            Work::Compacting => self.was_moved(row.pfn as usize, order),
            Work::Own => {
                let early = self.was_reclaimed_early(row.pfn as usize, order);
                self.tally.freed_after_reclaim += u64::from(early);
                early
            }
        }
    }

    /// Handles a recorded free of a page that the engine has already reclaimed. Returns `false` if it has not.
    fn was_reclaimed_early(&self, recorded: usize, order: Order) -> bool {
        let mut memory = self.memory();
        let early = memory.identity.is_reclaimed(recorded);
        if early {
            memory.clear(recorded, order.pages() as usize);
        }
        early
    }

    /// Handles the recorded reclaim of the block of this number. Returns `false` if the block must be freed in the
    /// engine too, which is the case for memory on no LRU list, such as slab.
    fn was_reclaimed(&mut self, number: u32, recorded: usize, order: Order) -> bool {
        if self.was_reclaimed_early(recorded, order) {
            return true;
        }
        let stays = self.memory().tenant(number) == Some(recorded);
        if stays {
            self.memory().let_stay(number, recorded, order.pages() as usize);
        } else {
            self.tally.reclaimed_as_recorded += u64::from(order.pages());
        }
        stays
    }

    /// Handles a block that a compacting task freed: the source of a move, an unused target, or a block freed in an
    /// interrupt. Returns `false` if the free must be played.
    fn was_moved(&mut self, recorded: usize, order: Order) -> bool {
        let moving = if self.was_reclaimed_early(recorded, order) {
            None
        } else {
            // Frames of a waiting request are freed when it gets its page. The target will appear as a silent
            // allocation.
            let frames = recorded..recorded + order.pages() as usize;
            if frames.filter(|&frame| self.frees_awaited(frame)).count() > 0 {
                return true;
            }
            let entry = self.memory().identity.get(recorded);
            let Some(entry) = entry else { return true };
            self.cut_out(entry.pfn, order);
            if !self.is_movable(recorded, order) {
                return false;
            }
            let mut memory = self.memory();
            let cache = if memory.identity.hold(recorded) == Hold::Cached { Cache::Yes } else { Cache::No };
            Some(MovingBlock { tenant: memory.move_out(recorded, order.pages() as usize), cache })
        };
        if let Consequences::Model(model) = &mut self.consequences {
            model.moving[order.index()].push_back(moving);
        }
        true
    }

    fn cut_out(&mut self, pfn: Pfn, order: Order) {
        if let Some((head, found)) = self.engine.allocated_block(pfn) {
            self.cut(head, found, order);
        }
    }

    /// Returns whether the recorded frames of a silent allocation are the target of a move, and if so completes the
    /// move.
    pub(super) fn moves_in(&mut self, silent: Silent, order: Order) -> bool {
        let Consequences::Model(model) = &mut self.consequences else { return false };
        if silent.place != Place::FreeList {
            return false;
        }
        let Some(moving) = model.moving[order.index()].pop_front() else { return false };
        let (recorded, pages) = (silent.pfn as usize, order.pages() as usize);
        match moving {
            None => self.memory().identity.mark_reclaimed(recorded, pages),
            Some(MovingBlock { tenant, cache }) => {
                self.memory().identity.move_in(tenant, recorded, pages);
                self.settle(recorded, order, silent.before.saturating_sub(1), cache);
            }
        }
        true
    }
}
