//! State rows of the start or the end of a recording.
//!
//! [`state_rows`] converts page flags to rows. This module adds information that flags lack: the types of pageblocks,
//! the pages without flags that were on per-CPU lists, and the memory that the allocator does not manage yet. Such
//! memory exists because the kernel initialises memory only when it is needed (`CONFIG_DEFERRED_STRUCT_PAGE_INIT`).

use super::first_events::{AllocatedBlock, CachedBlock, Flags};
use super::frames::Frames;
use super::pageblocks::{Ballot, Pageblocks};
use super::zones::ZonesAt;
use crate::event::{Kind, Row, migratetype};
use crate::facts::ZoneFacts;
use crate::snapshot::ALLOCATED;
use crate::snapshot::{self, Moment, flag, state_rows, zone_borders};

/// `args[1]` of an unknown block that a later event found on a per-CPU list.
const ON_PERCPU_LIST: i64 = 1;
/// `args[1]` of unknown pages that the kernel has not given to the allocator yet.
const DEFERRED: i64 = 2;

/// State of memory at one moment, ready to be converted to rows.
#[derive(Debug)]
pub struct StateRows {
    moment: Moment,
    /// Nanoseconds since the recording started.
    time: u64,
    words: Vec<u32>,
    pageblocks: Pageblocks,
    borders: Vec<u64>,
    order_max: u8,
    /// Frames that the allocator does not manage yet, as `[start, end)`.
    deferred: Vec<(u64, u64)>,
}

impl StateRows {
    /// Creates the state of `frames` at `time`. The pageblock types are determined from `votes`.
    pub fn new(moment: Moment, time: u64, frames: Frames, votes: &Ballot, at: &ZonesAt) -> StateRows {
        let words = frames.into_words();
        let order = at.types.pageblock_order;
        let deferred: Vec<_> = at.zones.iter().map(|zone| deferred(zone, order, &words)).collect();
        let mut zones = at.zones.clone();
        for (zone, &(start, end)) in zones.iter_mut().zip(&deferred) {
            zone.spanned -= end - start;
        }
        let pageblocks = Pageblocks::settle(order, votes, &zones, at.counts(), &words);
        let borders = zone_borders(&at.zones);
        StateRows { moment, time, words, pageblocks, borders, order_max: at.order_max(), deferred }
    }

    /// Replaces guessed types by types that are known otherwise: [`Pageblocks::prefer`].
    #[must_use]
    pub fn preferring(mut self, types: &[i8]) -> StateRows {
        self.pageblocks.prefer(types);
        self
    }

    /// Returns the types of pageblocks.
    pub fn pageblocks(&self) -> &Pageblocks {
        &self.pageblocks
    }

    /// Returns a phrase about the sources of the pageblocks' types.
    pub fn types(&self) -> String {
        let Pageblocks { named, guessed, off, .. } = self.pageblocks;
        format!("{named} known from events, {guessed} guessed, {off} different from the kernel's counts")
    }

    /// Calls `visit` with each row. Blocks that events have shown to be cached or allocated are included.
    ///
    /// # Errors
    /// Errors of `visit`.
    pub fn for_each<E>(
        mut self,
        cached: &[CachedBlock],
        allocated: &[AllocatedBlock],
        mut visit: impl FnMut(Row) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rows = Vec::new();
        if self.moment == Moment::Start {
            rows = self.pageblocks.rows();
        }
        self.resolve(cached, allocated, &mut rows);
        let StateRows { moment, time, words, borders, order_max, .. } = &self;
        let frames = snapshot::Frames { first: 0, words, borders, order_max: *order_max };
        let shown = state_rows(frames, *moment, *time).flat_map(|row| self.complete(row));
        rows.into_iter().chain(shown).try_for_each(&mut visit)
    }

