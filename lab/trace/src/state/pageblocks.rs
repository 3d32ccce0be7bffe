//! Types of the pageblocks when the recording started, and when it ended.
//!
//! Linux does not show the type of a given pageblock, only the number of each type in a zone (`/proc/pagetypeinfo`).
//! But events name types. A block that leaves the free lists comes from a list of its type, and a drained page goes to
//! the list of its pageblock's type. A fallback that changes a pageblock's type names the old one. The first type that
//! an event names for a pageblock is its *vote*.
//!
//! Pageblocks without a vote are guessed from their contents, so that the numbers in the zone match
//! `/proc/pagetypeinfo`. The pageblocks with the most unmovable pages become the missing Unmovable and Reclaimable
//! ones. Of the rest, those without movable pages become the missing HighAtomic ones, and the others Movable. Each row
//! states whether its type was named or guessed. The types at the end, which the free blocks of the end state carry, are
//! determined in the same way from the last type that an event names.

use std::collections::HashMap;

use crate::event::{Kind, NO_MIGRATETYPE, NO_PFN, Row, migratetype};
use crate::facts::{TypeFacts, ZoneFacts};
use crate::snapshot::flag;

/// `args[0]` of a pageblock whose type an event named.
const NAMED: i64 = 1;
/// `args[0]` of a pageblock whose type was guessed.
const GUESSED: i64 = 2;

/// Types that the events name for each pageblock.
#[derive(Debug)]
pub struct Votes {
    order: u8,
    /// First type named for each pageblock.
    first: Ballot,
    /// Last type named for each pageblock.
    last: Ballot,
    /// By CPU, the last pageblock whose first vote came from a zone-locked event. See [`Votes::withdraw`].
    latest: HashMap<u16, u64>,
}

/// A change of the type of pageblocks, by a fallback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeChange {
    /// A frame of the first pageblock.
    pub pfn: u64,
    /// Order of the free block that was taken, which may have several pageblocks.
    pub order: u8,
    /// Type before the change.
    pub before: i8,
    /// Type after the change.
    pub after: i8,
}

impl TypeChange {
    /// Returns the change that an event made; `None` if it made none.
    pub fn from_row(row: &Row) -> Option<TypeChange> {
        let [order, before, changed] = row.args;
        let (order, before) = (u8::try_from(order).ok()?, i8::try_from(before).ok()?);
        (row.kind == Kind::ExtFrag && changed == 1).then_some(TypeChange {
            pfn: row.pfn,
            order,
            before,
            after: row.migratetype,
        })
    }
}

/// One type per pageblock, by its number; [`NO_MIGRATETYPE`] if no event named one.
#[derive(Clone, Debug, Default)]
pub struct Ballot(Vec<i8>);

impl Ballot {
    /// Returns the entry of a pageblock; `None` if the number is above that of any machine.
    fn place(&mut self, block: u64) -> Option<&mut i8> {
        let block = usize::try_from(block).ok().filter(|&block| block < 1 << 32)?;
        if self.0.len() <= block {
            self.0.resize(block + 1, NO_MIGRATETYPE);
        }
        self.0.get_mut(block)
    }

    fn get(&self, block: u64) -> Option<i8> {
        self.0.get(block as usize).copied().filter(|&vote| vote != NO_MIGRATETYPE)
    }
}

impl Votes {
    /// Creates an empty set of votes. `order` is the order of a pageblock.
    pub fn new(order: u8) -> Votes {
        Votes { order, first: Ballot::default(), last: Ballot::default(), latest: HashMap::new() }
    }

    /// Returns the types when the events began.
    pub fn first(&self) -> &Ballot {
        &self.first
    }

    /// Returns the types when the events ended.
    pub fn last(&self) -> &Ballot {
        &self.last
    }

    /// Handles an event after the start.
    pub fn observe(&mut self, row: &Row) {
        if row.pfn == NO_PFN {
            return;
        }
        let block = row.pfn >> self.order;
        match row.kind {
            Kind::ZoneLocked | Kind::PcpuDrain => {
                let is_first = self.vote(block, row.migratetype, row.migratetype);
                if is_first && row.kind == Kind::ZoneLocked {
                    self.latest.insert(row.cpu, block);
                }
            }
            Kind::ExtFrag => self.fell_back(row),
            _ => {}
        }
    }

