//! Contents of the per-CPU lists when the recording started.
//!
//! The events determine most of it. A block that is allocated without having left a free list was on the list of the
//! CPU that allocated it. A block that is drained was on the list of the CPU that drained it or, if that list is
//! already full, on the list of another CPU that lacks pages. The remaining pages were not requested while the
//! recording ran. Their number on each CPU follows from the recorded counts. The pages themselves are chosen among the
//! frames without flags and events, the largest blocks first. A list that was refilled during the recording was empty,
//! so the chosen blocks go to lists without a refill.

use freehold_trace::event::migratetype::{MOVABLE, RECLAIMABLE, UNMOVABLE};
use freehold_trace::facts::{Facts, ZoneFacts};

use super::machine;
use super::settings::Situation;
use super::survey::{CachedBlock, Survey};

/// Returns the blocks on per-CPU lists at the start, in the order of their use.
pub(crate) fn blocks(facts: &Facts, survey: &Survey) -> Vec<CachedBlock> {
    let mut cached = survey.cached.clone();
    for (zone, _) in machine::zones(facts) {
        let mut lacking = lacking_after(zone, &mut cached);
        let mut pool = Pool::for_zone(zone, survey, facts.pageblock_order);
        for (cpu, pages) in (0..).zip(&mut lacking) {
            pool.fill(cpu, pages, survey, &mut cached);
        }
    }
    cached
}

/// Removes and returns the blocks that do not fit on lists whose limit under the replay's settings is lower than the
/// recorded one. These are the blocks that would be used last.
pub(crate) fn surplus(situation: &Situation<'_>, cached: &mut Vec<CachedBlock>) -> Vec<CachedBlock> {
    let mut surplus = Vec::new();
    for (recorded, zone) in situation.recorded.zones_start.iter().zip(&situation.facts.zones_start) {
        for (before, list) in recorded.pcp.iter().zip(&zone.pcp).filter(|(before, list)| list.high < before.high) {
            let mut room = i64::from(list.high);
            surplus.extend(cached.extract_if(.., |block| {
                let is_of_list = block.cpu == before.cpu && is_in(zone, block.pfn);
                room -= if is_of_list { 1 << block.order } else { 0 };
                is_of_list && room < 0
            }));
        }
    }
    surplus
}

/// Returns the number of pages that each CPU's list lacks after all blocks that the events name are on it. Drained
/// blocks are moved to another CPU where the own list is full.
fn lacking_after(zone: &ZoneFacts, cached: &mut [CachedBlock]) -> Vec<i64> {
    let mut lacking: Vec<i64> = zone.pcp.iter().map(|list| i64::from(list.count)).collect();
    let (mut drained, taken): (Vec<_>, Vec<_>) =
        cached.iter_mut().filter(|block| is_in(zone, block.pfn)).partition(|block| block.drained);
    for block in taken {
        take(&mut lacking, block);
    }
    for block in &mut drained {
        let own = lacking.get(usize::from(block.cpu)).is_some_and(|&pages| pages > 0);
        let other = lacking.iter().position(|&pages| pages > 0).map(|cpu| cpu as u16);
        block.cpu = if own { block.cpu } else { other.unwrap_or(block.cpu) };
        take(&mut lacking, block);
    }
    lacking
}

fn take(lacking: &mut [i64], block: &CachedBlock) {
    if let Some(pages) = lacking.get_mut(usize::from(block.cpu)) {
        *pages -= 1 << block.order;
    }
}

fn is_in(zone: &ZoneFacts, pfn: u32) -> bool {
    (zone.start_pfn..zone.start_pfn + zone.spanned).contains(&u64::from(pfn))
}

/// Frames of a zone without flags or events, as blocks of the orders that lists hold.
struct Pool {
    /// Each order and the first frames of its blocks: the pageblock order, then 3 to 0.
    orders: Vec<(u8, Vec<u32>)>,
}

impl Pool {
    fn for_zone(zone: &ZoneFacts, survey: &Survey, pageblock_order: u8) -> Pool {
        let orders = [pageblock_order, 3, 2, 1, 0].map(|order| (order, Vec::new()));
        let mut pool = Pool { orders: orders.into() };
        let mut frames = survey.untouched.iter().copied().filter(|&pfn| is_in(zone, pfn)).peekable();
        while let Some(start) = frames.next() {
            let mut end = start + 1;
            while frames.next_if_eq(&end).is_some() {
                end += 1;
            }
            pool.cut(start, end);
        }
        pool
    }

    /// Cuts a run of frames into the largest blocks that lists hold.
    fn cut(&mut self, mut start: u32, end: u32) {
        while start < end {
            let largest = self
                .orders
                .iter_mut()
                .find(|(order, _)| start.is_multiple_of(1 << *order) && end - start >= 1 << *order);
            let (order, blocks) = largest.expect("a block of order 0 fits into every run");
            blocks.push(start);
            start += 1 << *order;
        }
    }

    /// Puts blocks on the lists of a CPU that were not refilled, until the recorded number of pages is reached or the
    /// pool has no suitable block.
    fn fill(&mut self, cpu: u16, lacking: &mut i64, survey: &Survey, cached: &mut Vec<CachedBlock>) {
        for (order, blocks) in &mut self.orders {
            let types = [MOVABLE, UNMOVABLE, RECLAIMABLE];
            let idle = types.into_iter().find(|&migratetype| !survey.refilled.contains(&(cpu, *order, migratetype)));
            let Some(migratetype) = idle else { continue };
            while *lacking >= 1 << *order {
                let Some(pfn) = blocks.pop() else { break };
                *lacking -= 1 << *order;
                cached.push(CachedBlock { pfn, order: *order, cpu, migratetype, drained: false });
            }
        }
    }
}
