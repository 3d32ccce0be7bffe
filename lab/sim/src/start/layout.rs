//! Distribution of memory by position: the figures of each kind of pageblock, in each part of memory.
//!
//! The positions of pages influence compaction, and the mixing of unmovable with movable pages, more than the totals
//! do. In unmovable pageblocks, the pages that the kernel does not use are free, and no movable pages are in the way
//! there. The positions of these pageblocks have a smaller influence: compaction moves pages from low addresses to free
//! pages at high addresses. So a machine that is modelled on another has the figures of each kind from that machine, in
//! each part of memory. For an age, only the figures of all pageblocks are known; [`Layout::from_figures`] documents
//! the assumptions about their distribution.
//!
//! # Design
//!
//! A drawn layout is correct if it behaves like the real one. The properties that decide the results of compaction and
//! of huge pages were found by changing snapshots of real machines in one respect each (docs/findings/ages.md). The
//! interpretation of pages without flags (`snapshot`) has a larger influence than the positions of pages in pageblocks
//! and of pageblocks in memory: such pages are free on a per-CPU list, or they are the kernel's, which groups its
//! pages.

use std::collections::BTreeMap;

use freehold::base::MigrateType;
use serde::{Serialize, Serializer};

use super::figures::scale;
use super::{Figures, PAGEBLOCK_ORDER, PAGEBLOCK_PAGES, Pageblock, Run, Start, Use};

/// Share of the fixed pages that is in unmovable pageblocks. (Weiner, linux-mm, 2023-04: of some 900 pageblocks after a
/// build 50 were unmovable, 77 others held 55 pages of slabs each: a sixth of what the 50 had.)
const IN_UNMOVABLE: (u64, u64) = (4, 5);
/// Mean number of fixed pages in an unmovable pageblock. It is two thirds to four fifths of the pageblock in
/// `recordings/guest-*.parquet` and `recordings/oracle-pressure.parquet`.
const UNMOVABLE_PAGES: u64 = PAGEBLOCK_PAGES as u64 * 3 / 4;
/// Maximum share of the free pages outside wholly free pageblocks that is in unmovable and reclaimable pageblocks.
const FREE_IN_OWN: (u64, u64) = (1, 2);

/// Parts of memory for which a layout has separate figures, from the lowest addresses to the highest.
pub const PARTS: usize = 8;

/// Kind of a pageblock, by its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Wholly free.
    Free,
    /// One huge page of a task.
    Huge,
    /// Unmovable or high-atomic.
    Unmovable,
    /// Reclaimable: for kernel objects that shrinkers free.
    Reclaimable,
    /// Movable, with some fixed pages.
    Polluted,
    /// Movable, without fixed pages.
    Movable,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Kind; 6] =
        [Kind::Free, Kind::Huge, Kind::Unmovable, Kind::Reclaimable, Kind::Polluted, Kind::Movable];

    /// Returns the kind of a pageblock.
    pub fn from_pageblock(pageblock: &Pageblock<'_>) -> Kind {
        match (pageblock.runs, pageblock.migratetype) {
            (runs, _) if runs.iter().all(|run| run.what == Use::Free) => Kind::Free,
            ([Run { what: Use::Task, order: PAGEBLOCK_ORDER, .. }], _) => Kind::Huge,
            (_, MigrateType::Unmovable | MigrateType::HighAtomic) => Kind::Unmovable,
            (_, MigrateType::Reclaimable) => Kind::Reclaimable,
            _ if pageblock.has(Use::Fixed) => Kind::Polluted,
            _ => Kind::Movable,
        }
    }

    /// Returns the migratetype of drawn pageblocks of this kind.
    pub fn migratetype(self) -> MigrateType {
        match self {
            Kind::Unmovable => MigrateType::Unmovable,
            Kind::Reclaimable => MigrateType::Reclaimable,
            _ => MigrateType::Movable,
        }
    }

    /// Returns the name in machine-readable output.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Free => "free",
            Kind::Huge => "huge",
            Kind::Unmovable => "unmovable",
            Kind::Reclaimable => "reclaimable",
            Kind::Polluted => "polluted",
            Kind::Movable => "movable",
        }
    }

    /// Returns the name in tables.
    pub fn about(self) -> &'static str {
        match self {
            Kind::Free => "wholly free",
            Kind::Huge => "one huge page of a task",
            Kind::Unmovable => "unmovable",
            Kind::Reclaimable => "reclaimable",
            Kind::Polluted => "movable, with fixed pages",
            Kind::Movable => "movable only",
        }
    }
}

