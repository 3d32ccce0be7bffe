//! The two scanners of compaction: rule 10, selection of sources and of targets.

use freehold::base::{MigrateType, ZoneKind};
use freehold::platform::CompactEffort;
use freehold::policy::compaction::Sources;
use freehold::policy::flags::AllocFlags;

use super::Reference;
use super::compaction::Run;
use super::map::AllocatedBlock;
use crate::model::runner::Sabotage;

/// Returns the end of the aligned block of an order around a frame.
fn end_of_block(pfn: u32, order: u8) -> u32 {
    ((pfn >> order) + 1) << order
}

/// Returns the number of pages of a batch.
fn count_pages(batch: &[(u32, AllocatedBlock)]) -> u32 {
    batch.iter().map(|(_, held)| 1 << held.order).sum()
}

impl Run {
    /// Returns the smallest order, at least `order`, of the isolated targets.
    fn smallest_in_hand(&self, order: u8) -> Option<u8> {
        (order..=10).find(|&at| !self.hand[usize::from(at)].is_empty())
    }
}

/// Scans for sources, from the start of the zone upwards.
impl Reference {
    pub(crate) fn next_batch(&mut self, run: &mut Run) -> Vec<(u32, AllocatedBlock)> {
        let quick = self.quick_source(run);
        let (mut at, mut chosen) = (quick.unwrap_or(run.source), quick.is_some_and(|block| block != run.source));
        loop {
            let end = self.block_of(at) + (1 << self.map.block);
            if end > run.target {
                run.source = at;
                return Vec::new();
            }
            if self.is_worth_a_scan(run, at, chosen) {
                return self.scan(run, at, end);
            }
            (at, chosen) = (end, false);
        }
    }

    fn is_worth_a_scan(&mut self, run: &Run, at: u32, chosen: bool) -> bool {
        let block = self.block_of(at);
        if self.map.zone(block) != Some(run.zone) {
            return false;
        }
        let skipped = self.map.skipped[(block >> self.map.block) as usize];
        if at == block && !chosen && skipped && !run.aim.ignores_hints() {
            return false;
        }
        let migratetype = self.map.type_of(block);
        let is_huge = self.map.held(block).is_some_and(|held| held.compound && held.order >= self.map.block);
        let suits = !is_huge && self.suits(run, migratetype);
        if !suits {
            let end = block + (1 << self.map.block);
            self.zones[run.zone].memory.note_source(end + (1 << self.map.block), run.waits());
        }
        suits
    }

    fn suits(&self, run: &Run, block: MigrateType) -> bool {
        if !run.aim.is_direct {
            return true;
        }
        let by_use = self.rules.compaction.sources == Sources::ByUse;
        if by_use && block == MigrateType::Cma && !run.aim.flags.contains(AllocFlags::CMA) {
            return false;
        }
        let movable = run.aim.migratetype == MigrateType::Movable || by_use && self.wants_pageblock(run);
        let own = if movable {
            [MigrateType::Movable, MigrateType::Cma].contains(&block)
        } else {
            block == run.aim.migratetype
        };
        own || !run.aim.is_optimistic()
    }

    fn wants_pageblock(&self, run: &Run) -> bool {
        run.aim.order.is_some_and(|order| order >= self.map.block)
    }

    fn scan(&mut self, run: &mut Run, from: u32, end: u32) -> Vec<(u32, AllocatedBlock)> {
        let (mut batch, mut at) = (Vec::new(), from);
        let mut scope = run.aim.is_optimistic().then(|| end_of_block(at, run.limit));
        while at < end && count_pages(&batch) < 32 {
            if scope.is_some_and(|scope| at >= scope) {
                if !batch.is_empty() {
                    break;
                }
                scope = Some(end_of_block(at, run.limit));
            }
            if let Some((head, order)) = self.map.free_around(at) {
                at = end.min(head + (1 << order));
                continue;
            }
            let held = self.map.held(at);
            let fitting = held.filter(|held| held.order < run.limit && at + (1 << held.order) <= end);
            match fitting.filter(|held| held.movable && !held.poisoned) {
                Some(held) => {
                    let first_look = from == self.block_of(from) || from == self.zones[run.zone].span.start;
                    if batch.is_empty() && first_look && !run.aim.ignores_hints() {
                        self.map.skipped[(from >> self.map.block) as usize] = true;
                    }
                    batch.push((at, held));
                    at += 1 << held.order;
                }
                None => match scope {
                    Some(scope) => {
                        batch.clear();
                        at = scope.min(end);
                    }
                    None => at = end.min(at + held.map_or(1, |held| 1 << held.order)),
                },
            }
        }
        run.source = at;
        let block = self.block_of(from);
        if at >= end && (batch.is_empty() || run.finishing == Some(block)) {
            self.map.skipped[(block >> self.map.block) as usize] |=
                from == block || from == self.zones[run.zone].span.start;
            self.zones[run.zone].memory.note_source(end + (1 << self.map.block), run.waits());
        }
        run.finishing = run.finishing.filter(|&finishing| finishing == block);
        batch
    }

