//! First pass over a recording: facts that no event reports.
//!
//! *Frames without page flags.* A frame without page flags at the start is on a per-CPU list or allocated by the
//! kernel. Its first event decides:
//!
//! - A frame that is allocated or drained was on a per-CPU list.
//! - A frame that is freed was allocated, as a block of that order.
//! - A frame that leaves a free list was free.
//!
//! Frames without any event count as allocated. Some of them are placed on the per-CPU lists, up to the recorded
//! numbers of pages.
//!
//! *Silent allocations and frees.* Bulk allocations, the targets of migrations, and ranges that are taken back have no
//! event. They are inferred from later events. A frame that is freed while it is free was allocated silently before
//! ([`silent`] determines when). A frame that is allocated while it is allocated was freed just before.

use std::sync::mpsc;
use std::thread;

use freehold::base::Order;
use freehold::page::has_pcp_list;
use freehold_trace::event::{NO_PFN, class, migratetype};
use freehold_trace::facts::Facts;
use freehold_trace::kernel::Release;
use freehold_trace::mechanism::{MechanismCounts, Mechanisms};
use freehold_trace::{Batch, Kind, Reader, Row};
use rustc_hash::FxHashSet;

mod age;
mod blocks;
mod decisions;
mod deferral;
mod frames;
mod pace;
mod reclaimed;
mod silent;
mod stalls;
mod together;
mod windows;

pub(crate) use age::Age;
pub(crate) use blocks::{AllocatedBlocks, CachedBlock, FreeBlock, PageblockRun};
use decisions::Decisions;
pub(crate) use decisions::RecordedSteps;
use deferral::{Deferrals, DeferredZone};
use frames::{Frame, Frames};
use pace::Stopwatch;
pub(crate) use pace::{CompactionCosts, Pace};
pub(crate) use reclaimed::ReclaimOrder;
use silent::{Moment, Need, RangeNeed, take_range};
pub(crate) use silent::{Place, Silent};
pub(crate) use stalls::Stall;
use stalls::Stalls;
#[cfg(test)]
pub(crate) use together::Origin;
pub(crate) use together::Together;
use together::{FOR_A_RANGE, Neighbours};
pub(crate) use windows::{Windows, Work};

use super::lists::Lists;
use super::{HUGE, ReclaimMode, machine};
use crate::error::Error;

/// Value of `args[1]` for pages without flags that the kernel had not given to its allocator yet.
const NOT_YET_MEMORY: i64 = 2;

/// Number of rows whose frames are read ahead together.
const AHEAD: usize = 16;

/// Largest number of decoded batches that wait for the survey. A separate thread decodes, since decoding takes as long
/// as the survey.
const BATCHES_AHEAD: usize = 16;

/// Results of the first pass.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Number of frames: the end of the highest zone.
    pub(crate) end: usize,
    pub(crate) pageblocks: Vec<PageblockRun>,
    pub(crate) free: Vec<FreeBlock>,
    pub(crate) allocated: Vec<AllocatedBlocks>,
    /// Blocks on per-CPU lists at the start, in the order of their use: the first is at the head of its list.
    pub(crate) cached: Vec<CachedBlock>,
    /// Time at which a kernel worker first drained a list, which is the time of a tick.
    pub(crate) tick: Option<u64>,
    /// Lists that were refilled, and so were empty at that time: CPU, order, type.
    pub(crate) refilled: FxHashSet<(u16, u8, i8)>,
    /// Frames without flags or events.
    pub(crate) untouched: Vec<u32>,
    /// Silent allocations, in order of time.
    pub(crate) silent: Vec<Silent>,
    /// Single pages that were freed together, in order of time.
    pub(crate) together: Vec<Together>,
    /// Number of these pages that are known to have gone to a per-CPU list.
    pub(crate) together_listed: u64,
    /// Free blocks by order at the end, from the end state; empty if there is none.
    pub(crate) end_free: Vec<u64>,
    /// Blocks that left a free list. This count and the following counts of events are compared with the engine's.
    pub(crate) zone_locked: u64,
    /// Blocks that left the lists of the high-atomic reserve.
    pub(crate) from_reserve: u64,
    pub(crate) pcpu_drain: u64,
    pub(crate) failures: u64,
    pub(crate) claims: u64,
    pub(crate) steals: u64,
    /// Pages that were free by their last event and are allocated in the end state: their allocation has no event.
    pub(crate) appeared: u64,
    /// Requests for a huge page that were served.
    pub(crate) huge_served: u64,
    /// Rows before the first event.
    pub(crate) start_rows: u64,
    /// Blocks that reclaim freed.
    pub(crate) reclaimed: ReclaimOrder,
    /// Speed of reclaim and compaction, and the waits of kswapd.
    pub(crate) pace: Pace,
    /// Requests that reclaimed or compacted, in the order in which they began to stall.
    pub(crate) stalls: Vec<Stall>,
    /// Zones whose compaction was deferred at the start.
    pub(crate) deferred: Vec<DeferredZone>,
    /// The kernel's decisions about compaction, by request; `None` if the recording has no events of them.
    pub(crate) decisions: Option<RecordedSteps>,
    /// Direct reclaims and requests by mechanism.
    pub(crate) mechanisms: MechanismCounts,
}

