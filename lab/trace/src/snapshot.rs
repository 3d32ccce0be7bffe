//! Conversion of the page flags of every frame to the state rows of a recording.
//!
//! `/proc/kpageflags` has a word of flags for each frame, but does not show the sizes of free blocks. The buddy system
//! merges free blocks as far as possible, so a run of free frames consists of the largest aligned blocks that fit. In
//! an idle zone, this division gives exactly the counts of `/proc/buddyinfo`. The head and tail flags of compound pages
//! give the sizes of allocated blocks. Frames whose word is empty stay *unknown*: they are on a per-CPU list, or
//! allocated for a use without a flag.
//!
//! Two cases are wrong. Neighbouring blocks that the kernel does not merge, because their pageblocks are reserved or
//! isolated, are taken for one block. A block that changes while its flags are read may be seen in part; a recorder
//! corrects this case from the events. linux: fs/proc/page.c:stable_page_flags

use crate::event::{Kind, Row, class};
use crate::facts::ZoneFacts;

/// Flags of a frame: the relevant ones of `/proc/kpageflags`, in half the size, since there is a word for each frame of
/// a machine. linux: include/uapi/linux/kernel-page-flags.h
pub mod flag {
    /// The page was referenced since reclaim last scanned it.
    pub const REFERENCED: u32 = 1 << 2;
    /// The page was modified since it was last written.
    pub const DIRTY: u32 = 1 << 4;
    /// The page is on an LRU list.
    pub const LRU: u32 = 1 << 5;
    /// The page is on an active LRU list.
    pub const ACTIVE: u32 = 1 << 6;
    /// The page is part of a slab.
    pub const SLAB: u32 = 1 << 7;
    /// The page is being written.
    pub const WRITEBACK: u32 = 1 << 8;
    /// The page is part of a free block.
    pub const BUDDY: u32 = 1 << 10;
    /// The page is mapped into an address space.
    pub const MMAP: u32 = 1 << 11;
    /// The page is anonymous memory of a task.
    pub const ANON: u32 = 1 << 12;
    /// First page of a compound page.
    pub const COMPOUND_HEAD: u32 = 1 << 15;
    /// Any other page of a compound page.
    pub const COMPOUND_TAIL: u32 = 1 << 16;
    /// The page belongs to hugetlbfs.
    pub const HUGE: u32 = 1 << 17;
    /// The page is unevictable.
    pub const UNEVICTABLE: u32 = 1 << 18;
    /// The page was poisoned by a memory error.
    pub const HWPOISON: u32 = 1 << 19;
    /// No frame has this number.
    pub const NOPAGE: u32 = 1 << 20;
    /// The page is part of a transparent huge page.
    pub const THP: u32 = 1 << 22;
    /// The page is logically offline, for instance in a balloon.
    pub const OFFLINE: u32 = 1 << 23;
    /// The page is a page table.
    pub const PGTABLE: u32 = 1 << 26;
    /// The page was never managed by the allocator.
    pub const RESERVED: u32 = 1 << 27;
    /// The page is locked into memory.
    pub const MLOCKED: u32 = 1 << 28;
    /// Some other flag for developers, which distinguishes the page from one without flags.
    pub const OTHER: u32 = 1 << 29;
    /// The page is mapped more than once. The kernel has no such flag: a scan reads it from `/proc/kpagecount`.
    pub const SHARED: u32 = 1 << 30;

    /// Bit of the kernel's word in which a scan stores [`SHARED`]. The kernel uses no bit this high.
    pub const SHARED_IN_KERNEL_WORD: u64 = 1 << 63;

    /// First bit of the flags for developers in the kernel's word. The flags below it keep their positions.
    const DEVELOPERS: u32 = 32;
    const PUBLIC: u64 = (1 << 27) - 1;