    /// Handles a fallback, which names the type of the pageblock before it and after it.
    fn fell_back(&mut self, row: &Row) {
        let [fallback_order, fallback_type, changed] = row.args;
        let Ok(before) = i8::try_from(fallback_type) else { return };
        let after = if changed == 1 { row.migratetype } else { before };
        let order = u32::try_from(fallback_order).unwrap_or(0).min(20);
        let first = (row.pfn >> order) << order;
        for block in first >> self.order..=(first + (1 << order) - 1) >> self.order {
            self.withdraw(row.cpu, block);
            self.vote(block, before, after);
        }
    }

    /// Removes the first vote of a pageblock if this CPU has just cast it. A claim takes its page from the pageblock
    /// under its *new* type and reports the fallback only afterwards, so that the vote from taking the page is wrong.
    fn withdraw(&mut self, cpu: u16, block: u64) {
        if self.latest.get(&cpu) == Some(&block) {
            self.latest.remove(&cpu);
            if let Some(vote) = self.first.place(block) {
                *vote = NO_MIGRATETYPE;
            }
        }
    }

    /// Records that the pageblock had the type `before`, and now has the type `after`. Returns whether this is the
    /// first type named for it.
    fn vote(&mut self, block: u64, before: i8, after: i8) -> bool {
        let (Some(first), Some(last)) = (self.first.place(block), self.last.place(block)) else { return false };
        *last = after;
        let is_first = *first == NO_MIGRATETYPE;
        if is_first {
            *first = before;
        }
        is_first
    }
}

/// Type of a pageblock, and whether an event named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PageblockType {
    migratetype: i8,
    how: i64,
}

/// Types of all pageblocks of the machine.
#[derive(Debug)]
pub struct Pageblocks {
    order: u8,
    /// Types by pageblock number; `None` if there is no memory.
    types: Vec<Option<PageblockType>>,
    /// Number of pageblocks whose type an event named.
    pub named: u64,
    /// Number of pageblocks whose type was guessed.
    pub guessed: u64,
    /// Sum over all zones and types of the differences to the numbers of `/proc/pagetypeinfo`, in pageblocks.
    pub off: u64,
}

impl Pageblocks {
    /// Determines the types of pageblocks of `order` from the votes, the zones' counts, and the flags of all frames.
    pub fn settle(order: u8, votes: &Ballot, zones: &[ZoneFacts], counts: &[TypeFacts], words: &[u32]) -> Pageblocks {
        let blocks = words.len().div_ceil(1 << order);
        let mut pageblocks = Pageblocks { order, types: vec![None; blocks], named: 0, guessed: 0, off: 0 };
        for zone in zones {
            let counts = counts.iter().filter(|count| count.node == zone.node && count.zone == zone.name);
            let wanted = counts.map(|count| (count.migratetype, count.pageblocks)).collect();
            pageblocks.settle_zone(votes, zone, wanted, words);
        }
        pageblocks
    }

    fn settle_zone(&mut self, votes: &Ballot, zone: &ZoneFacts, wanted: HashMap<i8, u64>, words: &[u32]) {
        let mut missing: HashMap<i8, i64> =
            wanted.into_iter().map(|(kind, count)| (kind, count.cast_signed())).collect();
        let mut silent = Vec::new();
        let first = zone.start_pfn >> self.order;
        let end = (zone.start_pfn + zone.spanned).div_ceil(1 << self.order);
        for block in first..end.min(self.types.len() as u64) {
            let Some(contents) = Contents::count_frames(block, self.order, words) else { continue };
            match votes.get(block) {
                Some(migratetype) => {
                    *missing.entry(migratetype).or_default() -= 1;
                    self.types[block as usize] = Some(PageblockType { migratetype, how: NAMED });
                    self.named += 1;
                }
                None => silent.push((block, contents)),
            }
        }
        self.guess(silent, &mut missing);
        self.off += missing.values().map(|count| count.unsigned_abs()).sum::<u64>();
    }

