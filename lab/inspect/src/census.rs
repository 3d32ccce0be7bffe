//! Counts of rows: by kind, order, GFP class, migratetype and task.

use freehold_report::report::map::TYPES;
use freehold_trace::event::NO_PFN;
use freehold_trace::{Facts, Kind, Row, gfp_names};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use super::lifetimes::{ORDERS, order_index, share};

/// Number of task names with a separate row; the rest are summed up.
const TOP: usize = 12;

/// Rows of one kind: events, or parts of the state at the start or the end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindRow {
    /// Kind, in snake case.
    pub kind: String,
    /// Number of rows.
    pub events: u64,
    /// Events per second of the recording; `None` for rows of state, and for a recording without length.
    pub per_second: Option<f64>,
}

/// Requests and frees of one order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OrderRow {
    /// Order; the last row also contains larger orders.
    pub order: u8,
    /// Allocations that succeeded.
    pub allocations: u64,
    /// Allocations that failed.
    pub failed: u64,
    /// Frees.
    pub frees: u64,
    /// Share of all requests and frees.
    pub share: f64,
}

/// Requests of one GFP class or mask.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GfpRow {
    /// Name of the class or mask.
    pub name: String,
    /// Allocations that succeeded.
    pub allocations: u64,
    /// Allocations that failed.
    pub failed: u64,
    /// Share of all requests.
    pub share: f64,
}

/// Requests and zone traffic of one migratetype.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MigratetypeRow {
    /// Linux's name of the migratetype.
    pub migratetype: &'static str,
    /// Requests for the migratetype.
    pub requests: u64,
    /// Blocks that left the zone's free lists of this type.
    pub blocks_from_zone: u64,
    /// Blocks that were drained into the zone's free lists of this type.
    pub blocks_to_zone: u64,
}

/// Requests and frees of the tasks with one name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskRow {
    /// Name of the tasks.
    pub name: String,
    /// Tasks with this name.
    pub tasks: u64,
    /// Allocations, including failed ones.
    pub allocations: u64,
    /// Frees.
    pub frees: u64,
    /// Share of all allocations and frees.
    pub share: f64,
}

/// Returns the name of a migratetype; "unknown" for an invalid number.
pub(crate) fn migratetype_name(migratetype: i64) -> &'static str {
    usize::try_from(migratetype).ok().and_then(|index| TYPES.get(index)).copied().unwrap_or("unknown")
}

#[derive(Clone, Copy, Debug, Default)]
struct Requests {
    granted: u64,
    failed: u64,
    frees: u64,
    /// Pages that were allocated.
    pages: u64,
}

impl Requests {
    fn total(&self) -> u64 {
        self.granted + self.failed + self.frees
    }
}

/// Counters of rows.
#[derive(Debug)]
pub(crate) struct Census {
    kinds: [u64; 128],
    orders: [Requests; ORDERS],
    masks: FxHashMap<u32, Requests>,
    migratetypes: [[u64; 3]; TYPES.len()],
    tasks: Vec<Requests>,
}

impl Census {
    /// Creates counters that are all zero.
    pub(crate) fn new() -> Census {
        Census {
            kinds: [0; 128],
            orders: [Requests::default(); ORDERS],
            masks: FxHashMap::default(),
            migratetypes: [[0; 3]; TYPES.len()],
            tasks: Vec::new(),
        }
    }

    /// Counts a row of any kind.
    #[inline]
    pub(crate) fn observe(&mut self, row: &Row) {
        self.kinds[row.kind as usize] += 1;
        match row.kind {
            Kind::Alloc => self.count_alloc(row),
            Kind::Free => self.count_free(row),
            Kind::ZoneLocked => self.count_migratetype(row, 1),
            Kind::PcpuDrain => self.count_migratetype(row, 2),
            _ => {}
        }
    }