/// State of the pass.
struct Pass {
    survey: Survey,
    mode: ReclaimMode,
    windows: Windows,
    stopwatch: Stopwatch,
    lists: Lists,
    stalls: Stalls,
    deferrals: Deferrals,
    decisions: Decisions,
    mechanisms: Mechanisms,
    frames: Frames,
    needs: Vec<Need>,
    moments: Vec<Moment>,
    range_needs: Vec<RangeNeed>,
    /// Rows at which pages were moved out of a range.
    emptied: Vec<u64>,
    neighbours: Neighbours,
    /// Whether the recorded kernel freed ranges as blocks.
    frees_in_blocks: bool,
    /// Tasks that are kernel workers.
    workers: FxHashSet<u32>,
    page_size: u64,
    row: u64,
    pageblock_order: Order,
}

impl Survey {
    /// Reads the recording once, for replays in this mode, and passes each batch to `keep`.
    ///
    /// # Errors
    /// If the recording cannot be read.
    pub(crate) fn read(reader: &Reader, mode: ReclaimMode, mut keep: impl FnMut(&Batch)) -> Result<Survey, Error> {
        let zones = machine::zones(reader.facts());
        let end = zones.map(|(zone, _)| zone.start_pfn + zone.spanned).max().unwrap_or(0) as usize;
        let mut pass = Pass {
            survey: Survey { end, ..Survey::default() },
            mode,
            windows: Windows::new(reader.facts()),
            stopwatch: Stopwatch::new(Lists::from_facts(reader.facts())),
            lists: Lists::from_facts(reader.facts()),
            stalls: Stalls::default(),
            deferrals: Deferrals::new(Order::new(reader.facts().pageblock_order)),
            decisions: Decisions::new(reader.facts()),
            mechanisms: Mechanisms::default(),
            frames: Frames::new(end),
            needs: Vec::new(),
            moments: Vec::new(),
            range_needs: Vec::new(),
            emptied: Vec::new(),
            neighbours: Neighbours::new(reader.facts().cpus, end, Order::new(reader.facts().pageblock_order)),
            frees_in_blocks: Release::parse(&reader.facts().kernel_release)
                .is_some_and(Release::frees_ranges_in_blocks),
            workers: workers(reader.facts()),
            page_size: u64::from(reader.facts().page_size.max(1)),
            pageblock_order: Order::new(reader.facts().pageblock_order),
            row: 0,
        };
        thread::scope(|scope| {
            let (decoded, batches) = mpsc::sync_channel(BATCHES_AHEAD);
            // The thread ends when all batches are read or the receiver is gone.
            scope.spawn(move || reader.batches().all(|batch| decoded.send(batch).is_ok()));
            batches.into_iter().try_for_each(|batch| {
                let batch = batch?;
                pass.visit_all(&batch);
                keep(&batch);
                Ok::<_, Error>(())
            })
        })?;
        Ok(pass.finish(reader.facts()))
    }
}

