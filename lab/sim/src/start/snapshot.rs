//! The start in a snapshot, or the start state of a recording: a real machine's pageblocks.
//!
//! Zones and nodes are joined without the holes between them. Frames that the allocator never had (reserved, offline,
//! or absent) make no pageblock, unless they share one with other pages. Page flags are incomplete, so some uses are
//! assumed:
//!
//! - Pages without flags are free pages on per-CPU lists, or kernel pages. The kernel reports the number of pages on
//!   lists. They are assumed to be in pageblocks without known fixed pages, since the kernel groups its pages. If the
//!   numbers differ, the choice is random, run by run.
//! - A slab in a Reclaimable pageblock is assumed to be full of reclaimable objects; a slab elsewhere is fixed.
//! - Pages of tasks and files are movable. Pinned pages are not, but the flags do not show that.

use std::path::{Path, PathBuf};

use freehold::base::MigrateType;
use freehold_trace::event::{Kind, Row, Section, class};
use freehold_trace::facts::{Facts, ZoneFacts};
use freehold_trace::recording::{OpenError, Recording};

use super::{PAGEBLOCK_ORDER, PAGEBLOCK_PAGES, Run, Start, Use};

/// Page size that is simulated.
const PAGE_SIZE: u32 = 4096;
/// Value of `args[1]` of unknown pages for memory that the allocator does not have yet.
const NOT_YET_MEMORY: i64 = 2;

/// Reason why a file has no start that can be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A row cannot be read.
    #[error(transparent)]
    Row(#[from] freehold_trace::Error),
    /// The machine's pages or pageblocks have another size.
    #[error(
        "{path} is from a machine with pages of {page_size} bytes in pageblocks of order {pageblock_order}, but \
         simulated machines have pages of 4096 bytes in pageblocks of order 9; take a snapshot of such a machine",
        path = path.display()
    )]
    Pages {
        /// Path of the file.
        path: PathBuf,
        /// Size of the machine's pages, in bytes.
        page_size: u32,
        /// Order of the machine's pageblocks.
        pageblock_order: u8,
    },
    /// The file has no pageblock.
    #[error("{path} has no pageblock of any zone; take a snapshot with `freehold snapshot`", path = path.display())]
    Empty {
        /// Path of the file.
        path: PathBuf,
    },
}

/// Reads the start in a snapshot or a recording. Takes one byte per frame meanwhile.
///
/// # Errors
/// See [`SnapshotError`].
pub fn read(path: &Path) -> Result<Start, SnapshotError> {
    let recording = Recording::open_any(path)?;
    let facts = recording.reader.facts();
    let Facts { page_size, pageblock_order, .. } = *facts;
    if (page_size, pageblock_order) != (PAGE_SIZE, PAGEBLOCK_ORDER) {
        return Err(SnapshotError::Pages { path: path.to_path_buf(), page_size, pageblock_order });
    }
    let mut frames = Frames::new(facts);
    for row in recording.reader.rows() {
        let row = row?;
        if row.kind.section() != Section::Start {
            break;
        }
        frames.observe(&row);
    }
    let start = frames.into_start(facts);
    if start.is_empty() { Err(SnapshotError::Empty { path: path.to_path_buf() }) } else { Ok(start) }
}

/// State of a frame, packed: 0 if the allocator never had it; otherwise its use, and the order of its block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Frame(u8);

impl Frame {
    const ABSENT: Frame = Frame(0);
    /// A frame without flags.
    const UNKNOWN: Frame = Frame(7);
    /// A frame of a slab. The type of its pageblock, which may be recorded later, decides whether it is reclaimable.
    const SLAB: Frame = Frame(8);
    const USES: [Use; 6] = [Use::Free, Use::Fixed, Use::Reclaimable, Use::Inactive, Use::Active, Use::Task];

    fn new(what: Use, order: u8) -> Frame {
        Frame((what as u8 + 1) | (order << 4))
    }