    /// Returns the flags of a word of `/proc/kpageflags`.
    #[inline]
    pub fn from_kernel(word: u64) -> u32 {
        let developers = word >> DEVELOPERS;
        let is_other = developers & !0b11 & !(SHARED_IN_KERNEL_WORD >> DEVELOPERS) != 0;
        (word & PUBLIC) as u32
            | if developers & 1 != 0 { RESERVED } else { 0 }
            | if developers & 2 != 0 { MLOCKED } else { 0 }
            | if is_other { OTHER } else { 0 }
            | if word & SHARED_IN_KERNEL_WORD != 0 { SHARED } else { 0 }
    }
}

/// State that the rows describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The state before the first event.
    Start,
    /// The state after the last event.
    End,
}

/// Word of a page that an event allocated. It is a kernel flag (`KPF_UPTODATE`) that is unrelated to the page's use,
/// but distinguishes the page from one without flags.
pub const ALLOCATED: u32 = 1 << 3;

/// Flags of consecutive frames.
#[derive(Clone, Copy, Debug)]
pub struct Frames<'a> {
    /// Number of the first frame.
    pub first: u64,
    /// One word per frame; [`flag::NOPAGE`] if there is no such frame.
    pub words: &'a [u32],
    /// Frames at which blocks end, in ascending order; see [`zone_borders`].
    pub borders: &'a [u64],
    /// Highest order of a free block: 10 on most kernels.
    pub order_max: u8,
}

/// Returns the frames at which zones start and end, in ascending order.
pub fn zone_borders(zones: &[ZoneFacts]) -> Vec<u64> {
    let mut borders: Vec<u64> =
        zones.iter().flat_map(|zone| [zone.start_pfn, zone.start_pfn.saturating_add(zone.spanned)]).collect();
    borders.sort_unstable();
    borders.dedup();
    borders
}

/// Flags about the age of a page, and their classes. They apply only to pages on an LRU list.
const AGES: [(u32, i64); 6] = [
    (flag::ACTIVE, class::ACTIVE),
    (flag::REFERENCED, class::REFERENCED),
    (flag::DIRTY, class::DIRTY),
    (flag::WRITEBACK, class::WRITEBACK),
    (flag::MMAP, class::MAPPED),
    (flag::SHARED, class::SHARED),
];

/// Flags about the use of a page, and their classes.
const CLASSES: [(u32, i64); 10] = [
    (flag::ANON, class::ANON),
    (flag::LRU, class::LRU),
    (flag::SLAB, class::SLAB),
    (flag::PGTABLE, class::PAGE_TABLE),
    (flag::RESERVED, class::RESERVED),
    (flag::HUGE, class::HUGETLB),
    (flag::HWPOISON, class::HWPOISON),
    (flag::THP, class::THP),
    (flag::UNEVICTABLE, class::UNEVICTABLE),
    (flag::MLOCKED, class::UNEVICTABLE),
];

/// Returns the class of an allocated block, from the flags of its first frame.
pub fn class_of(word: u32) -> i64 {
    // An offline page is not allocated, whatever its other flags are.
    if word & flag::OFFLINE != 0 {
        return class::OFFLINE;
    }
    let ages = if word & flag::LRU != 0 { &AGES[..] } else { &[] };
    let named = CLASSES.iter().chain(ages).filter(|(flag, _)| word & flag != 0).fold(0, |sum, (_, class)| sum | class);
    let is_file = word & (flag::LRU | flag::MMAP) != 0 && word & flag::ANON == 0;
    if is_file { named | class::FILE } else { named }
}

/// Returns flags of a first frame for which [`class_of`] returns this class, as far as flags can express it. The result
/// is never zero.
pub fn flags_of(class: i64) -> u32 {
    if class & class::OFFLINE != 0 {
        return flag::OFFLINE;
    }
    let is_on_list = class & class::LRU != 0;
    let ages = if is_on_list { &AGES[..] } else { &[] };
    let named = CLASSES.iter().chain(ages).filter(|(_, bit)| class & bit != 0).fold(0, |sum, (flag, _)| sum | flag);
    let mapped = if class & class::FILE != 0 && !is_on_list { flag::MMAP } else { 0 };
    named | mapped | ALLOCATED
}