/// Figures of some pageblocks, for each kind.
pub type Kinds = [Figures; Kind::ALL.len()];

/// Figures of a machine's pageblocks, for each kind, in each part of its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    parts: [Kinds; PARTS],
}

impl Serialize for Layout {
    /// Serializes each part as a map from kinds to figures.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.parts.iter().map(figures_by_name))
    }
}

/// Returns the figures of each kind under its name.
fn figures_by_name(kinds: &Kinds) -> BTreeMap<&'static str, Figures> {
    Kind::ALL.into_iter().map(|kind| (kind.name(), kinds[kind as usize])).collect()
}

impl Layout {
    /// Returns the layout of a start.
    pub fn from_start(start: &Start) -> Layout {
        let mut parts = [Kinds::default(); PARTS];
        for (number, pageblock) in (0..).zip(start.pageblocks()) {
            let part = number * PARTS as u64 / u64::from(start.len());
            parts[part as usize][Kind::from_pageblock(&pageblock) as usize].count(&pageblock);
        }
        Layout { parts }
    }

    /// Returns the layout of a machine for which only the total figures are known. The assumptions are:
    ///
    /// - Four fifths of the fixed pages are in unmovable pageblocks, which are three quarters full of them.
    /// - The other pages of unmovable and reclaimable pageblocks are free, up to half of all free pages outside wholly
    ///   free pageblocks. Beyond that they are pages of files and tasks.
    /// - The rest of memory is uniform.
    /// - Free, unmovable, reclaimable and polluted pageblocks are distributed over the parts as on three machines that
    ///   were examined. Huge and movable pageblocks take the room that is left.
    pub fn from_figures(all: &Figures) -> Layout {
        let kinds = add_movable(all, add_free(all, kinds_with_fixed(all)));
        let mut room: [u64; PARTS] = std::array::from_fn(|part| nth_part(all.pageblocks, part));
        let mut parts = [Kinds::default(); PARTS];
        for (kind, weights) in PLACES {
            let figures = kinds[kind as usize];
            let pageblocks = place(figures.pageblocks, &weights, &mut room);
            let mut before = 0;
            for (part, count) in parts.iter_mut().zip(pageblocks) {
                // Differences of cumulative sums, so that rounding does not change the total over all parts.
                part[kind as usize] = figures.scaled_to(before + count).minus(&figures.scaled_to(before));
                before += count;
            }
        }
        Layout { parts }
    }

    /// Returns the parts, from the lowest addresses to the highest.
    pub fn parts(&self) -> &[Kinds; PARTS] {
        &self.parts
    }

    /// Returns the figures of all pageblocks of a kind.
    pub fn kind(&self, kind: Kind) -> Figures {
        self.parts.iter().fold(Figures::default(), |sum, part| sum.plus(&part[kind as usize]))
    }

    /// Returns the figures of all pageblocks.
    pub fn total(&self) -> Figures {
        Kind::ALL.into_iter().fold(Figures::default(), |sum, kind| sum.plus(&self.kind(kind)))
    }

    /// Returns a layout with the same shares on a machine with `pageblocks` pageblocks.
    #[must_use]
    pub fn scaled_to(&self, pageblocks: u64) -> Layout {
        Layout { parts: std::array::from_fn(|part| scale_part(&self.parts[part], nth_part(pageblocks, part))) }
    }
}

/// Returns the number of pageblocks in one part of a machine: those whose number, scaled to the parts, is the part's.
fn nth_part(pageblocks: u64, part: usize) -> u64 {
    let [begin, end] = [part, part + 1].map(|part| (pageblocks * part as u64).div_ceil(PARTS as u64));
    end - begin
}

/// Scales a part to `pageblocks` pageblocks. Counts are differences of cumulative sums, so that the kinds add up to
/// exactly that number.
fn scale_part(part: &Kinds, pageblocks: u64) -> Kinds {
    let whole: u64 = part.iter().map(|figures| figures.pageblocks).sum();
    let (mut before, mut given) = (0, 0);
    part.map(|figures| {
        before += figures.pageblocks;
        let count = scale(before, pageblocks, whole) - given;
        given += count;
        figures.scaled_to(count)
    })
}