    /// Returns the state of a block of this class and order; `None` if the allocator never had it.
    fn from_class(class: i64, order: u8) -> Option<Frame> {
        let what = match class {
            _ if has_bits(class, class::RESERVED | class::OFFLINE) => return None,
            _ if has_bits(class, class::HWPOISON | class::HUGETLB) => Use::Fixed,
            _ if has_bits(class, class::LRU) && has_bits(class, class::ANON | class::UNEVICTABLE) => Use::Task,
            _ if has_bits(class, class::LRU) && has_bits(class, class::ACTIVE) => Use::Active,
            _ if has_bits(class, class::LRU) => Use::Inactive,
            _ if has_bits(class, class::SLAB) => return Some(Frame(Frame::SLAB.0 | order << 4)),
            _ => Use::Fixed,
        };
        Some(Frame::new(what, order))
    }

    /// Returns whether compaction could not empty a pageblock of this type with such a frame.
    fn is_fixed(self, migratetype: MigrateType) -> bool {
        matches!(self.what(migratetype), Some((Use::Fixed | Use::Reclaimable, _)))
    }

    /// Returns the use of the frame in a pageblock of this type, and the order of its block; `None` if the use is
    /// unknown.
    fn what(self, migratetype: MigrateType) -> Option<(Use, u8)> {
        let order = self.0 >> 4;
        if self.0 & 0xf == Frame::SLAB.0 {
            let is_given_up = migratetype == MigrateType::Reclaimable;
            return Some((if is_given_up { Use::Reclaimable } else { Use::Fixed }, order));
        }
        let what = Frame::USES.get(usize::from(self.0 & 0xf).checked_sub(1)?)?;
        Some((*what, order))
    }
}

/// Returns whether the allocator has frames of a zone.
fn is_allocators(zone: &ZoneFacts) -> bool {
    zone.spanned > 0 && zone.managed > 0 && zone.name != "Device"
}

/// Returns whether a class has one of these bits.
fn has_bits(class: i64, bits: i64) -> bool {
    class & bits != 0
}

/// All frames of the machine, and the types of its pageblocks.
struct Frames {
    frames: Vec<Frame>,
    types: Vec<MigrateType>,
    unknown: u64,
}

impl Frames {
    fn new(facts: &Facts) -> Frames {
        let end = facts.zones_start.iter().map(|zone| zone.start_pfn + zone.spanned).max().unwrap_or(0) as usize;
        let frames = end.next_multiple_of(PAGEBLOCK_PAGES as usize);
        let types = vec![MigrateType::Movable; frames >> PAGEBLOCK_ORDER];
        Frames { frames: vec![Frame::ABSENT; frames], types, unknown: 0 }
    }

    fn observe(&mut self, row: &Row) {
        let (first, [count, detail, _]) = (row.pfn as usize, row.args);
        match row.kind {
            Kind::StartPageblock => self.set_types(first, detail, row.migratetype),
            Kind::StartFree => self.fill(first, 1 << row.order, Frame::new(Use::Free, 0)),
            Kind::StartUnknown if detail == NOT_YET_MEMORY => {}
            Kind::StartUnknown => {
                self.unknown += count.max(0).cast_unsigned();
                self.fill(first, count.max(0) as usize, Frame::UNKNOWN);
            }
            Kind::StartAllocated => self.allocate(row),
            _ => {}
        }
    }

    fn fill(&mut self, first: usize, pages: usize, frame: Frame) {
        let end = first.saturating_add(pages).min(self.frames.len());
        self.frames[first.min(end)..end].fill(frame);
    }

    fn set_types(&mut self, first: usize, pageblocks: i64, migratetype: i8) {
        let begin = (first >> PAGEBLOCK_ORDER).min(self.types.len());
        let end = begin.saturating_add(pageblocks.max(0) as usize).min(self.types.len());
        let recorded = usize::try_from(migratetype).ok().and_then(|number| MigrateType::ALL.get(number));
        let simulated = match recorded {
            None | Some(MigrateType::Isolate | MigrateType::Cma) => MigrateType::Movable,
            Some(migratetype) => *migratetype,
        };
        self.types[begin..end].fill(simulated);
    }

    /// Records allocated blocks. Blocks larger than a pageblock are recorded as several blocks of pageblock order.
    fn allocate(&mut self, row: &Row) {
        let pages = (row.args[0].max(0) as usize).saturating_mul(1 << row.order.min(32));
        if let Some(frame) = Frame::from_class(row.args[1], row.order.min(PAGEBLOCK_ORDER)) {
            self.fill(row.pfn as usize, pages, frame);
        }
    }

