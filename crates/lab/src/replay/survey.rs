//! The first pass: what the events do not say.
//!
//! *Frames without page flags.* At the start, a frame that the page flags say nothing about is on a per-CPU list or
//! allocated by the kernel. The first event on it tells: if it is allocated, or drained, it was on a
//! list; if it is freed, it was allocated, as a block of that order; if it leaves a free list, it was free. Frames on
//! which nothing happens count as allocated, but as many as the recorded lists still lack are taken to be on them.
//!
//! *Silent hand-overs.* Bulk allocations and the targets of migrations have no event; ranges that are taken
//! back have none either. Nothing is lost by that, since the other end is seen: a frame that is freed while it is free was
//! allocated silently before; one that is allocated while it is allocated was freed. When it happened is not
//! known. A silent allocation is placed at the first moment after the frame's last event at which a bulk allocation or
//! a migration is known to have taken place, else just before its free; a silent free just before the
//! allocation that shows it.

use freehold_trace::event::{NO_PFN, class};
use freehold_trace::{Kind, Reader, Row};

use super::machine;
use crate::error::Error;

/// `args[1]` of pages without flags that the kernel had not given to its allocator yet.
const NOT_YET_MEMORY: i64 = 2;

/// What one frame was when last heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Frame {
    /// Not RAM, or never the allocator's.
    Outside,
    /// On a free or a per-CPU list.
    Free,
    /// Allocated.
    Live,
    /// RAM without flags, and no event yet.
    Unknown,
}

/// A block that was on a CPU's list when the recording started.
#[derive(Clone, Copy, Debug)]
pub struct Cached {
    pub pfn: u32,
    pub order: u8,
    pub cpu: u16,
    /// The list's type: that of the request that was served from it, or of the pageblock when it was drained.
    pub migratetype: i8,
}

/// A block that was allocated when the recording started.
#[derive(Clone, Copy, Debug)]
pub struct Owned {
    pub pfn: u32,
    pub order: u8,
    pub movable: bool,
}

/// A block that was free when the recording started.
#[derive(Clone, Copy, Debug)]
pub struct Loose {
    pub pfn: u32,
    pub order: u8,
}

/// A pageblock's type.
#[derive(Clone, Copy, Debug)]
pub struct Typed {
    pub pfn: u32,
    pub blocks: u32,
    pub migratetype: i8,
}

/// An allocation that the kernel did not report, and where to play it.
#[derive(Clone, Copy, Debug)]
pub struct Silent {
    /// Before the row with this number.
    pub before: u64,
    pub pfn: u32,
    pub order: u8,
    pub cpu: u16,
    pub movable: bool,
}

/// A moment at which pages are known to have been allocated without an event.
#[derive(Clone, Copy, Debug)]
struct Moment {
    row: u64,
    cpu: u16,
    movable: bool,
}

/// What the first pass found.
#[derive(Debug, Default)]
pub struct Survey {
    /// Frames below this number can be named.
    pub end: usize,
    pub pageblocks: Vec<Typed>,
    pub loose: Vec<Loose>,
    pub owned: Vec<Owned>,
    /// In the order in which they are used: the first is at the head of its list.
    pub cached: Vec<Cached>,
    /// Frames without flags or events.
    pub untouched: Vec<u32>,
    /// In order of time.
    pub silent: Vec<Silent>,
    /// Blocks free by order, pageblocks and pages at the end, from the end state; empty if there is none.
    pub end_free: Vec<u64>,
    /// Recorded events by kind that the engine should show too.
    pub zone_locked: u64,
    pub pcpu_drain: u64,
    pub failures: u64,
    /// Frames allocated at the end of which no event ever spoke.
    pub appeared: u64,
}

/// The pass while it runs.
struct Pass {
    survey: Survey,
    frames: Vec<Frame>,
    /// Row of the last event on each frame.
    last: Vec<u32>,
    moments: Vec<Moment>,
    row: u64,
}

impl Survey {
    /// Reads the recording once.
    pub fn of(reader: &Reader) -> Result<Survey, Error> {
        let zones = machine::zones(reader.facts());
        let end = zones.map(|(zone, _)| zone.start_pfn + zone.spanned).max().unwrap_or(0) as usize;
        let mut pass = Pass {
            survey: Survey { end, ..Survey::default() },
            frames: vec![Frame::Outside; end],
            last: vec![0; end],
            moments: Vec::new(),
            row: 0,
        };
        for batch in reader.batches() {
            let batch = batch?;
            for row in batch.rows() {
                pass.visit(&row);
                pass.row += 1;
            }
        }
        Ok(pass.finish())
    }
}

fn cached(start: usize, row: &Row) -> Cached {
    Cached { pfn: start as u32, order: row.order, cpu: row.cpu, migratetype: row.migratetype }
}

impl Pass {
    fn visit(&mut self, row: &Row) {
        match row.kind {
            Kind::Alloc if row.pfn == NO_PFN => self.survey.failures += 1,
            Kind::Alloc => self.allocated(row),
            Kind::Free => self.freed(row),
            Kind::ZoneLocked => {
                self.survey.zone_locked += 1;
                self.left_free_list(row);
            }
            Kind::PcpuDrain => {
                self.survey.pcpu_drain += 1;
                self.drained(row);
            }
            Kind::AllocVmapArea => self.moment(row, false),
            Kind::CompactionMigrate | Kind::MigratePages if row.args[0] > 0 => self.moment(row, true),
            Kind::StartFree => self.starts_free(row),
            Kind::StartAllocated => self.starts_allocated(row),
            Kind::StartUnknown if row.args[1] == NOT_YET_MEMORY => {}
            Kind::StartUnknown => self.mark(row.pfn, row.args[0].max(0) as usize, Frame::Unknown),
            Kind::StartPageblock => self.survey.pageblocks.push(Typed {
                pfn: row.pfn as u32,
                blocks: row.args[1].max(1) as u32,
                migratetype: row.migratetype,
            }),
            Kind::EndFree => self.ends_free(row),
            Kind::EndAllocated => self.ends_allocated(row),
            _ => {}
        }
    }