/// Distribution of each kind over the parts, as weights. Kinds later in the table take the room that is left. The
/// weights of the first four kinds are per mille of the kind, the means of `recordings/guest-files.parquet`,
/// `guest-build.parquet` and `host-build.parquet`, all of them full of page cache. Unmovable pageblocks are at both
/// ends.
const PLACES: [(Kind, [u64; PARTS]); Kind::ALL.len()] = [
    (Kind::Unmovable, [469, 243, 9, 18, 1, 1, 30, 230]),
    (Kind::Reclaimable, [399, 96, 13, 1, 85, 19, 59, 330]),
    (Kind::Free, [249, 107, 56, 1, 1, 222, 33, 333]),
    (Kind::Polluted, [252, 79, 101, 44, 36, 78, 95, 314]),
    (Kind::Huge, [125; PARTS]),
    (Kind::Movable, [125; PARTS]),
];

/// Distributes pageblocks over the parts by weight, as far as there is room, and reduces the room.
fn place(pageblocks: u64, weights: &[u64; PARTS], room: &mut [u64; PARTS]) -> [u64; PARTS] {
    let mut placed = [0; PARTS];
    let mut left = pageblocks.min(room.iter().sum());
    while left > 0 {
        let open: Vec<usize> = (0..PARTS).filter(|&part| room[part] > 0).collect();
        let whole: u64 = open.iter().map(|&part| weights[part]).sum();
        let (round, mut weight, mut wanted_before) = (left, 0, 0);
        for part in open {
            weight += weights[part];
            let wanted = scale(weight, round, whole) - wanted_before;
            wanted_before += wanted;
            let given = wanted.min(room[part]);
            placed[part] += given;
            room[part] -= given;
            left -= given;
        }
    }
    placed
}

/// Returns the figures of each kind, with pageblocks, fixed and reclaimable pages.
fn kinds_with_fixed(all: &Figures) -> Kinds {
    let none = Figures::default();
    // Each of the other pageblocks with fixed pages has at least one of them, and no more than it has room for.
    let own = part(all.fixed, IN_UNMOVABLE).min(all.fixed.saturating_sub(all.fixed_pageblocks));
    let own_pageblocks = (own / UNMOVABLE_PAGES).min(all.fixed_pageblocks);
    let rest = in_blocks(all.fixed_pageblocks - own_pageblocks);
    let fixed = own.max(all.fixed.saturating_sub(rest)).min(in_blocks(own_pageblocks));
    let unmovable = Figures { pageblocks: own_pageblocks, fixed_pageblocks: own_pageblocks, fixed, ..none };
    let shrinkable = all.reclaimable_pageblocks;
    let objects = all.reclaimable.min(in_blocks(shrinkable));
    let reclaimable =
        Figures { pageblocks: shrinkable, reclaimable_pageblocks: shrinkable, reclaimable: objects, ..none };
    let mixed = all.fixed_pageblocks - unmovable.pageblocks;
    let polluted = Figures { pageblocks: mixed, fixed_pageblocks: mixed, fixed: all.fixed - fixed, ..none };
    let free = Figures { pageblocks: all.free_pageblocks, free_pageblocks: all.free_pageblocks, ..none };
    let huge = Figures { pageblocks: all.huge_pageblocks, huge_pageblocks: all.huge_pageblocks, ..none };
    let others = [free, huge, unmovable, reclaimable, polluted].iter().map(|kind| kind.pageblocks).sum();
    let movable = Figures { pageblocks: all.pageblocks.saturating_sub(others), ..none };
    [free, huge, unmovable, reclaimable, polluted, movable]
}

/// Adds free pages to the kinds.
fn add_free(all: &Figures, mut kinds: Kinds) -> Kinds {
    let [free, _, unmovable, reclaimable, polluted, movable] = &mut kinds;
    free.free = in_blocks(free.pageblocks);
    let scattered = all.free.saturating_sub(free.free);
    let in_own = share_out(part(scattered, FREE_IN_OWN), [unmovable, reclaimable]);
    share_out(scattered - in_own, [polluted, movable]);
    kinds
}

/// Fills the remaining pages with pages of files and tasks, in their total proportion.
fn add_movable(all: &Figures, mut kinds: Kinds) -> Kinds {
    let [_, huge, rest @ ..] = &mut kinds;
    huge.task = in_blocks(huge.pageblocks);
    let movable = all.file + all.task - huge.task;
    for figures in rest {
        let unused = figures.unused();
        figures.file = scale(all.file, unused, movable).min(unused);
        figures.active = scale(all.active, unused, movable).min(figures.file);
        figures.task = unused - figures.file;
    }
    kinds
}

