//! State of memory when the events began: flags of frames and types of pageblocks.

use freehold_trace::Facts;
use freehold_trace::event::{Kind, NO_MIGRATETYPE, Row};
use freehold_trace::snapshot::{flag, flags_of};

/// State of memory, as far as it is known without the events.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryState {
    /// One word of flags per frame.
    pub words: Vec<u32>,
    /// Type of each pageblock, or [`NO_MIGRATETYPE`].
    pub types: Vec<i8>,
    /// Known facts about the machine; empty if there are none.
    pub facts: Facts,
}

impl MemoryState {
    /// Builds the state that start-state rows describe, on the machine of these facts.
    pub(crate) fn from_rows(facts: Facts, rows: impl IntoIterator<Item = Row>) -> MemoryState {
        let mut known = MemoryState::unknown(facts);
        rows.into_iter().for_each(|row| known.apply(&row));
        known
    }

    /// Returns a state in which no frame of the machine is known.
    pub(super) fn unknown(facts: Facts) -> MemoryState {
        let end = facts.zones_start.iter().map(|zone| zone.start_pfn + zone.spanned).max().unwrap_or(0);
        let blocks = end.div_ceil(1 << facts.pageblock_order);
        MemoryState {
            words: vec![flag::NOPAGE; (blocks << facts.pageblock_order) as usize],
            types: vec![NO_MIGRATETYPE; blocks as usize],
            facts,
        }
    }

    /// Converts a start-state row back to flags.
    pub(super) fn apply(&mut self, row: &Row) {
        let [count, detail, _] = row.args;
        let count = count.max(0).cast_unsigned();
        match row.kind {
            Kind::StartFree => self.fill(row.pfn, 1 << row.order, flag::BUDDY),
            Kind::StartUnknown => self.fill(row.pfn, count, 0),
            Kind::StartAllocated => self.allocate(row, count, flags_of(detail)),
            Kind::StartPageblock => {
                let first = (row.pfn >> self.facts.pageblock_order) as usize;
                let end = first.saturating_add(detail.max(0) as usize).min(self.types.len());
                self.types[first.min(end)..end].fill(row.migratetype);
            }
            _ => {}
        }
    }

    fn allocate(&mut self, row: &Row, blocks: u64, word: u32) {
        let size = 1_u64.checked_shl(row.order.into()).unwrap_or(u64::MAX);
        if row.order == 0 {
            return self.fill(row.pfn, blocks, word);
        }
        self.fill(row.pfn, blocks.saturating_mul(size), flag::COMPOUND_TAIL);
        let heads = (0..blocks).map_while(|block| row.pfn.checked_add(block.checked_mul(size)?));
        for head in heads.take_while(|head| *head < self.words.len() as u64).collect::<Vec<_>>() {
            self.words[head as usize] = word | flag::COMPOUND_HEAD;
        }
    }

    fn fill(&mut self, first: u64, pages: u64, word: u32) {
        let all = self.words.len() as u64;
        let (first, end) = (first.min(all), first.saturating_add(pages).min(all));
        self.words[first as usize..end as usize].fill(word);
    }
}
