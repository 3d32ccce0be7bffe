//! Bounds that the facts of a recording set to its rows: CPUs, tasks, orders, times and frames.
//!
//! A kernel names only the parts of its own machine. A row beyond these bounds comes from another machine than the
//! facts, or from a mistake. Missing facts set no bounds, since a writer may not know them until it has written all
//! rows.

use std::ops::Range;

use crate::event::{Kind, NO_PFN, Row};
use crate::facts::Facts;

/// Bound on the order of a block on any architecture. No default is above 13, but some architectures set no limit. A
/// large page of hugetlbfs is more than one block. linux: arch/arm64/Kconfig:ARCH_FORCE_MAX_ORDER
pub(crate) const BLOCK_ORDER_MAX: u8 = 20;

/// Highest order on architectures without a choice. linux: include/linux/mmzone.h:MAX_PAGE_ORDER
const ORDER_USUAL: u8 = 10;

/// Bounds of the values of a row.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    /// Number of CPUs; CPU numbers are below it.
    pub cpus: u32,
    /// Number of tasks; task indices are below it.
    pub tasks: u32,
    /// Highest order of a block.
    pub order_max: u8,
    /// Order of a pageblock.
    pub pageblock_order: u8,
    /// Latest time, in nanoseconds.
    pub end: u64,
    /// Ranges of frames, in order and not adjacent; empty if nothing is known.
    pub memory: Vec<Range<u64>>,
}

impl Bounds {
    /// Returns the bounds of any machine.
    pub(crate) fn none() -> Bounds {
        let end = i64::MAX as u64;
        let memory = Vec::new();
        Bounds { cpus: 1 << 16, tasks: u32::MAX, order_max: BLOCK_ORDER_MAX, pageblock_order: 0, end, memory }
    }

    /// Returns the bounds of the machine of these facts.
    pub(crate) fn from_facts(facts: &Facts) -> Bounds {
        Bounds {
            cpus: facts.cpus.into(),
            tasks: facts.tasks.len().clamp(1, u32::MAX as usize) as u32,
            order_max: order_max(facts),
            pageblock_order: facts.pageblock_order.min(BLOCK_ORDER_MAX),
            end: if facts.duration == 0 { i64::MAX as u64 } else { facts.duration },
            memory: memory(facts),
        }
    }

    /// Returns whether `pages` frames from `pfn` on are all memory; always `true` if the memory is not known.
    #[inline]
    pub(crate) fn has_memory(&self, pfn: u64, pages: u64) -> bool {
        let end = pfn.saturating_add(pages);
        self.memory.is_empty() || self.memory.iter().any(|part| part.start <= pfn && end <= part.end)
    }

    /// Returns the first frame and the number of frames that a row is about; `None` for positions of scanners, and for
    /// events about no page.
    pub(crate) fn frames(&self, row: &Row) -> Option<(u64, u64)> {
        if row.kind.names_place() {
            return None;
        }
        let [first, second] = [row.args[0], row.args[1]].map(|run| u64::try_from(run).unwrap_or(0));
        let pages = match row.kind {
            Kind::StartAllocated | Kind::EndAllocated => first.saturating_mul(1_u64 << row.order.min(63)),
            Kind::StartUnknown | Kind::EndUnknown => first,
            Kind::StartPageblock => second.saturating_mul(1 << self.pageblock_order),
            _ => 1 << row.order.min(63),
        };
        (row.pfn != NO_PFN).then_some((row.pfn, pages))
    }
}

/// Returns the highest order of the machine's blocks, as given by its free lists or else by its architecture.
pub(crate) fn order_max(facts: &Facts) -> u8 {
    let sampled = facts.samples.iter().flat_map(|sample| &sample.buddyinfo).map(Vec::len);
    let lists = sampled.chain(facts.pagetypeinfo_start.iter().map(|list| list.free.len())).max();
    match u8::try_from(lists.unwrap_or(0)) {
        Ok(0) if facts.machine == "x86_64" => ORDER_USUAL,
        Ok(lists @ 1..=BLOCK_ORDER_MAX) => lists - 1,
        _ => BLOCK_ORDER_MAX,
    }
}