    fn quick_source(&mut self, run: &mut Run) -> Option<u32> {
        let order = run.aim.order.filter(|&order| order > 3)?;
        let start = self.zones[run.zone].span.start;
        let at_border = run.source == start || run.source.is_multiple_of(1 << self.map.block);
        let claims = self.rules.compaction.sources == Sources::ByUse && self.wants_pageblock(run);
        let may = !run.aim.is_direct || run.aim.migratetype == MigrateType::Movable || claims;
        if !at_border || run.aim.ignores_hints() || run.finishing.is_some() || !may {
            return None;
        }
        let gap = run.target.saturating_sub(run.source);
        let before = self.block_of(run.source + if run.source == start { gap / 2 } else { gap / 8 });
        let Some(pfn) = self.search_lists(run, order, before) else {
            run.quick_failures += 1;
            if let (Some(pfn), false) = (run.quick_start, run.went_back) {
                (run.source, run.went_back) = (pfn, true);
            }
            return None;
        };
        run.quick_failures = 0;
        run.quick_start = Some(run.quick_start.map_or(pfn, |lowest| lowest.min(pfn)));
        Some(self.block_of(pfn).max(start))
    }

    fn search_lists(&mut self, run: &Run, order: u8, before: u32) -> Option<u32> {
        let mut left = run.quick_limit();
        for at in (3..order).rev() {
            let list = &mut self.zones[run.zone].lists[usize::from(at)][MigrateType::Movable.index()];
            for place in 0..list.len() {
                if left == 0 {
                    list.rotate_left(place + 1);
                    return None;
                }
                left -= 1;
                let pfn = list[place];
                if pfn < before && !self.map.skipped[(pfn >> self.map.block) as usize] {
                    list.rotate_left(place + 1);
                    return Some(pfn);
                }
            }
            if left == 0 {
                return None;
            }
        }
        None
    }
}

/// Scans for targets, from the end of the zone downwards.
impl Reference {
    pub(crate) fn take_target(&mut self, run: &mut Run, order: u8, needed: u32) -> Option<u32> {
        if run.smallest_in_hand(order).is_none() {
            self.quick_targets(run, needed);
            if run.pages() == 0 {
                self.find_targets(run, needed);
            }
        }
        let found = run.smallest_in_hand(order)?;
        let blocks = &mut run.hand[usize::from(found)];
        let pfn = if self.mistake == Sabotage::LastTargetFirst { blocks.pop_back()? } else { blocks.pop_front()? };
        for half in (order..found).rev() {
            run.hand[usize::from(half)].push_back(pfn + (1 << half));
        }
        Some(pfn)
    }

    /// Searches the free lists for a target in the upper quarter of the range between the scanners, or else for the
    /// highest one in the upper half. In the first search of a scan it looks at more blocks, and the scan starts where
    /// the search led.
    fn quick_targets(&mut self, run: &mut Run, needed: u32) {
        let Some(largest) = run.aim.order.and_then(|order| order.checked_sub(1)) else { return };
        let first = run.quick_order.unwrap_or(largest).min(largest);
        let gap = run.target.saturating_sub(run.source);
        let (wanted, least) = (self.block_of(run.target - gap / 4), self.block_of(run.target - gap / 2));
        let begins = run.target >= self.zones[run.zone].memory.first_target;
        let shallow = (run.quick_limit() / 2).max(1);
        let mut limit = if begins { 1_usize << self.map.block >> 1 } else { shallow as usize };
        let (mut highest, mut around) = (None, None);
        run.quick_order = Some(first);
        let mut next = Some(if first == 0 { largest } else { first - 1 });
        for order in (0..=first).rev().chain((first + 1..=largest).rev()) {
            let zone = &mut self.zones[run.zone];
            let list = &mut zone.lists[usize::from(order)][MigrateType::Movable.index()];
            let (mut best, mut looked, mut preferred) = (None, 0, false);
            for (place, &pfn) in list.iter().enumerate().rev() {
                looked += 1;
                highest = highest.max(Some((pfn >> self.map.block << self.map.block).max(zone.span.start)));
                preferred = pfn >= wanted;
                if preferred {
                    best = Some(place);
                    break;
                }
                if pfn >= least && best.is_none_or(|best: usize| list[best] < pfn) {
                    best = Some(place);
                    limit /= 2;
                }
                if looked >= limit {
                    break;
                }
            }
            if preferred {
                run.quick_failures = 0;
                run.quick_order = Some(order);
            } else if looked >= limit && looked > 0 {
                limit = (limit / 2).max(1);
            }
            let Some(place) = best else {
                list.rotate_right(looked);
                continue;
            };
            list.rotate_left(place);
            let pfn = list[0];
            if self.take_in_hand(run, pfn, order) {
                (around, next) = (Some(pfn), None);
            }
            break;
        }
        if let Some(next) = next {
            run.quick_order = Some(next);
            run.quick_failures += 1;
            if begins {
                around = self.begin_targets(run, highest, least);
            }
        }
        let (size, last) = (1 << self.map.block, self.block_of(self.zones[run.zone].span.end - 1));
        let memory = &mut self.zones[run.zone].memory;
        if let Some(highest) = highest.filter(|&highest| highest >= memory.targets.unwrap_or(last)) {
            memory.targets = Some(highest.saturating_sub(size));
        }
        if let Some(pfn) = around.filter(|_| run.pages() < needed && !run.aim.is_optimistic()) {
            let block = self.block_of(pfn);
            if self.take_free(run, block, block + size, needed, 1) == (block + size, Stop::AtEnd) {
                self.map.skipped[(block >> self.map.block) as usize] = true;
            }
        }
    }