    /// Adds to a row the information that page flags lack. A run of unknown pages is split where deferred memory
    /// begins.
    fn complete(&self, row: Row) -> impl Iterator<Item = Row> {
        let rows = match row.kind {
            Kind::StartFree | Kind::EndFree => {
                [Some(Row { migratetype: self.pageblocks.type_of(row.pfn), ..row }), None]
            }
            Kind::StartUnknown | Kind::EndUnknown => self.cut(row),
            _ => [Some(row), None],
        };
        rows.into_iter().flatten()
    }

    /// Splits a run of unknown pages into the parts outside and inside deferred memory, which is the end of a zone.
    fn cut(&self, row: Row) -> [Option<Row>; 2] {
        let end = row.pfn + row.args[0].cast_unsigned();
        let Some(&(border, _)) = self.deferred.iter().find(|&&(first, last)| first < end && row.pfn < last) else {
            return [Some(row), None];
        };
        [(row.pfn, border, 0), (row.pfn.max(border), end, DEFERRED)].map(|(first, end, what)| {
            let args = [end.saturating_sub(first).cast_signed(), what, 0];
            (first < end).then_some(Row { pfn: first, args, ..row })
        })
    }

    /// Sets the states of pages without flags from the cached and the allocated blocks.
    fn resolve(&mut self, cached: &[CachedBlock], allocated: &[AllocatedBlock], rows: &mut Vec<Row>) {
        for block in allocated {
            let head = if block.order == 0 { 0 } else { flag::COMPOUND_HEAD };
            // A block whose flags were not read counts as movable if its pageblock is Movable.
            let is_movable = block.flags == Flags::Unseen && self.pageblocks.type_of(block.pfn) == migratetype::MOVABLE;
            let movable = if is_movable { flag::LRU } else { 0 };
            self.fill(block.pfn, block.order, flag::COMPOUND_TAIL, ALLOCATED | head | movable);
        }
        for block in cached {
            // Their own rows have more information than a run of unknown pages.
            self.fill(block.pfn, block.order, flag::NOPAGE, flag::NOPAGE);
            rows.push(Row {
                pfn: block.pfn,
                order: block.order,
                cpu: block.cpu,
                migratetype: block.migratetype,
                args: [1 << block.order, ON_PERCPU_LIST, 0],
                ..Row::new(Kind::StartUnknown)
            });
        }
    }

    fn fill(&mut self, pfn: u64, order: u8, word: u32, head: u32) {
        let first = pfn as usize;
        let end = (first + (1 << order)).min(self.words.len());
        self.words[first..end].fill(word);
        self.words[first] = head;
    }
}

/// Returns the end of a zone that the kernel has not initialised yet: whole pageblocks without any flag, at most as
/// many pages as the zone has present but not managed. Empty on most machines.
fn deferred(zone: &ZoneFacts, pageblock_order: u8, words: &[u32]) -> (u64, u64) {
    let end = (zone.start_pfn + zone.spanned).min(words.len() as u64);
    let start = zone.start_pfn.min(end);
    let silent = words[start as usize..end as usize].iter().rev().take_while(|&&word| word == 0).count() as u64;
    let unmanaged = zone.present.saturating_sub(zone.managed);
    let first = (end - silent.min(unmanaged)).next_multiple_of(1 << pageblock_order);
    (first.min(end), end)
}

#[cfg(test)]
mod tests {
    use super::super::first_events::FirstEvents;
    use super::super::pageblocks::Votes;
    use super::*;
    use crate::event::class;
    use crate::facts::TypeFacts;
    use crate::procfs::PageTypeInfo;

    /// Returns sixteen frames in pageblocks of eight: free ones, a page on an LRU list, and pages without flags.
    fn state() -> StateRows {
        let zone = ZoneFacts { name: "Normal".to_owned(), spanned: 16, ..ZoneFacts::default() };
        let orders = TypeFacts { free: vec![0; 11], ..TypeFacts::default() };
        let types = PageTypeInfo { pageblock_order: 3, types: vec![orders], ..PageTypeInfo::default() };
        let mut words = vec![flag::BUDDY; 16];
        words[8] = flag::LRU;
        words[9..14].fill(0);
        let frames = Frames::from_words(words, 9);
        let mut votes = Votes::new(3);
        votes.observe(&Row { pfn: 0, migratetype: 2, ..Row::new(Kind::PcpuDrain) });
        let at = ZonesAt { zones: vec![zone], types };
        StateRows::new(Moment::Start, 0, frames, votes.first(), &at)
    }