fn workers(facts: &Facts) -> FxHashSet<u32> {
    (0..).zip(&facts.tasks).filter(|(_, task)| task.name.starts_with("kworker")).map(|(index, _)| index).collect()
}

impl Pass {
    fn visit_all(&mut self, batch: &Batch) {
        for (index, row) in batch.rows().enumerate() {
            if index % AHEAD == 0 {
                self.frames.look_ahead(&batch.pfn()[index..batch.len().min(index + AHEAD)]);
            }
            self.visit(&row);
        }
    }

    fn visit(&mut self, row: &Row) {
        let is_free = row.kind == Kind::Free;
        // Consecutive frees by reclaim and compaction are no range.
        let ended = if is_free && self.windows.work(row.task) != Work::Own {
            self.neighbours.freed_for_memory(row)
        } else {
            let silent = if is_free { self.silent_since(row) } else { None };
            self.neighbours.observe(self.row, row, silent)
        };
        if let Some(together) = ended {
            self.freed_together(together);
        }
        self.stalls.observe(self.row, row, &self.windows);
        self.deferrals.observe(row);
        self.decisions.observe(self.row, row);
        self.mechanisms.observe(row);
        self.look_at(row);
        self.row += 1;
    }

    /// Returns the row of the last event on the frame that this row frees, if the frame is free by that event. The
    /// frame was then allocated silently.
    fn silent_since(&self, row: &Row) -> Option<u64> {
        let (start, _) = self.block(row)?;
        matches!(self.frames.state(start), Frame::Free | Frame::Cached).then(|| u64::from(self.frames.last(start)))
    }

    /// Records pages that were freed together. If the kernel freed them as blocks, the large blocks are on no per-CPU
    /// list.
    fn freed_together(&mut self, together: Together) {
        self.survey.together.push(together);
        self.range_needs.extend(take_range(&mut self.needs, together));
        if self.frees_in_blocks {
            for (pfn, order) in together.blocks() {
                let (start, end) = (pfn.index(), pfn.index() + order.pages() as usize);
                // Another CPU may have allocated some of them in the meantime.
                if (start..end).all(|frame| self.frames.state(frame) == Frame::Cached) {
                    self.frames.mark(start..end, self.where_free(order.get()));
                }
            }
        }
    }

    #[inline]
    fn look_at(&mut self, row: &Row) {
        match row.kind {
            Kind::Alloc if row.pfn == NO_PFN => self.survey.failures += 1,
            Kind::Alloc => self.allocated(row),
            Kind::Free => self.freed(row),
            Kind::ZoneLocked => {
                self.survey.zone_locked += 1;
                self.survey.from_reserve += u64::from(row.migratetype == migratetype::HIGHATOMIC);
                self.survey.refilled.insert((row.cpu, row.order, row.migratetype));
                self.left_free_list(row);
            }
            Kind::PcpuDrain => {
                self.survey.pcpu_drain += 1;
                if self.survey.tick.is_none() && self.workers.contains(&row.task) {
                    self.survey.tick = Some(row.time);
                }
                self.drained(row);
            }
            Kind::ExtFrag if row.args[2] != 0 => self.survey.claims += 1,
            Kind::ExtFrag => self.survey.steals += 1,
            Kind::AllocVmapArea => self.moment(row, row.args[0] as u64 / self.page_size, Place::PercpuList),
            Kind::MigratePages if row.args[2] == FOR_A_RANGE => self.emptied.push(self.row),
            Kind::MigratePages => self.moment(row, row.args[0] as u64, Place::FreeList),
            Kind::EndFree => self.ends_free(row),
            Kind::EndAllocated => self.ends_allocated(row),
            Kind::EndUnknown => {}
            Kind::StartFree | Kind::StartAllocated | Kind::StartUnknown | Kind::StartPageblock => self.visit_start(row),
            _ => self.visit_task(row),
        }
    }

