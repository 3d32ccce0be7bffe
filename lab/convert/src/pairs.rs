//! Pairs of allocations and frees, and events without a partner in the file.
//!
//! Every file has frees of pages that were allocated before it begins. An allocation of a page in use, or a free of a
//! free page, shows that an event between the two is missing. Takes two bits a frame.

use freehold_trace::event::{Kind, Row};

/// States of frames, and counts of events by their partners.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs {
    /// Bitmaps of the frames in use and of the free ones, 64 frames in each entry, by the events of this file.
    states: Vec<[u64; 2]>,
    /// Frees of pages whose allocation is in the file.
    pub paired: u64,
    /// Frees of pages without an earlier event: they were allocated before the file begins.
    pub from_before: u64,
    /// Allocations of pages that were in use.
    pub in_use_already: u64,
    /// Frees of pages that were free.
    pub free_already: u64,
}

const USED: usize = 0;
const FREE: usize = 1;

impl Pairs {
    /// Handles a row that names a page.
    #[inline]
    pub(crate) fn observe(&mut self, row: &Row) {
        let became = match row.kind {
            Kind::Alloc => USED,
            Kind::Free => FREE,
            _ => return,
        };
        let end = row.pfn + (1 << row.order);
        let words = end.div_ceil(64) as usize;
        if self.states.len() < words {
            self.states.resize(words + words / 8, [0; 2]);
        }
        let [used, free] = self.states[(row.pfn / 64) as usize].map(|word| word >> (row.pfn % 64) & 1 == 1);
        match became {
            USED => self.in_use_already += u64::from(used),
            _ => {
                self.paired += u64::from(used);
                self.free_already += u64::from(free);
                self.from_before += u64::from(!used && !free);
            }
        }
        self.set(row.pfn, end, became);
    }

    #[inline]
    fn set(&mut self, mut pfn: u64, end: u64, state: usize) {
        while pfn < end {
            let word_end = (pfn | 63) + 1;
            let bits = word_end.min(end) - pfn;
            let mask = (u64::MAX >> (64 - bits)) << (pfn % 64);
            let word = &mut self.states[(pfn / 64) as usize];
            word[state] |= mask;
            word[1 - state] &= !mask;
            pfn = word_end;
        }
    }

    /// Returns the number of pages that were allocated and not freed.
    pub(crate) fn kept(&self) -> u64 {
        self.states.iter().map(|word| u64::from(word[USED].count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpaired_events_are_classified() {
        let mut pairs = Pairs::default();
        for (kind, pfn, order) in [
            (Kind::Alloc, 60, 3),
            (Kind::Free, 64, 0),
            (Kind::Free, 64, 0),
            (Kind::Free, 1000, 9),
            (Kind::Alloc, 60, 0),
            (Kind::PcpuDrain, 60, 0),
        ] {
            pairs.observe(&Row { pfn, order, ..Row::new(kind) });
        }
        assert_eq!((pairs.paired, pairs.from_before, pairs.in_use_already, pairs.free_already), (1, 1, 1, 1));
        assert_eq!(pairs.kept(), 7);
    }
}
