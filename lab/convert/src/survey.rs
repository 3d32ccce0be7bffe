//! Survey of the events: every row goes to the spool, and all information for the start state is collected.
//!
//! Cost: some tens of nanoseconds a row. Memory: a byte and two bits for each frame up to the highest one that an event
//! names.

use std::collections::BTreeMap;
use std::path::Path;

use freehold_trace::event::{Kind, NO_PFN, Row, migratetype};
use freehold_trace::state::{FirstEvents, Votes};

use crate::drops::{Counted, Drops};
use crate::error::Error;
use crate::item::Item;
use crate::pairs::Pairs;
use crate::spool::Spool;
use crate::tasks::Tasks;

/// Limits of the values in rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Number of frames; frame numbers are below it.
    pub frames: u64,
    /// Highest order.
    pub order: u8,
    /// Order of a pageblock.
    pub pageblock_order: u8,
}

/// Results of the survey.
pub(crate) struct Survey {
    limits: Limits,
    /// The rows, with times since the first one.
    pub spool: Spool,
    pub tasks: Tasks,
    /// Rows by kind.
    pub counts: BTreeMap<Kind, u64>,
    /// Time of the first row on the file's clock.
    first: Option<u64>,
    /// Nanoseconds from the first row to the latest.
    pub duration: u64,
    /// Events that were lost, as far as the file gives their number.
    pub lost: u64,
    /// Places where an unknown number of events was lost.
    pub gaps: u64,
    /// Rows that were older than the previous one and got its time.
    pub backward: u64,
    /// Rows that no machine can produce, which were left out.
    pub drops: Drops,
    /// Rows with the migratetype whose number depends on the kernel's configuration.
    pub isolated: u64,
    /// Highest CPU number plus one.
    pub cpus: u16,
    /// Whether each CPU fired an event.
    pub seen: Vec<bool>,
    /// Highest order of a block that was allocated, moved or requested. Frees are not considered, since they may be of
    /// several blocks: of a huge page of hugetlbfs.
    pub order_max: u8,
    /// Pages that were passed on without an event of their own, according to other events.
    pub migrated: u64,
    pub compacted: u64,
    pub mapped: u64,
    /// Highest frame plus one.
    pub frames: u64,
    /// Highest frame below 4 GiB plus one.
    pub frames_low: u64,
    pub first_events: FirstEvents,
    pub votes: Votes,
    pub pairs: Pairs,
}

/// Bytes of the smallest page.
const PAGE_MIN: u64 = 4096;

/// Frames that an import accepts if the size of memory was not stated: 1 TiB of 4 KiB pages.
pub(crate) const FRAMES_GUESSED: u64 = 1 << 28;

/// Frames below 4 GiB, of 4 KiB.
pub(crate) const FRAMES_LOW: u64 = 1 << 20;

impl Survey {
    /// Creates the survey before the first row. Rows are stored in this folder.
    pub(crate) fn new(folder: &Path, limits: Limits) -> Result<Survey, Error> {
        Ok(Survey {
            limits,
            spool: Spool::create(folder)?,
            tasks: Tasks::new(),
            counts: BTreeMap::new(),
            first: None,
            duration: 0,
            lost: 0,
            gaps: 0,
            backward: 0,
            drops: Drops::default(),
            isolated: 0,
            cpus: 1,
            seen: Vec::new(),
            order_max: 0,
            migrated: 0,
            compacted: 0,
            mapped: 0,
            frames: 0,
            frames_low: 0,
            first_events: FirstEvents::new(&[], limits.pageblock_order),
            votes: Votes::new(limits.pageblock_order),
            pairs: Pairs::default(),
        })
    }

    /// Handles the next item of the file.
    #[inline]
    pub(crate) fn take(&mut self, item: Item) -> Result<(), Error> {
        match item {
            Item::Row { pid, row } => return self.row(pid, row),
            Item::Named { pid, name } => self.tasks.rename(pid, name),
            Item::Born { pid, parent, name } => self.tasks.born(pid, parent, name),
            Item::Lost(events) => self.lost = self.lost.saturating_add(events),
            Item::Gap => self.gaps += 1,
        }
        Ok(())
    }