    /// Returns the kinds of rows that occurred, with their numbers. `seconds` is the length of the recording.
    pub(crate) fn kinds(&self, seconds: f64) -> Vec<KindRow> {
        let rows = Kind::ALL.into_iter().map(|kind| {
            let events = self.kinds[kind as usize];
            let is_event = (kind as u8) < Kind::StartFree as u8;
            let per_second = (is_event && seconds > 0.0).then(|| events as f64 / seconds);
            KindRow { kind: snake_case(&format!("{kind:?}")), events, per_second }
        });
        rows.filter(|row| row.events > 0).collect()
    }

    /// Returns the orders that occurred.
    pub(crate) fn orders(&self) -> Vec<OrderRow> {
        let total = self.orders.iter().map(Requests::total).sum();
        let occurring = self.orders.iter().enumerate().filter(|(_, requests)| requests.total() > 0);
        let rows = occurring.map(|(order, requests)| OrderRow {
            order: order as u8,
            allocations: requests.granted,
            failed: requests.failed,
            frees: requests.frees,
            share: share(requests.total(), total),
        });
        rows.collect()
    }

    /// Returns the requests by GFP class, the most frequent first.
    pub(crate) fn gfp_classes(&self) -> Vec<GfpRow> {
        self.gfp_rows(|mask| gfp_names::class(mask).to_owned())
    }

    /// Returns the requests by whole GFP mask, the most frequent first.
    pub(crate) fn gfp_masks(&self) -> Vec<GfpRow> {
        self.gfp_rows(gfp_names::name)
    }

    /// Returns the migratetypes that occurred.
    pub(crate) fn migratetypes(&self) -> Vec<MigratetypeRow> {
        let occurring = TYPES.iter().zip(&self.migratetypes).filter(|(_, counts)| **counts != [0; 3]);
        let rows = occurring.map(|(migratetype, counts)| MigratetypeRow {
            migratetype,
            requests: counts[0],
            blocks_from_zone: counts[1],
            blocks_to_zone: counts[2],
        });
        rows.collect()
    }

    /// Returns the busiest tasks by name, and the rest in one row.
    pub(crate) fn tasks(&self, facts: &Facts) -> Vec<TaskRow> {
        let total = self.tasks.iter().map(Requests::total).sum();
        let mut names: FxHashMap<&str, (u64, Requests)> = FxHashMap::default();
        for (index, requests) in self.tasks.iter().enumerate().filter(|(_, requests)| requests.total() > 0) {
            let name = facts.tasks.get(index).map_or("unknown", |task| task.name.as_str());
            let (tasks, sum) = names.entry(name).or_default();
            *tasks += 1;
            sum.granted += requests.granted + requests.failed;
            sum.frees += requests.frees;
        }
        let mut rows: Vec<_> = names
            .into_iter()
            .map(|(name, (tasks, sum))| TaskRow {
                name: name.to_owned(),
                tasks,
                allocations: sum.granted,
                frees: sum.frees,
                share: share(sum.total(), total),
            })
            .collect();
        rows.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.name.cmp(&b.name)));
        fold_tail(rows)
    }

    /// Returns the number of requests, including failed ones, and of allocated pages of the tasks with these thread
    /// ids.
    pub(crate) fn of_tasks(&self, facts: &Facts, pids: &[u32]) -> (u64, u64) {
        let pids: FxHashSet<u32> = pids.iter().copied().collect();
        let tasks = facts.tasks.iter().zip(&self.tasks).filter(|(task, _)| pids.contains(&task.pid));
        tasks.fold((0, 0), |(requests, pages), (_, of)| (requests + of.granted, pages.saturating_add(of.pages)))
    }

    #[inline]
    fn count_alloc(&mut self, row: &Row) {
        let failed = u64::from(row.pfn == NO_PFN);
        for requests in [&mut self.orders[order_index(row.order)], self.masks.entry(row.gfp).or_default()] {
            requests.granted += 1 - failed;
            requests.failed += failed;
        }
        let task = self.task(row.task);
        task.granted += 1;
        task.pages = task.pages.saturating_add((1 - failed) << order_index(row.order));
        self.count_migratetype(row, 0);
    }

    #[inline]
    fn count_free(&mut self, row: &Row) {
        self.orders[order_index(row.order)].frees += 1;
        self.task(row.task).frees += 1;
    }

    #[inline]
    fn task(&mut self, task: u32) -> &mut Requests {
        let index = task as usize;
        if index >= self.tasks.len() {
            self.tasks.resize(index + 1, Requests::default());
        }
        &mut self.tasks[index]
    }

    #[inline]
    fn count_migratetype(&mut self, row: &Row, column: usize) {
        if let Some(counts) = usize::try_from(row.migratetype).ok().and_then(|index| self.migratetypes.get_mut(index)) {
            counts[column] += 1;
        }
    }

    fn gfp_rows(&self, name: impl Fn(u32) -> String) -> Vec<GfpRow> {
        let total = self.masks.values().map(Requests::total).sum();
        let mut sums: FxHashMap<String, Requests> = FxHashMap::default();
        for (&mask, requests) in &self.masks {
            let sum = sums.entry(name(mask)).or_default();
            sum.granted += requests.granted;
            sum.failed += requests.failed;
        }
        let mut rows: Vec<_> = sums
            .into_iter()
            .map(|(name, sum)| GfpRow {
                name,
                allocations: sum.granted,
                failed: sum.failed,
                share: share(sum.total(), total),
            })
            .collect();
        rows.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.name.cmp(&b.name)));
        rows
    }
}