    /// Assigns the missing types to the pageblocks without a vote.
    fn guess(&mut self, mut silent: Vec<(u64, Contents)>, missing: &mut HashMap<i8, i64>) {
        let [reclaimable, unmovable, mut highatomic] =
            [migratetype::RECLAIMABLE, migratetype::UNMOVABLE, migratetype::HIGHATOMIC]
                .map(|kind| missing.get(&kind).copied().unwrap_or(0).max(0) as usize);
        silent.sort_by_key(|(block, contents)| (std::cmp::Reverse(contents.pinned()), *block));
        let movable = silent.split_off((reclaimable + unmovable).min(silent.len()));
        // Reclaimable memory is mostly slab: inodes and directory entries.
        silent.sort_by_key(|(block, contents)| (std::cmp::Reverse(contents.slab_excess()), *block));
        let (slab, pinned) = silent.split_at(reclaimable.min(silent.len()));
        for (block, _) in slab {
            self.assume(*block, migratetype::RECLAIMABLE, missing);
        }
        for (block, _) in pinned {
            self.assume(*block, migratetype::UNMOVABLE, missing);
        }
        for (block, contents) in &movable {
            // The high-atomic reserve contains no movable pages.
            let reserve = highatomic > 0 && contents.movable == 0 && contents.pinned() > 0;
            highatomic -= usize::from(reserve);
            let kind = if reserve { migratetype::HIGHATOMIC } else { migratetype::MOVABLE };
            self.assume(*block, kind, missing);
        }
    }

    fn assume(&mut self, block: u64, migratetype: i8, missing: &mut HashMap<i8, i64>) {
        *missing.entry(migratetype).or_default() -= 1;
        self.types[block as usize] = Some(PageblockType { migratetype, how: GUESSED });
        self.guessed += 1;
    }

    /// Replaces guesses from contents by better ones. `types` has one type per pageblock, or [`NO_MIGRATETYPE`].
    pub fn prefer(&mut self, types: &[i8]) {
        let guessed =
            self.types.iter_mut().zip(types).filter(|(known, better)| {
                **better != NO_MIGRATETYPE && known.is_some_and(|known| known.how == GUESSED)
            });
        guessed.for_each(|(known, &migratetype)| *known = Some(PageblockType { migratetype, how: GUESSED }));
    }

    /// Returns the number of pageblocks of each type in this range of pageblock numbers, by migratetype.
    pub fn counts(&self, blocks: std::ops::Range<u64>) -> [u64; 6] {
        let mut counts = [0; 6];
        let known = self.types.iter().take(blocks.end as usize).skip(blocks.start as usize).flatten();
        for known in known {
            if let Some(count) = usize::try_from(known.migratetype).ok().and_then(|number| counts.get_mut(number)) {
                *count += 1;
            }
        }
        counts
    }

    /// Returns the type of the pageblock that contains `pfn`, or [`NO_MIGRATETYPE`].
    pub fn type_of(&self, pfn: u64) -> i8 {
        let known = self.types.get((pfn >> self.order) as usize).copied().flatten();
        known.map_or(NO_MIGRATETYPE, |known| known.migratetype)
    }

    /// Returns one row for each run of pageblocks that are alike.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        let mut last: Option<(u64, PageblockType)> = None;
        for (block, known) in self.types.iter().enumerate() {
            let Some(known) = *known else { continue };
            let block = block as u64;
            match rows.last_mut() {
                Some(row) if last == Some((block.wrapping_sub(1), known)) => row.args[1] += 1,
                _ => rows.push(Row {
                    pfn: block << self.order,
                    migratetype: known.migratetype,
                    args: [known.how, 1, 0],
                    ..Row::new(Kind::StartPageblock)
                }),
            }
            last = Some((block, known));
        }
        rows
    }
}

/// Contents of a pageblock, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Contents {
    slab: u32,
    movable: u32,
    /// Allocated frames that are neither slab nor on an LRU list. Frames without flags do not count, since they may be
    /// free on per-CPU lists.
    other: u32,
}

impl Contents {
    /// Counts the frames of a pageblock; `None` if it has none.
    fn count_frames(block: u64, order: u8, words: &[u32]) -> Option<Contents> {
        let first = (block << order) as usize;
        let words = words.get(first..words.len().min(first + (1 << order)))?;
        let mut contents = Contents::default();
        let mut present = false;
        // The tails of a compound page count like their head.
        let mut head = 0;
        for &word in words {
            if word & flag::NOPAGE != 0 {
                continue;
            }
            present = true;
            if word & flag::COMPOUND_TAIL == 0 {
                head = word;
            }
            contents.count(head);
        }
        present.then_some(contents)
    }

    fn count(&mut self, word: u32) {
        if word & flag::SLAB != 0 {
            self.slab += 1;
        } else if word & flag::LRU != 0 {
            self.movable += 1;
        } else if word & (flag::BUDDY | flag::RESERVED) == 0 && word != 0 {
            self.other += 1;
        }
    }

    /// Returns the number of frames that probably cannot be moved.
    fn pinned(self) -> u32 {
        self.slab + self.other
    }

