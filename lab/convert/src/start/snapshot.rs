//! A snapshot of Freehold's, or the start state of a recording, as flags again.

use std::path::Path;

use freehold_trace::Facts;
use freehold_trace::event::{Kind, NO_MIGRATETYPE, Row, Section};
use freehold_trace::recording::Recording;
use freehold_trace::snapshot::{flag, flags_of};

use super::Known;
use crate::error::Error;

/// Reads it.
///
/// # Errors
/// When it is no recording, or of a kernel that is not known.
pub(crate) fn read(path: &Path) -> Result<Known, Error> {
    let recording = Recording::open_any(path)?;
    let mut known = Known::of(recording.reader.facts().clone());
    for row in recording.reader.rows() {
        let row = row?;
        if row.kind.section() != Section::Start {
            break;
        }
        known.take(&row);
    }
    Ok(known)
}

impl Known {
    /// What rows of a start state say of the machine of these facts.
    pub fn of_rows(facts: Facts, rows: impl IntoIterator<Item = Row>) -> Known {
        let mut known = Known::of(facts);
        rows.into_iter().for_each(|row| known.take(&row));
        known
    }

    /// A machine of whose memory nothing is known yet.
    fn of(facts: Facts) -> Known {
        let end = facts.zones_start.iter().map(|zone| zone.start_pfn + zone.spanned).max().unwrap_or(0);
        let blocks = end.div_ceil(1 << facts.pageblock_order);
        Known {
            words: vec![flag::NOPAGE; (blocks << facts.pageblock_order) as usize],
            types: vec![NO_MIGRATETYPE; blocks as usize],
            facts,
        }
    }

    /// Puts a row of a start state back into flags.
    fn take(&mut self, row: &Row) {
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