    fn visit_start(&mut self, row: &Row) {
        self.survey.start_rows += 1;
        match row.kind {
            Kind::StartFree => self.starts_free(row),
            Kind::StartAllocated => self.starts_allocated(row),
            Kind::StartUnknown if row.args[1] == NOT_YET_MEMORY => {}
            Kind::StartUnknown => self.mark(row.pfn, row.args[0].max(0) as usize, Frame::Unknown),
            _ => self.starts_typed(row),
        }
    }

    /// Handles an event about a task and no page.
    fn visit_task(&mut self, row: &Row) {
        self.windows.observe(row);
        self.stopwatch.observe(row, &self.windows);
        if row.kind == Kind::LruShrinkInactive {
            self.survey.reclaimed.note_scan(row, self.lists);
        }
    }

    fn moment(&mut self, row: &Row, pages: u64, place: Place) {
        self.moments.push(Moment { row: self.row, cpu: row.cpu, pages, place });
    }

    /// Returns the first frame and the number of frames of a block; `None` if the block exceeds the known frames.
    fn block(&self, row: &Row) -> Option<(usize, usize)> {
        let pages = 1_usize.checked_shl(u32::from(row.order))?;
        let start = usize::try_from(row.pfn).ok()?;
        (start.checked_add(pages)? <= self.frames.len()).then_some((start, pages))
    }

    fn mark(&mut self, pfn: u64, pages: usize, state: Frame) {
        let start = usize::try_from(pfn).unwrap_or(usize::MAX).min(self.frames.len());
        let end = start.saturating_add(pages).min(self.frames.len());
        self.frames.mark(start..end, state);
    }

    fn settle(&mut self, start: usize, pages: usize, state: Frame) {
        self.frames.settle(start..start + pages, state, self.row as u32);
    }

    /// Sets the state of frames by a row of the start state.
    fn starts(&mut self, start: usize, pages: usize, state: Frame) {
        self.frames.start(start..start + pages, state, self.row as u32);
    }

    /// Returns the place of a block of this order after it was freed, or taken from a free list for allocation.
    fn where_free(&self, order: u8) -> Frame {
        let has_list = Order::from_u8(order).is_some_and(|order| has_pcp_list(order, self.pageblock_order));
        if has_list { Frame::Cached } else { Frame::Free }
    }

    /// Returns the first frames of the blocks of a row of allocated memory, and their sizes in pages. Reserved memory
    /// is left out.
    fn pieces(&self, row: &Row) -> impl Iterator<Item = (usize, usize)> + use<> {
        let first = self.block(row).filter(|_| row.args[1] & class::RESERVED == 0);
        let (count, end) = (row.args[0].max(0) as usize, self.frames.len());
        first.into_iter().flat_map(move |(start, pages)| {
            (start..end)
                .step_by(pages)
                .take(count)
                .map(move |at| (at, pages))
                .filter(move |(at, pages)| at + pages <= end)
        })
    }

    fn allocated(&mut self, row: &Row) {
        self.survey.huge_served += u64::from(row.order == HUGE);
        let Some((start, pages)) = self.block(row) else { return };
        if self.frames.state(start) == Frame::Unknown {
            self.survey.cached.push(CachedBlock::from_row(start, row));
        }
        self.settle(start, pages, Frame::Live);
    }

    fn freed(&mut self, row: &Row) {
        let work = self.windows.work(row.task);
        if work == Work::Reclaiming {
            let born = self.frames.last(row.pfn as usize);
            self.survey.reclaimed.push(row, self.row, u64::from(born));
        }
        let Some((start, pages)) = self.block(row) else { return };
        match self.frames.state(start) {
            Frame::Unknown => {
                self.survey.allocated.push(AllocatedBlocks {
                    pfn: start as u32,
                    blocks: 1,
                    order: row.order,
                    movable: false,
                    mapping: false,
                    age: None,
                });
            }
            // A target that compaction isolated but did not use.
            Frame::Free | Frame::Cached if work == Work::Compacting && self.mode == ReclaimMode::Model => return,
            Frame::Free | Frame::Cached => self.silent(start, row.order, row.cpu),
            Frame::Live | Frame::Outside => {}
        }
        self.settle(start, pages, self.where_free(row.order));
    }