    fn into_start(self, facts: &Facts) -> Start {
        let listed: u64 = facts.zones_start.iter().flat_map(|zone| &zone.pcp).map(|list| u64::from(list.count)).sum();
        let numbers = self.pageblocks(facts);
        let pageblocks: Vec<(usize, u64)> =
            numbers.into_iter().map(|number| (number, self.unknown_if_clean(number))).collect();
        let in_clean: u64 = pageblocks.iter().map(|(_, unknown)| unknown).sum();
        let mut cut = Cut {
            rng: fastrand::Rng::with_seed(1),
            clean: (listed.min(in_clean), in_clean),
            others: (listed.saturating_sub(in_clean), self.unknown.saturating_sub(in_clean)),
        };
        let mut start = Start::default();
        for (number, unknown_if_clean) in pageblocks {
            let chance = if unknown_if_clean > 0 { cut.clean } else { cut.others };
            start.push(self.types[number], cut.runs(self.frames_of(number), self.types[number], chance));
        }
        start
    }

    /// Returns the numbers of the pageblocks of which the allocator has any frame, zone by zone.
    fn pageblocks(&self, facts: &Facts) -> Vec<usize> {
        let (mut numbers, mut next) = (Vec::new(), 0);
        for zone in facts.zones_start.iter().filter(|zone| is_allocators(zone)) {
            let first = (zone.start_pfn as usize >> PAGEBLOCK_ORDER).max(next);
            next = ((zone.start_pfn + zone.spanned) as usize).div_ceil(PAGEBLOCK_PAGES as usize);
            numbers.extend((first..next).filter(|&number| self.is_present(number)));
        }
        numbers
    }

    /// Returns whether the allocator has any frame of a pageblock.
    fn is_present(&self, number: usize) -> bool {
        self.frames_of(number).iter().any(|frame| *frame != Frame::ABSENT)
    }

    fn frames_of(&self, number: usize) -> &[Frame] {
        &self.frames[number << PAGEBLOCK_ORDER..][..PAGEBLOCK_PAGES as usize]
    }

    /// Returns the number of pages without flags in a pageblock; 0 if it has known fixed or absent frames.
    fn unknown_if_clean(&self, number: usize) -> u64 {
        let (frames, migratetype) = (self.frames_of(number), self.types[number]);
        match frames.iter().any(|frame| frame.is_fixed(migratetype) || *frame == Frame::ABSENT) {
            true => 0,
            false => frames.iter().filter(|frame| **frame == Frame::UNKNOWN).count() as u64,
        }
    }
}

/// Numerator and denominator of a probability.
type Chance = (u64, u64);

/// State while frames are cut into runs.
struct Cut {
    rng: fastrand::Rng,
    /// Probability that a page without flags is on a per-CPU list, in pageblocks without known fixed pages.
    clean: Chance,
    /// The probability in other pageblocks.
    others: Chance,
}

impl Cut {
    /// Returns the runs of a pageblock; `listed` is the probability that a run without flags is on a per-CPU list.
    fn runs(&mut self, frames: &[Frame], migratetype: MigrateType, listed: Chance) -> Vec<Run> {
        let known: Vec<(Use, u8)> = frames
            .chunk_by(|one, next| one == next)
            .flat_map(|alike| std::iter::repeat_n(self.decide(alike[0], migratetype, listed), alike.len()))
            .collect();
        let mut runs = Vec::new();
        let mut rest = known.as_slice();
        while let Some(&(what, order)) = rest.first() {
            let alike = rest.iter().take_while(|other| **other == (what, order)).count();
            let at = known.len() - rest.len();
            // Blocks begin at multiples of their size; the pages of other blocks become single pages.
            let cut_order = if at.is_multiple_of(1 << order) && alike >= 1 << order { order } else { 0 };
            let blocks = alike >> cut_order;
            runs.push(Run { what, order: cut_order, blocks: blocks as u16 });
            rest = &rest[blocks << cut_order..];
        }
        runs
    }

    /// Decides the use of a run of frames. A frame that the allocator never had, in a pageblock with others, is fixed.
    fn decide(&mut self, frame: Frame, migratetype: MigrateType, (listed, total): Chance) -> (Use, u8) {
        match frame.what(migratetype) {
            Some(known) => known,
            None if frame == Frame::UNKNOWN && self.rng.u64(0..total.max(1)) < listed => (Use::Free, 0),
            None => (Use::Fixed, 0),
        }
    }
}