    /// Sets the start of the target scan after a deep search found no target.
    fn begin_targets(&mut self, run: &mut Run, highest: Option<u32>, least: u32) -> Option<u32> {
        if let Some(highest) = highest.filter(|&highest| highest >= least) {
            run.target = highest;
            return Some(highest);
        }
        if !run.aim.is_direct || self.map.zone(least).is_none() {
            return None;
        }
        run.target = least;
        self.serves(run, least).then_some(least)
    }

    fn find_targets(&mut self, run: &mut Run, needed: u32) {
        let size = 1_u32 << self.map.block;
        let lowest = self.block_of(run.source) + size;
        let mut stride = if run.waits() { 1 } else { 32 };
        while self.block_of(run.target) >= lowest {
            let block = self.block_of(run.target);
            let below = block.saturating_sub(size);
            if !self.is_target(run, block) {
                run.target = below;
                continue;
            }
            let had = run.pages();
            let (stopped, why) = self.take_free(run, run.target, block + size, needed, stride);
            if why != Stop::AtEnd {
                run.target = stopped;
                return;
            }
            run.target = below;
            self.map.skipped[(block >> self.map.block) as usize] = true;
            let memory = &mut self.zones[run.zone].memory;
            memory.targets = Some(memory.targets.map_or(below, |now| now.min(below)));
            if run.pages() >= needed {
                return;
            }
            stride = if run.pages() > had { 1 } else { (stride * 2).min(32) };
        }
    }

    fn is_target(&self, run: &Run, block: u32) -> bool {
        let skipped = self.map.skipped[(block >> self.map.block) as usize] && !run.aim.ignores_hints();
        !skipped && self.serves(run, block)
    }

    fn serves(&self, run: &Run, block: u32) -> bool {
        let has_block = self.map.free_order(block).is_some_and(|order| order >= run.limit);
        if self.map.zone(block) != Some(run.zone) || has_block {
            return false;
        }
        match self.map.type_of(block) {
            MigrateType::Movable | MigrateType::Cma => true,
            MigrateType::Isolate => false,
            _ => run.aim.effort == CompactEffort::SyncFull,
        }
    }

    /// Isolates free blocks in a part of a pageblock. Returns where and why it stopped.
    fn take_free(&mut self, run: &mut Run, from: u32, end: u32, needed: u32, stride: u32) -> (u32, Stop) {
        let mut at = from;
        while at < end {
            let Some(order) = self.map.free_order(at) else {
                let whole = self.map.held(at).filter(|held| held.compound).map_or(1, |held| 1 << held.order);
                at += whole - 1 + stride;
                continue;
            };
            if !self.take_in_hand(run, at, order) {
                return (at, Stop::TooLow);
            }
            let behind = at + (1 << order);
            if run.pages() >= needed && behind < end {
                return (behind, Stop::Enough);
            }
            at = behind - 1 + stride;
        }
        (end, Stop::AtEnd)
    }

    /// Takes a free block off its list as a target. Returns `false` if the zone is too close to its min watermark.
    fn take_in_hand(&mut self, run: &mut Run, pfn: u32, order: u8) -> bool {
        let zone = &mut self.zones[run.zone];
        let spares = zone.watermark_ok(0, zone.min + (1 << order), ZoneKind::Dma, AllocFlags::CMA, 0);
        if spares {
            zone.remove(&mut self.map, pfn);
            run.hand[usize::from(order)].push_back(pfn);
            if order + 1 >= self.map.block {
                self.give_to_movable(run.zone, pfn, order);
            }
        }
        spares
    }

    fn give_to_movable(&mut self, zone: usize, pfn: u32, order: u8) {
        for block in (self.block_of(pfn)..pfn + (1 << order)).step_by(1 << self.map.block) {
            if (self.map.type_of(block) as u8) < 3 {
                self.zones[zone].retype(&mut self.map, block, MigrateType::Movable);
            }
        }
    }
}

/// Reason why the target scanner stopped in a pageblock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    Enough,
    AtEnd,
    TooLow,
}