    fn moment(&mut self, row: &Row, movable: bool) {
        self.moments.push(Moment { row: self.row, cpu: row.cpu, movable });
    }

    /// The frames of a block, if all of them can be named.
    fn block(&self, row: &Row) -> Option<(usize, usize)> {
        let pages = 1_usize.checked_shl(u32::from(row.order))?;
        let start = usize::try_from(row.pfn).ok()?;
        (start.checked_add(pages)? <= self.frames.len()).then_some((start, pages))
    }

    fn mark(&mut self, pfn: u64, pages: usize, state: Frame) {
        let start = usize::try_from(pfn).unwrap_or(usize::MAX).min(self.frames.len());
        let end = start.saturating_add(pages).min(self.frames.len());
        self.frames[start..end].fill(state);
    }

    fn settle(&mut self, start: usize, pages: usize, state: Frame) {
        self.frames[start..start + pages].fill(state);
        self.last[start..start + pages].fill(self.row as u32);
    }

    fn allocated(&mut self, row: &Row) {
        let Some((start, pages)) = self.block(row) else { return };
        if self.frames[start] == Frame::Unknown {
            self.survey.cached.push(cached(start, row));
        }
        self.settle(start, pages, Frame::Live);
    }

    fn freed(&mut self, row: &Row) {
        let Some((start, pages)) = self.block(row) else { return };
        match self.frames[start] {
            Frame::Unknown => {
                self.survey.owned.push(Owned { pfn: start as u32, order: row.order, movable: false });
            }
            Frame::Free => self.silent(start, row.order, row.cpu, self.row),
            Frame::Live | Frame::Outside => {}
        }
        self.settle(start, pages, Frame::Free);
    }

    fn left_free_list(&mut self, row: &Row) {
        let Some((start, pages)) = self.block(row) else { return };
        if self.frames[start] == Frame::Unknown {
            self.survey.loose.push(Loose { pfn: start as u32, order: row.order });
            self.settle(start, pages, Frame::Free);
        }
        self.last[start..start + pages].fill(self.row as u32);
    }

    fn drained(&mut self, row: &Row) {
        let Some((start, pages)) = self.block(row) else { return };
        if self.frames[start] == Frame::Unknown {
            self.survey.cached.push(cached(start, row));
            self.settle(start, pages, Frame::Free);
        }
    }

    /// Notes an allocation without event, at the first moment between the frame's last event and now.
    fn silent(&mut self, start: usize, order: u8, cpu: u16, now: u64) {
        let last = u64::from(self.last[start]);
        let index = self.moments.partition_point(|moment| moment.row <= last);
        let silent = match self.moments.get(index) {
            Some(moment) => {
                Silent { before: moment.row, pfn: start as u32, order, cpu: moment.cpu, movable: moment.movable }
            }
            None => Silent { before: now, pfn: start as u32, order, cpu, movable: false },
        };
        self.survey.silent.push(silent);
    }

    fn starts_free(&mut self, row: &Row) {
        let Some((start, pages)) = self.block(row) else { return };
        self.survey.loose.push(Loose { pfn: start as u32, order: row.order });
        self.settle(start, pages, Frame::Free);
    }

    fn starts_allocated(&mut self, row: &Row) {
        let classes = row.args[1];
        if classes & class::RESERVED != 0 {
            return;
        }
        let movable = classes & class::LRU != 0;
        for index in 0..row.args[0].max(0) as u64 {
            let piece = Row { pfn: row.pfn + (index << row.order.min(63)), ..*row };
            let Some((start, pages)) = self.block(&piece) else { return };
            self.survey.owned.push(Owned { pfn: start as u32, order: row.order, movable });
            self.settle(start, pages, Frame::Live);
        }
    }

    fn ends_free(&mut self, row: &Row) {
        let order = usize::from(row.order);
        if self.survey.end_free.len() <= order {
            self.survey.end_free.resize(order + 1, 0);
        }
        self.survey.end_free[order] += 1;
    }

    /// What is allocated at the end and was free at its last event was allocated silently.
    fn ends_allocated(&mut self, row: &Row) {
        if row.args[1] & class::RESERVED != 0 {
            return;
        }
        for index in 0..row.args[0].max(0) as u64 {
            let piece = Row { pfn: row.pfn + (index << row.order.min(63)), ..*row };
            let Some((start, pages)) = self.block(&piece) else { return };
            if self.frames[start] == Frame::Free {
                self.silent(start, row.order, 0, self.row);
                self.survey.appeared += pages as u64;
                self.settle(start, pages, Frame::Live);
            }
        }
    }

    fn finish(mut self) -> Survey {
        let unknown = self.frames.iter().enumerate().filter(|&(_, &frame)| frame == Frame::Unknown);
        self.survey.untouched = unknown.map(|(pfn, _)| pfn as u32).collect();
        self.survey.silent.sort_by_key(|silent| silent.before);
        self.survey
    }
}