/// Distributes free pages over the unused pages of two kinds, as far as there is room. Returns the number distributed.
fn share_out(pages: u64, [one, other]: [&mut Figures; 2]) -> u64 {
    let room = one.unused() + other.unused();
    let given = pages.min(room);
    one.free = scale(one.unused(), given, room);
    other.free = given - one.free;
    given
}

impl Figures {
    /// Returns the number of pages without a use so far.
    fn unused(&self) -> u64 {
        self.pages().saturating_sub(self.free + self.fixed + self.reclaimable + self.file + self.task)
    }
}

fn in_blocks(pageblocks: u64) -> u64 {
    pageblocks << PAGEBLOCK_ORDER
}

fn part(whole: u64, (numerator, denominator): (u64, u64)) -> u64 {
    whole * numerator / denominator
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start::{age, draw_start};

    #[test]
    fn pageblocks_are_placed_by_weight_and_room() {
        let weights = [620, 1, 1, 1, 1, 1, 45, 330];
        assert_eq!(place(11, &weights, &mut [99; PARTS]), [7, 0, 0, 0, 0, 0, 0, 4]);
        let mut room = [4, 1, 1, 1, 1, 1, 1, 3];
        assert_eq!(place(20, &weights, &mut room), [4, 1, 1, 1, 1, 1, 1, 3], "no more than there is room for");
        assert_eq!(room, [0; PARTS]);
    }

    #[test]
    fn derived_layout_keeps_the_known_figures() {
        for age in 0..=age::AGE_MAX {
            for pageblocks in [512, 487 * 4] {
                let all = age::figures(age, pageblocks);
                let found = Layout::from_figures(&all).total();
                assert_eq!(found.pageblocks, all.pageblocks, "{age}");
                assert_eq!((found.fixed, found.free), (all.fixed, all.free), "{age}, {pageblocks}");
                assert_eq!(found.pages(), found.fixed + found.reclaimable + found.free + found.file + found.task);
            }
        }
    }

    /// Counts pages of files as pages of tasks, since the choice between the two is random for each movable page.
    fn with_task_pages_alone(mut layout: Layout) -> Layout {
        for figures in layout.parts.iter_mut().flatten() {
            (figures.task, figures.file, figures.active) = (figures.task + figures.file, 0, 0);
        }
        layout
    }

    #[test]
    fn drawn_start_has_the_requested_layout() {
        for age in [0, 10, 60, 90, 100] {
            let wanted = Layout::from_start(&draw_start(&age::layout(age, 1024), 1));
            let found = Layout::from_start(&draw_start(&wanted, 2));
            assert_eq!(with_task_pages_alone(found), with_task_pages_alone(wanted), "{age}");
            for pageblocks in [487, 1024] {
                let wanted = Layout::from_start(&draw_start(&age::layout(age, pageblocks), 1));
                assert_eq!(wanted.scaled_to(pageblocks), wanted, "{age}");
            }
        }
    }

    #[test]
    fn scaled_layout_keeps_the_shares() {
        let large = Layout::from_start(&draw_start(&age::layout(60, 4096), 1));
        for pageblocks in [8, 16, 61, 256] {
            let small = large.scaled_to(pageblocks).total();
            assert_eq!(small.pageblocks, pageblocks);
            let sum = small.fixed + small.reclaimable + small.free + small.file + small.task;
            assert!(small.pages().abs_diff(sum) < 64, "each count is rounded by itself: {small:?}");
        }
    }

    #[test]
    fn derived_layout_fits_unusual_figures() {
        for (fixed_blocks, fixed) in [(50, 1), (10, 46), (34, 153), (80, 3), (0, 0)] {
            let median = age::figures(60, 1000);
            let fixed = fixed * 1000;
            let task = median.pages() - (median.free + fixed + median.reclaimable);
            let all = Figures {
                fixed_pageblocks: fixed_blocks * 10,
                fixed,
                file: 0,
                active: 0,
                task,
                huge_pageblocks: 0,
                ..median
            };
            let found = Layout::from_figures(&all).total();
            let [found_counts, counts] = [found, all]
                .map(|figures| (figures.fixed_pageblocks, figures.fixed, figures.free, figures.reclaimable));
            assert_eq!(found_counts, counts);
        }
    }
}