/// Returns the state rows of `frames` in order of frame, with the time `time`: free blocks (without a migratetype),
/// runs of allocated blocks of one order and class, and runs of unknown frames. Cost: a few nanoseconds a frame.
pub fn state_rows(frames: Frames<'_>, moment: Moment, time: u64) -> impl Iterator<Item = Row> + '_ {
    let mut blocks = Blocks { frames, next: 0 }.peekable();
    std::iter::from_fn(move || {
        let first = blocks.next()?;
        let mut count = 1;
        // Each free block has its own row. Other adjoining blocks that are alike form one run.
        while first.state != State::Free && blocks.next_if(|next| first.is_continued_by(next, count)).is_some() {
            count += 1;
        }
        Some(first.row(moment, time, count))
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Allocated(i64),
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    pfn: u64,
    order: u8,
    state: State,
}

impl Block {
    fn is_continued_by(&self, next: &Block, count: u64) -> bool {
        (next.order, next.state) == (self.order, self.state) && next.pfn == self.pfn + (count << self.order)
    }

    fn row(&self, moment: Moment, time: u64, count: u64) -> Row {
        let (kind, args) = match (self.state, moment) {
            (State::Free, Moment::Start) => (Kind::StartFree, [0; 3]),
            (State::Free, Moment::End) => (Kind::EndFree, [0; 3]),
            (State::Allocated(class), Moment::Start) => (Kind::StartAllocated, [count as i64, class, 0]),
            (State::Allocated(class), Moment::End) => (Kind::EndAllocated, [count as i64, class, 0]),
            (State::Unknown, Moment::Start) => (Kind::StartUnknown, [count as i64, 0, 0]),
            (State::Unknown, Moment::End) => (Kind::EndUnknown, [count as i64, 0, 0]),
        };
        Row { time, pfn: self.pfn, order: self.order, args, ..Row::new(kind) }
    }
}

/// Iterator over the blocks of the frames.
struct Blocks<'a> {
    frames: Frames<'a>,
    next: usize,
}

impl Blocks<'_> {
    /// Returns the number of frames from the next one on that satisfy `is_part`, up to the next border.
    fn run(&self, limit: usize, is_part: impl Fn(u32) -> bool) -> usize {
        let words = &self.frames.words[self.next + 1..];
        let pfn = self.frames.first + self.next as u64;
        let border = self.frames.borders.partition_point(|&border| border <= pfn);
        let to_border = self.frames.borders.get(border).map_or(u64::MAX, |border| border - pfn);
        let limit = limit.min(usize::try_from(to_border).unwrap_or(usize::MAX));
        1 + words.iter().take(limit.saturating_sub(1)).take_while(|&&word| is_part(word)).count()
    }

    fn block(&self, pfn: u64, word: u32) -> Block {
        if word & flag::BUDDY != 0 {
            let aligned = pfn.trailing_zeros().min(self.frames.order_max.into()).min(62);
            let order = self.run(1 << aligned, |word| word & flag::BUDDY != 0).ilog2() as u8;
            return Block { pfn, order, state: State::Free };
        }
        if word & flag::COMPOUND_HEAD != 0 {
            let order = self.run(usize::MAX, |word| word & flag::COMPOUND_TAIL != 0).ilog2() as u8;
            return Block { pfn, order, state: State::Allocated(class_of(word)) };
        }
        // A tail without a head was read while its block changed.
        let is_unknown = word == 0 || word & flag::COMPOUND_TAIL != 0;
        let state = if is_unknown { State::Unknown } else { State::Allocated(class_of(word)) };
        Block { pfn, order: 0, state }
    }
}

impl Iterator for Blocks<'_> {
    type Item = Block;

    fn next(&mut self) -> Option<Block> {
        let rest = self.frames.words.get(self.next..)?;
        self.next += rest.iter().position(|word| word & flag::NOPAGE == 0)?;
        let block = self.block(self.frames.first + self.next as u64, self.frames.words[self.next]);
        self.next += 1 << block.order;
        Some(block)
    }
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