/// Returns the frames that rows may name, as ranges in order that are not adjacent. They are the frames of zones and
/// RAM, extended to whole pageblocks, since a zone may begin within its first pageblock.
pub fn memory(facts: &Facts) -> Vec<Range<u64>> {
    let zones = facts
        .zones_start
        .iter()
        .chain(&facts.zones_end)
        .filter(|zone| zone.spanned > 0)
        .map(|zone| (zone.start_pfn, zone.start_pfn.saturating_add(zone.spanned)));
    let pageblock = 1_u64 << facts.pageblock_order.min(BLOCK_ORDER_MAX);
    let mut parts: Vec<Range<u64>> = zones
        .chain(facts.ram.iter().copied())
        .map(|(start, end)| start / pageblock * pageblock..end.checked_next_multiple_of(pageblock).unwrap_or(u64::MAX))
        .collect();
    parts.sort_unstable_by_key(|part| part.start);
    let mut memory: Vec<Range<u64>> = Vec::new();
    for part in parts {
        match memory.last_mut() {
            Some(last) if part.start <= last.end => last.end = last.end.max(part.end),
            _ => memory.push(part),
        }
    }
    memory
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Sample, ZoneFacts};

    fn facts() -> Facts {
        let zones = [(1, 4095), (4096, 1000), (0x10_0000, 512)];
        Facts {
            zones_start: zones
                .map(|(start_pfn, spanned)| ZoneFacts { start_pfn, spanned, ..ZoneFacts::default() })
                .to_vec(),
            ram: vec![(0x20_0000, 0x20_0001)],
            pageblock_order: 9,
            ..Facts::default()
        }
    }

    #[test]
    fn memory_bounds_are_whole_pageblocks_of_zones_and_ram() {
        let bounds = Bounds::from_facts(&facts());
        assert_eq!(bounds.memory, [0..5120, 0x10_0000..0x10_0200, 0x20_0000..0x20_0200]);
        assert!(bounds.has_memory(4000, 512) && !bounds.has_memory(5000, 512) && !bounds.has_memory(u64::MAX, 2));
        assert!(Bounds::none().has_memory(1 << 50, 1));
    }

    #[test]
    fn order_limit_follows_the_free_lists() {
        for (lists, expected) in [(11, 10), (14, 13), (300, BLOCK_ORDER_MAX)] {
            let samples = vec![Sample { buddyinfo: vec![vec![0; lists]], ..Sample::default() }];
            assert_eq!(order_max(&Facts { samples, ..facts() }), expected);
        }
        assert_eq!(order_max(&Facts { machine: "x86_64".to_owned(), ..facts() }), 10);
        assert_eq!(order_max(&facts()), BLOCK_ORDER_MAX);
    }

    #[test]
    fn rows_map_to_the_frames_of_their_blocks() {
        let bounds = Bounds::from_facts(&facts());
        for (kind, order, args, expected) in [
            (Kind::Free, 3, [0; 3], Some((512, 8))),
            (Kind::StartAllocated, 3, [2, 0, 0], Some((512, 16))),
            (Kind::StartPageblock, 0, [1, 2, 0], Some((512, 1024))),
            (Kind::CompactionEnd, 0, [0; 3], None),
            (Kind::IsolateFreePages, 0, [1024, 0, 0], None),
            (Kind::WriteFolio, 0, [0; 3], Some((512, 1))),
        ] {
            assert_eq!(bounds.frames(&Row { pfn: 512, order, args, ..Row::new(kind) }), expected, "{kind:?}");
        }
        assert_eq!(bounds.frames(&Row::new(Kind::Alloc)), None);
    }
}