    #[inline]
    fn row(&mut self, pid: u32, row: Row) -> Result<(), Error> {
        if let Err(reason) = self.limits.admit(&row) {
            self.drops.add(Counted::Events(row.kind), reason, || {
                format!("pfn {:#x}, order {}, migratetype {}", row.pfn, row.order, row.migratetype)
            });
            return Ok(());
        }
        let first = *self.first.get_or_insert(row.time);
        let time = row.time.saturating_sub(first);
        self.backward += u64::from(time < self.duration || row.time < first);
        self.duration = self.duration.max(time);
        let mut row = Row { time: self.duration, task: self.tasks.index(pid), ..row };
        if row.kind.names_task() {
            // Thread ids fit 32 bits.
            row.args[0] = self.tasks.index(row.args[0] as u32).into();
        }
        *self.counts.entry(row.kind).or_default() += 1;
        self.see_cpu(row.cpu);
        self.isolated += u64::from(row.migratetype == migratetype::CMA);
        if row.kind != Kind::Free {
            self.order_max = self.order_max.max(row.order);
        }
        if row.pfn == NO_PFN {
            self.observe_transfer(&row);
        } else {
            self.reach(&row);
            self.first_events.observe(&row);
            self.votes.observe(&row);
            self.pairs.observe(&row);
        }
        self.spool.push(&row)
    }

    /// Handles an event about pages that are passed on without an event of their own.
    fn observe_transfer(&mut self, row: &Row) {
        let pages = row.args[0].max(0).cast_unsigned();
        let sum = match row.kind {
            Kind::MigratePages => &mut self.migrated,
            Kind::CompactionMigrate => &mut self.compacted,
            Kind::AllocVmapArea => &mut self.mapped,
            _ => return,
        };
        *sum = sum.saturating_add(if row.kind == Kind::AllocVmapArea { pages / PAGE_MIN } else { pages });
    }

    #[inline]
    fn see_cpu(&mut self, cpu: u16) {
        let index = usize::from(cpu);
        if index >= self.seen.len() {
            self.cpus = cpu.saturating_add(1);
            self.seen.resize(index + 1, false);
        }
        self.seen[index] = true;
    }

    /// Extends the state to the frames that a row names.
    fn reach(&mut self, row: &Row) {
        let pages = if row.kind.names_place() { 1 } else { 1 << row.order };
        let end = row.pfn + pages;
        if row.kind.names_place() || end <= self.frames && row.pfn >= FRAMES_LOW {
            return;
        }
        if end <= FRAMES_LOW {
            self.frames_low = self.frames_low.max(end);
        }
        if end > self.frames {
            self.frames = end;
            // Reserves an eighth more, so that the state is not extended again at every row.
            self.first_events.reach((end + end / 8) as usize);
        }
    }
}

impl Limits {
    /// Checks whether a machine can produce a row.
    ///
    /// # Errors
    /// Returns the reason if it cannot.
    fn admit(&self, row: &Row) -> Result<(), &'static str> {
        let (orders, types) = (0..=i64::from(self.order), 0..=i64::from(migratetype::ISOLATE));
        let is_fallback = orders.contains(&row.args[0]) && types.contains(&row.args[1]);
        if row.order > self.order || row.kind == Kind::ExtFrag && !is_fallback {
            return Err("an order above 20, or an unknown migratetype");
        }
        if row.pfn != NO_PFN && row.pfn >= self.frames {
            return Err(match self.frames {
                ..=FRAMES_GUESSED => "a frame above 1 TiB; if this is correct, give the size of memory with --memory",
                _ => "a frame above the stated memory",
            });
        }
        if row.kind != Kind::CompactionEnd && row.migratetype > migratetype::ISOLATE {
            return Err("an unknown migratetype");
        }
        i64::try_from(row.time).map(|_| ()).map_err(|_| "a time above 292 years")
    }
}