/// Keeps the first rows and sums up the rest in one row.
fn fold_tail(mut rows: Vec<TaskRow>) -> Vec<TaskRow> {
    if rows.len() <= TOP + 1 {
        return rows;
    }
    let tail = rows.split_off(TOP);
    rows.push(TaskRow {
        name: format!("({} more names)", tail.len()),
        tasks: tail.iter().map(|row| row.tasks).sum(),
        allocations: tail.iter().map(|row| row.allocations).sum(),
        frees: tail.iter().map(|row| row.frees).sum(),
        share: tail.iter().map(|row| row.share).sum(),
    });
    rows
}

/// Converts a name such as `ZoneLocked` to `zone_locked`.
fn snake_case(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use freehold_trace::facts::Task;

    use super::*;

    #[test]
    fn requests_failures_and_frees_are_counted_separately() {
        let mut census = Census::new();
        let alloc = Row { pfn: 1, order: 3, gfp: 0xcc0, migratetype: 0, ..Row::new(Kind::Alloc) };
        census.observe(&alloc);
        census.observe(&Row { pfn: NO_PFN, gfp: 0xdc0, ..alloc });
        census.observe(&Row { pfn: 1, order: 3, ..Row::new(Kind::Free) });
        let orders = census.orders();
        assert_eq!((orders[0].allocations, orders[0].failed, orders[0].frees), (1, 1, 1));
        assert_eq!(census.gfp_classes().len(), 1);
        assert_eq!(census.gfp_masks().len(), 2);
        assert_eq!(census.migratetypes()[0].requests, 2);
        assert_eq!(census.kinds(2.0)[0].per_second, Some(1.0));
    }

    #[test]
    fn excess_tasks_are_summed_in_one_row() {
        let mut census = Census::new();
        let mut facts = Facts::default();
        for task in 0..40 {
            facts.tasks.push(Task { pid: task, name: format!("t{}", task / 2) });
            census.observe(&Row { task, ..Row::new(Kind::Free) });
        }
        let rows = census.tasks(&facts);
        assert_eq!(rows.len(), TOP + 1);
        assert_eq!(rows.iter().map(|row| row.frees).sum::<u64>(), 40);
        assert_eq!(rows.iter().map(|row| row.tasks).sum::<u64>(), 40);
    }

    #[test]
    fn kinds_are_named_in_snake_case() {
        assert_eq!(snake_case("LruShrinkInactive"), "lru_shrink_inactive");
    }
}