    fn left_free_list(&mut self, row: &Row) {
        let Some((start, pages)) = self.block(row) else { return };
        if self.frames.state(start) == Frame::Unknown {
            self.survey.free.push(FreeBlock { pfn: start as u32, order: row.order });
        }
        if self.frames.state(start) != Frame::Live {
            self.settle(start, pages, self.where_free(row.order));
        }
    }

    fn drained(&mut self, row: &Row) {
        let Some((start, pages)) = self.block(row) else { return };
        if self.frames.state(start) == Frame::Unknown {
            self.survey.cached.push(CachedBlock::from_row(start, row));
        }
        if self.frames.state(start) != Frame::Live {
            self.settle(start, pages, Frame::Free);
        }
    }

    /// Records an allocation without event, between the frame's last event and this row.
    fn silent(&mut self, start: usize, order: u8, cpu: u16) {
        let place = match self.frames.state(start) {
            Frame::Cached => Place::PercpuList,
            _ => Place::FreeList,
        };
        let after = u64::from(self.frames.last(start));
        self.needs.push(Need { after, before: self.row, pfn: start as u32, order, cpu, place });
    }

    /// Records a run of pageblocks of one type, limited to the known frames.
    fn starts_typed(&mut self, row: &Row) {
        let Some((start, _)) = self.block(row) else { return };
        let left = (self.frames.len() - start).div_ceil(self.pageblock_order.pages() as usize);
        let blocks = (row.args[1].max(1) as usize).min(left) as u32;
        self.survey.pageblocks.push(PageblockRun { pfn: start as u32, blocks, migratetype: row.migratetype });
    }

    fn starts_free(&mut self, row: &Row) {
        let Some((start, pages)) = self.block(row) else { return };
        self.survey.free.push(FreeBlock { pfn: start as u32, order: row.order });
        self.starts(start, pages, Frame::Free);
    }

    fn starts_allocated(&mut self, row: &Row) {
        let (class, blocks) = (row.args[1], self.pieces(row).count());
        let movable = class & class::LRU != 0;
        if movable {
            self.neighbours.start_with_users(row.pfn as usize..row.pfn as usize + (blocks << row.order));
        }
        if blocks > 0 {
            let (pfn, blocks) = (row.pfn as u32, blocks as u32);
            self.survey.allocated.push(AllocatedBlocks {
                pfn,
                blocks,
                order: row.order,
                movable,
                mapping: movable && class & class::ANON == 0,
                age: Age::from_class(class),
            });
            self.starts(pfn as usize, (blocks as usize) << row.order, Frame::Live);
        }
    }

    fn ends_free(&mut self, row: &Row) {
        let order = usize::from(row.order);
        if self.survey.end_free.len() <= order {
            self.survey.end_free.resize(order + 1, 0);
        }
        self.survey.end_free[order] += 1;
    }

    /// Blocks that are allocated at the end but free by their last event were allocated silently.
    fn ends_allocated(&mut self, row: &Row) {
        for (start, pages) in self.pieces(row) {
            if matches!(self.frames.state(start), Frame::Free | Frame::Cached) {
                self.silent(start, row.order, 0);
                self.survey.appeared += pages as u64;
                self.settle(start, pages, Frame::Live);
            }
        }
    }

    fn finish(mut self, facts: &Facts) -> Survey {
        self.survey.reclaimed.finish();
        let last = self.neighbours.end_all();
        last.into_iter().for_each(|together| self.freed_together(together));
        self.survey.together_listed = self.neighbours.listed();
        self.survey.together.sort_by_key(|together| together.row);
        self.survey.pace = self.stopwatch.pace(facts);
        self.survey.stalls = self.stalls.finish();
        self.survey.deferred = self.deferrals.finish();
        self.survey.decisions = self.decisions.finish();
        self.survey.mechanisms = self.mechanisms.counts();
        self.survey.untouched = self.frames.untouched();
        self.survey.silent = silent::place(self.needs, &self.moments);
        self.survey.silent.extend(silent::place_ranges(&self.range_needs, &self.emptied));
        self.survey.silent.sort_by_key(|silent| silent.before);
        self.survey
    }
}