    fn slab_excess(self) -> i64 {
        i64::from(self.slab) - i64::from(self.other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: u8 = 2;

    fn event(kind: Kind, pfn: u64, migratetype: i8) -> Row {
        Row { pfn, migratetype, ..Row::new(kind) }
    }

    fn zone(start_pfn: u64, spanned: u64) -> ZoneFacts {
        ZoneFacts { name: "Normal".to_owned(), start_pfn, spanned, ..ZoneFacts::default() }
    }

    fn count(migratetype: i8, pageblocks: u64) -> TypeFacts {
        TypeFacts { zone: "Normal".to_owned(), migratetype, pageblocks, ..TypeFacts::default() }
    }

    #[test]
    fn first_vote_on_a_pageblock_type_counts() {
        let mut votes = Votes::new(ORDER);
        votes.observe(&event(Kind::ZoneLocked, 5, 1));
        votes.observe(&event(Kind::PcpuDrain, 4, 2));
        votes.observe(&event(Kind::PcpuDrain, 9, 2));
        votes.observe(&event(Kind::Free, 0, 0));
        assert_eq!([0, 1, 2, 99].map(|block| votes.first().get(block)), [None, Some(1), Some(2), None]);
    }

    #[test]
    fn claim_corrects_the_preceding_vote() {
        let mut votes = Votes::new(ORDER);
        votes.observe(&event(Kind::ZoneLocked, 5, 0));
        let claim = Row { args: [1, 1, 1], ..event(Kind::ExtFrag, 5, 0) };
        votes.observe(&claim);
        assert_eq!(votes.first().get(1), Some(1), "the new type was no vote");
        assert_eq!(votes.last().get(1), Some(0), "but it is the last word");
        votes.observe(&Row { args: [3, 2, 1], ..event(Kind::ExtFrag, 9, 0) });
        assert_eq!((votes.first().get(2), votes.first().get(3)), (Some(2), Some(2)), "a large block spans pageblocks");
        let other_cpu = Row { cpu: 1, ..claim };
        votes.observe(&event(Kind::ZoneLocked, 17, 0));
        votes.observe(&Row { pfn: 17, ..other_cpu });
        assert_eq!(votes.first().get(4), Some(0), "another CPU's claim does not withdraw a vote");
    }

    #[test]
    fn guessed_types_match_the_counts() {
        // Five pageblocks of four frames: slab, page tables, user memory, free, and one with a vote.
        let words = [flag::SLAB, flag::PGTABLE, flag::LRU, flag::BUDDY, flag::LRU].map(|word| [word; 4]).concat();
        let mut votes = Votes::new(ORDER);
        votes.observe(&event(Kind::PcpuDrain, 16, 1));
        let counts = [count(0, 1), count(1, 3), count(2, 1)];
        let settled = Pageblocks::settle(ORDER, votes.first(), &[zone(0, 20)], &counts, &words);
        let types: Vec<i8> = (0..5).map(|block| settled.type_of(block << ORDER)).collect();
        assert_eq!(types, [2, 0, 1, 1, 1]);
        assert_eq!((settled.named, settled.guessed, settled.off), (1, 4, 0));
        let rows = settled.rows();
        let runs: Vec<_> = rows.iter().map(|row| (row.pfn, row.migratetype, row.args[0], row.args[1])).collect();
        assert_eq!(runs, [(0, 2, GUESSED, 1), (4, 0, GUESSED, 1), (8, 1, GUESSED, 2), (16, 1, NAMED, 1)]);
    }

    #[test]
    fn mismatch_with_the_counts_is_counted() {
        let words = [flag::LRU; 8];
        let mut votes = Votes::new(ORDER);
        votes.observe(&event(Kind::PcpuDrain, 0, 0));
        let settled = Pageblocks::settle(ORDER, votes.first(), &[zone(0, 8)], &[count(1, 2)], &words);
        assert_eq!(settled.off, 2, "one Unmovable too many, one Movable too few");
    }

    #[test]
    fn holes_have_no_type() {
        let mut words = vec![flag::NOPAGE; 4];
        words.extend([flag::BUDDY; 4]);
        let settled = Pageblocks::settle(ORDER, Votes::new(ORDER).first(), &[zone(0, 100)], &[count(1, 1)], &words);
        assert_eq!((settled.type_of(0), settled.type_of(4), settled.type_of(1 << 40)), (-1, 1, -1));
        assert_eq!(settled.rows().len(), 1);
    }
}