    fn rows(cached: &[CachedBlock], allocated: &[AllocatedBlock]) -> Vec<Row> {
        let mut rows = Vec::new();
        let Ok(()) = state().for_each(cached, allocated, |row| {
            rows.push(row);
            Ok::<_, std::convert::Infallible>(())
        });
        rows
    }

    fn described(rows: &[Row]) -> Vec<(Kind, u64, u8, i8, i64)> {
        rows.iter().map(|row| (row.kind, row.pfn, row.order, row.migratetype, row.args[0])).collect()
    }

    #[test]
    fn free_blocks_have_the_type_of_their_pageblock() {
        let expected = [
            (Kind::StartPageblock, 0, 0, 2, 1),
            (Kind::StartPageblock, 8, 0, 1, 2),
            (Kind::StartFree, 0, 3, 2, 0),
            (Kind::StartAllocated, 8, 0, -1, 1),
            (Kind::StartUnknown, 9, 0, -1, 5),
            (Kind::StartFree, 14, 1, 1, 0),
        ];
        assert_eq!(described(&rows(&[], &[])), expected);
    }

    #[test]
    fn uninitialised_memory_is_deferred() {
        let mut words = vec![flag::LRU; 40];
        words[18..].fill(0);
        let zone = ZoneFacts { start_pfn: 8, spanned: 32, present: 32, managed: 12, ..ZoneFacts::default() };
        assert_eq!(deferred(&zone, 3, &words), (24, 40), "whole pageblocks only");
        let full = ZoneFacts { managed: 32, ..zone.clone() };
        assert_eq!(deferred(&full, 3, &words), (40, 40), "all memory is managed");
        words[39] = flag::BUDDY;
        assert_eq!(deferred(&zone, 3, &words), (40, 40));
        let beyond = ZoneFacts { start_pfn: 100, ..zone };
        assert_eq!(deferred(&beyond, 3, &words), (40, 40));
    }

    #[test]
    fn runs_are_split_at_deferred_memory() {
        let state = StateRows { deferred: vec![(8, 8), (12, 16)], ..state() };
        for (pfn, count, expected) in [
            (4, 4, [Some((4, [4, 0, 0])), None]),
            (9, 5, [Some((9, [3, 0, 0])), Some((12, [2, DEFERRED, 0]))]),
            (13, 3, [None, Some((13, [3, DEFERRED, 0]))]),
        ] {
            let parts = state.cut(Row { pfn, args: [count, 0, 0], ..Row::new(Kind::StartUnknown) });
            assert_eq!(parts.map(|part| part.map(|row| (row.pfn, row.args))), expected);
        }
    }

    #[test]
    fn later_events_resolve_pages_without_flags() {
        let mut first_events = FirstEvents::new(&[0; 16], 9);
        first_events.observe(&Row { pfn: 9, cpu: 5, migratetype: 1, ..Row::new(Kind::Alloc) });
        first_events.observe(&Row { pfn: 12, order: 1, ..Row::new(Kind::Free) });
        let rows = rows(&first_events.cached, &first_events.allocated);
        let expected = [
            (Kind::StartUnknown, 9, 0, 1, 1),
            (Kind::StartFree, 0, 3, 2, 0),
            (Kind::StartAllocated, 8, 0, -1, 1),
            (Kind::StartUnknown, 10, 0, -1, 2),
            (Kind::StartAllocated, 12, 1, -1, 1),
            (Kind::StartFree, 14, 1, 1, 0),
        ];
        assert_eq!(described(&rows[2..]), expected);
        assert_eq!((rows[2].cpu, rows[2].args[1]), (5, ON_PERCPU_LIST));
        assert_eq!(rows[6].args[1] & class::RESERVED, 0);
    }
}
