//! Free memory at the end of a recording and its usefulness for huge pages, from the last sample of `/proc/buddyinfo`.

use freehold_trace::Facts;
use serde::Serialize;

use super::machine::{HUGE_ORDER, free_blocks, pages, seconds};

/// Free memory of all zones at the end of the recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FreeMemory {
    /// Seconds since the start.
    pub seconds: f64,
    /// Pages that the allocator manages.
    pub managed_pages: u64,
    /// Free pages.
    pub free_pages: u64,
    /// Free pages by the order of their block.
    pub free_pages_by_order: Vec<u64>,
    /// Share of the free pages in blocks that a huge page can use; `None` without free pages.
    pub huge_page_share: Option<f64>,
    /// Unusable free index of order 9: the other share of the free pages.
    pub unusable_free_index_order9: Option<f64>,
}

/// Returns the free memory at the end; `None` if the recording has no samples.
pub(crate) fn at_end(facts: &Facts) -> Option<FreeMemory> {
    let last = facts.samples.last()?;
    let blocks = free_blocks(last);
    let (free, huge) = (pages(&blocks, 0), pages(&blocks, HUGE_ORDER));
    let by_order = (0..blocks.len()).map(|order| pages(&blocks[..=order], order));
    let huge_page_share = (free > 0).then(|| huge as f64 / free as f64);
    Some(FreeMemory {
        seconds: seconds(last.time),
        managed_pages: facts.zones_start.iter().map(|zone| zone.managed).fold(0, u64::saturating_add),
        free_pages: free,
        free_pages_by_order: by_order.collect(),
        huge_page_share,
        unusable_free_index_order9: huge_page_share.map(|share| 1.0 - share),
    })
}

#[cfg(test)]
mod tests {
    use freehold_trace::facts::Sample;

    use super::*;

    #[test]
    fn free_pages_are_those_of_the_last_sample() {
        let sample = |blocks: Vec<u64>| Sample { buddyinfo: vec![blocks], ..Sample::default() };
        let mut blocks = vec![256, 128, 0, 0, 0, 0, 0, 0, 0, 1, 2];
        let facts = Facts { samples: vec![sample(vec![9]), sample(blocks.clone())], ..Facts::default() };
        let free = at_end(&facts).unwrap();
        assert_eq!((free.free_pages, free.free_pages_by_order[1], free.free_pages_by_order[10]), (3072, 256, 2048));
        let share = 2560.0 / 3072.0;
        assert_eq!((free.huge_page_share, free.unusable_free_index_order9), (Some(share), Some(1.0 - share)));
        blocks.fill(0);
        let none = at_end(&Facts { samples: vec![sample(blocks)], ..Facts::default() }).unwrap();
        assert_eq!((none.free_pages, none.huge_page_share), (0, None));
        assert_eq!(at_end(&Facts::default()), None);
    }
}
