//! Frees of single pages that the recorded kernel freed in one call. The replay also frees them in one call, so that
//! the policy decides how they are freed.
//!
//! All of them are played at the row of the first page. Between this row and the rows of the others, their CPU at most
//! drains lists.

use std::iter::Peekable;
use std::ops::Range;
use std::slice::Iter;

use freehold::base::{CpuId, Order, Pfn};
use freehold_trace::Row;

use super::super::ProbeCounts;
use super::super::survey::Together;
use super::Player;

/// Relation of a free to a group of frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Belongs {
    /// The free belongs to no group.
    ToNone,
    /// The free is the first of a group of this many pages.
    First(u32),
    /// The free belongs to a group that was played with its first page.
    Further,
}

/// Groups of pages that were freed together, in the order of their rows.
#[derive(Debug)]
pub(crate) struct Neighbours<'s> {
    all: Peekable<Iter<'s, Together>>,
    /// By CPU, frames that were played and whose rows are still to come.
    played: Vec<Range<u64>>,
}

impl<'s> Neighbours<'s> {
    /// Creates the groups before the first row.
    pub(crate) fn new(all: &'s [Together], cpus: u16) -> Neighbours<'s> {
        Neighbours { all: all.iter().peekable(), played: vec![0..0; usize::from(cpus)] }
    }

    /// Returns the relation of this row's free to the groups.
    pub(crate) fn classify(&mut self, number: u64, row: &Row) -> Belongs {
        let Some(played) = self.played.get_mut(usize::from(row.cpu)) else { return Belongs::ToNone };
        if let Some(first) = self.all.next_if(|together| together.row == number) {
            *played = row.pfn + 1..row.pfn + u64::from(first.pages);
            return Belongs::First(first.pages);
        }
        if row.pfn == played.start && !played.is_empty() {
            played.start += 1;
            return Belongs::Further;
        }
        Belongs::ToNone
    }
}

impl Player<'_, '_> {
    pub(super) fn free_together(&mut self, first: &Row, pages: u32) {
        let cpu = self.cpu_of(first);
        self.engine.platform().run_on(cpu);
        let rows = (0..u64::from(pages)).map(|at| Row { pfn: first.pfn + at, ..*first });
        let held: Vec<Pfn> = rows.filter_map(|row| self.let_go(&row)).collect();
        let before = self.came_to_lists(cpu);
        if self.engine.free_pages_bulk(&held).is_err() {
            self.tally.refused_frees += 1;
        }
        self.tally.together_listed += self.came_to_lists(cpu).saturating_sub(before);
    }

    /// Returns the pages on this CPU's lists plus all pages that were ever drained from any list. A page that is added
    /// to a list increases this number, and a drain does not change it.
    fn came_to_lists(&self, cpu: CpuId) -> u64 {
        let zones = self.engine.zones().iter().filter(|zone| zone.is_populated());
        let there: u64 = zones.map(|zone| self.engine.pcp(cpu, zone).inspect(|lists| u64::from(lists.count()))).sum();
        there + self.engine.platform().probe_counts().pcp_drain_pages
    }

    /// Removes the tenant of this row's page and returns the engine's page, split off its block. Returns `None` if
    /// there is no page that the workload could free.
    fn let_go(&mut self, row: &Row) -> Option<Pfn> {
        if self.is_consequence(row, Order::ZERO) {
            return None;
        }
        let recorded = row.pfn as usize;
        if self.frees_awaited(recorded) {
            return None;
        }
        let Some(entry) = self.memory().identity.get(recorded) else {
            self.free_unknown(row, Order::ZERO);
            return None;
        };
        self.note_cpu(entry, self.cpu_of(row));
        let block = self.engine.allocated_block(entry.pfn);
        if let Some((head, found)) = block {
            self.cut(head, found, Order::ZERO);
        }
        let mut memory = self.memory();
        memory.clear(recorded, 1);
        memory.identity.touched().touch(entry.pfn.raw(), 1);
        block.map(|_| entry.pfn)
    }
}

#[cfg(test)]
mod tests {
    use freehold_trace::Kind;

    use super::super::super::survey::Origin;
    use super::*;

    fn free(cpu: u16, pfn: u64) -> Row {
        Row { cpu, pfn, ..Row::new(Kind::Free) }
    }

    fn range_at(row: u64, pfn: u32, pages: u32, cpu: u16) -> Together {
        Together { row, pfn, pages, cpu, origin: Origin::Range }
    }

    #[test]
    fn later_pages_of_a_range_are_matched_by_cpu() {
        let all = [range_at(5, 10, 3, 0), range_at(6, 50, 2, 1)];
        let mut neighbours = Neighbours::new(&all, 2);
        let rows = [(4, free(0, 9)), (5, free(0, 10)), (6, free(1, 50)), (7, free(0, 11)), (8, free(1, 51))];
        let found = rows.map(|(number, row)| neighbours.classify(number, &row));
        let expected = [Belongs::ToNone, Belongs::First(3), Belongs::First(2), Belongs::Further, Belongs::Further];
        assert_eq!(found, expected);
        assert_eq!(neighbours.classify(9, &free(1, 12)), Belongs::ToNone, "another CPU's");
        assert_eq!(neighbours.classify(10, &free(0, 12)), Belongs::Further);
        assert_eq!(neighbours.classify(11, &free(0, 13)), Belongs::ToNone);
    }
}
