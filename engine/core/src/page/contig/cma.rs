//! CMA areas: memory that is reserved at boot for large ranges, and is lent to movable requests until it is needed.
//!
//! An area is a range of whole pageblocks of type Cma, with a bitmap of its allocated units. An allocation takes the
//! first gap in the bitmap, then empties that range. If a block in the range cannot be migrated, the search continues
//! after it. The lock of the bitmap is held only while the bitmap is accessed, never while pages are migrated.
//!
//! linux: mm/cma.c

use core::alloc::Layout;
use core::fmt;
use core::mem::MaybeUninit;
use core::ops::Range;

use super::alloc::RangeRequest;
use super::range::Purpose;
use super::scan::Scan;
use crate::base::carve::{Carver, Plan};
use crate::base::lock::{Locked, Rank, Ranked};
use crate::base::{Gfp, MigrateType, Order, Pfn, RawLock, State};
use crate::page::allocator::PageAllocator;
use crate::page::boot::OnlineError;
use crate::page::error::{ContigError, FreeError, RangeError};
use crate::page::zone::Zone;
use crate::platform::Platform;

/// Bitmap of an area, with one bit per unit of 2^`order_per_bit` frames. The bit is set while the unit is allocated.
#[derive(Debug)]
struct Bitmap<'m> {
    words: &'m mut [u64],
}

impl Ranked for Bitmap<'_> {
    const RANK: Rank = Rank::Cma;
}

/// Pageblocks that are reserved for ranges, and lent to movable requests meanwhile.
#[derive(Debug)]
pub struct CmaArea<'m, L> {
    /// Zones of the allocator that the area belongs to, whose address identifies the allocator.
    owner: &'m [Zone<L>],
    range: Range<Pfn>,
    order_per_bit: Order,
    bitmap: Locked<L, Bitmap<'m>>,
}

/// Reason why a CMA area was not set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmaError {
    /// The area's range is invalid for this reason, or [`RangeError::OutOfRange`] if a pageblock of it is isolated.
    Range(RangeError),
    /// A frame is not Reserved: it was released already, or belongs to another area.
    NotReserved {
        /// The first such frame.
        pfn: Pfn,
        /// State of that frame.
        state: State,
    },
    /// The memory for the bitmap is smaller than [`CmaArea::layout`] requires.
    Metadata,
}

impl fmt::Display for CmaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CmaError::Range(error) => error.fmt(f),
            CmaError::NotReserved { pfn, state } => {
                write!(f, "frame {pfn} is {state:?}; expected Reserved memory that is in no other area")
            }
            CmaError::Metadata => f.write_str("the bitmap's memory is smaller than CmaArea::layout() requires"),
        }
    }
}

impl core::error::Error for CmaError {}

impl From<RangeError> for CmaError {
    fn from(error: RangeError) -> CmaError {
        CmaError::Range(error)
    }
}

/// Bits that were taken for a request. If the claim is dropped early, because the range could not be allocated or the
/// platform panicked, the bits are cleared again.
struct Claim<'a, 'm, L: RawLock> {
    area: &'a CmaArea<'m, L>,
    bits: Range<u32>,
}

impl<L: RawLock> Claim<'_, '_, L> {
    /// Keeps the bits set until the owner of the range releases it.
    fn keep(mut self) {
        self.bits.end = self.bits.start;
    }
}

impl<L: RawLock> Drop for Claim<'_, '_, L> {
    fn drop(&mut self) {
        self.area.unclaim(self.bits.clone());
    }
}

impl<'m, L: RawLock> CmaArea<'m, L> {
    /// Returns the size of the bitmap of an area with this many pages.
    pub fn layout(pages: u32, order_per_bit: Order) -> Layout {
        let plan = Plan::EMPTY.array::<u64>(words(pages, order_per_bit));
        plan.expect("a bit per page fits the address space").layout()
    }

    /// Returns the area's frames, which are whole pageblocks.
    pub fn range(&self) -> Range<Pfn> {
        self.range.clone()
    }

    /// Returns the number of pages that the area has allocated, in whole units.
    pub fn allocated(&self) -> u32 {
        let bits: u32 = self.bitmap.lock().words.iter().map(|word| word.count_ones()).sum();
        bits * self.order_per_bit.pages()
    }

    fn bits(&self) -> u32 {
        (self.range.end.raw() - self.range.start.raw()) >> self.order_per_bit.get()
    }

    fn bit_of(&self, pfn: Pfn) -> u32 {
        (pfn.raw() - self.range.start.raw()) >> self.order_per_bit.get()
    }

    fn pfn_of(&self, bit: u32) -> Pfn {
        self.range.start.offset(bit << self.order_per_bit.get())
    }

    /// Returns the number of bits that represent this many pages, rounded up.
    fn bits_for(&self, pages: u32) -> u32 {
        pages.div_ceil(self.order_per_bit.pages())
    }

    /// Returns the first bit whose first frame is at or after a frame, and a multiple of `align` frames.
    fn aligned_bit(&self, from: Pfn, align: u32) -> Option<u32> {
        let start = self.range.start.raw();
        let unit = self.order_per_bit.pages().max(align);
        // Both are powers of two, and the area begins at a whole unit.
        Some(self.bit_of(Pfn::new(from.raw().max(start).checked_next_multiple_of(unit)?)))
    }

    /// Takes the first gap of `count` bits at or after a frame whose first frame is a multiple of `align` frames.
    fn claim(&self, from: Pfn, count: u32, align: u32) -> Option<Claim<'_, 'm, L>> {
        let mut bitmap = self.bitmap.lock();
        let mut bit = self.aligned_bit(from, align)?;
        while count <= self.bits().checked_sub(bit)? {
            match bitmap.last_set(bit..bit + count) {
                None => {
                    bitmap.fill(bit..bit + count);
                    return Some(Claim { area: self, bits: bit..bit + count });
                }
                Some(taken) => bit = self.aligned_bit(self.pfn_of(taken + 1), align)?,
            }
        }
        None
    }

    fn unclaim(&self, bits: Range<u32>) {
        self.bitmap.lock().clear(bits);
    }

    /// Marks one unit as not allocated, regardless of its pages.
    #[cfg(feature = "damage")]
    pub(in crate::page) fn plant_unclaimed(&self, bit: u32) {
        self.bitmap.lock().words[bit as usize / 64] &= !(1 << (bit % 64));
    }

    fn first_unclaimed(&self, mut bits: Range<u32>) -> Option<u32> {
        let bitmap = self.bitmap.lock();
        bits.find(|&bit| bitmap.last_set(bit..bit + 1).is_none())
    }
}

impl Bitmap<'_> {
    fn last_set(&self, bits: Range<u32>) -> Option<u32> {
        words_of(bits).rev().find_map(|(word, mask)| {
            let last = (self.words[word] & mask).checked_ilog2()?;
            Some(unit(word, last))
        })
    }

    fn fill(&mut self, bits: Range<u32>) {
        for (word, mask) in words_of(bits) {
            let taken = self.words[word] & mask;
            debug_assert!(taken == 0, "CMA area: unit {} is already allocated", unit(word, taken.trailing_zeros()));
            self.words[word] |= mask;
        }
    }

    fn clear(&mut self, bits: Range<u32>) {
        for (word, mask) in words_of(bits) {
            let lent = mask & !self.words[word];
            debug_assert!(
                lent == 0,
                "CMA area: unit {} is freed, but not allocated",
                unit(word, lent.trailing_zeros())
            );
            self.words[word] &= !mask;
        }
    }
}

/// Returns the number of the unit of a bit in a word of the bitmap.
fn unit(word: usize, bit: u32) -> u32 {
    word as u32 * 64 + bit
}

/// Returns the indices of the words that hold some bits, and the bits in each of them.
fn words_of(bits: Range<u32>) -> impl DoubleEndedIterator<Item = (usize, u64)> {
    (bits.start / 64..bits.end.div_ceil(64)).map(move |word| {
        let (first, end) = (bits.start.max(word * 64) % 64, bits.end.min(word * 64 + 64) - word * 64);
        (word as usize, u64::MAX << first & u64::MAX >> (64 - end))
    })
}

impl<'m, P: Platform> PageAllocator<'m, P> {
    /// Sets up an area from whole pageblocks of one zone that are online and still Reserved. The pageblocks are
    /// released with the type Cma, and are lent to movable requests from now on. `order_per_bit` is the order of the
    /// units that the area allocates, and `memory` holds the bitmap. Cost: two steps per frame, one of them under one
    /// hold of the hotplug lock.
    ///
    /// # Errors
    /// See [`CmaError`]. Nothing is changed then.
    pub fn reserve_cma(
        &self,
        range: Range<Pfn>,
        order_per_bit: Order,
        memory: &'m mut [MaybeUninit<u8>],
    ) -> Result<CmaArea<'m, P::Lock>, CmaError> {
        self.zone_of_range(&range)?;
        let unit = self.map.pageblock_order().max(order_per_bit);
        if let Some(pfn) = [range.start, range.end].into_iter().find(|pfn| !pfn.is_aligned(unit)) {
            return Err(RangeError::Misaligned { pfn, pages: unit.pages() }.into());
        }
        let words_needed = words(range.end.raw() - range.start.raw(), order_per_bit);
        let taken = range
            .start
            .up_to(range.end)
            .map(|pfn| (pfn, self.map.frame(pfn).word()))
            .find(|(_, word)| !word.is_reserved());
        if let Some((pfn, word)) = taken {
            return Err(CmaError::NotReserved { pfn, state: word.state() });
        }
        let words = Carver::new(memory).array(words_needed, |_| 0).ok_or(CmaError::Metadata)?;
        self.claim_reserved_as(&range, MigrateType::Cma).map_err(|error| match error {
            OnlineError::NotReserved { pfn } => {
                CmaError::NotReserved { pfn, state: self.state(pfn).unwrap_or(State::Absent) }
            }
            _ => CmaError::Range(RangeError::OutOfRange { pfn: range.start }),
        })?;
        self.release_claimed(range.clone());
        Ok(CmaArea { owner: self.zones, range, order_per_bit, bitmap: Locked::new(Bitmap { words }) })
    }

    /// Allocates contiguous pages of an area, each with one reference, from a frame that is a multiple of `align`
    /// frames. An area allocates whole units: if `pages` is not a multiple of the unit, the rest of the last unit is
    /// allocated as well. If a block in the first gap cannot be migrated, the next gap is tried. [`Gfp::COMP`] has the
    /// same effect as in [`alloc_contig_range`](Self::alloc_contig_range). The cost is that of
    /// [`alloc_contig_pages`](Self::alloc_contig_pages) for the area's frames up to the end of the gap that is found.
    ///
    /// # Errors
    /// [`ContigError::NoRange`] if no gap is large enough or can be emptied; [`ContigError::Flags`];
    /// [`ContigError::Range`] for zero pages, an invalid size or alignment, or an area of another allocator.
    pub fn cma_alloc(&self, area: &CmaArea<'m, P::Lock>, pages: u32, align: u32, gfp: Gfp) -> Result<Pfn, ContigError> {
        let start = area.range.start;
        self.resolve_gfp(gfp).ok_or(ContigError::Flags)?;
        if pages == 0 {
            return Err(RangeError::Empty { start }.into());
        }
        if !align.is_power_of_two() {
            return Err(RangeError::PowerOfTwo { pages: align }.into());
        }
        self.expect_own(area)?;
        let count = area.bits_for(pages);
        if count > area.bits() {
            return Err(ContigError::NoRange);
        }
        let whole = count << area.order_per_bit.get();
        if gfp.contains(Gfp::COMP) && !whole.is_power_of_two() {
            return Err(RangeError::PowerOfTwo { pages: whole }.into());
        }
        let align = if gfp.contains(Gfp::COMP) { align.max(whole) } else { align };
        let zone = self.zone_of_range(&area.range)?;
        let mut scan = Scan::new(self, zone, start, RangeRequest { gfp, refs: 1, purpose: Purpose::Cma });
        let mut from = start;
        loop {
            let claim = area.claim(from, count, align).ok_or(ContigError::NoRange)?;
            let range = area.pfn_of(claim.bits.start)..area.pfn_of(claim.bits.end);
            match scan.alloc(&range) {
                Ok(()) => {
                    claim.keep();
                    return Ok(range.start);
                }
                Err(past) => from = past,
            }
        }
    }

    /// Drops the caller's reference to every page of a range that [`cma_alloc`](Self::cma_alloc) allocated, and returns
    /// the range to the area. The range may be a part of the allocated range that starts at a border of units. If
    /// `pages` is not a multiple of the unit, the rest of the last unit is freed as well, as it was allocated.
    ///
    /// # Errors
    /// See [`FreeError`]. The area keeps the range allocated then.
    pub fn cma_release(&self, area: &CmaArea<'m, P::Lock>, pfn: Pfn, pages: u32) -> Result<(), FreeError> {
        self.expect_own(area).map_err(|_| RangeError::OutOfRange { pfn })?;
        let Range { start, end } = area.range;
        if pages == 0 {
            return Err(RangeError::Empty { start: pfn }.into());
        }
        if pfn < start || u64::from(pfn.raw()) + u64::from(pages) > u64::from(end.raw()) {
            return Err(RangeError::OutOfRange { pfn }.into());
        }
        if !pfn.is_aligned(area.order_per_bit) {
            return Err(RangeError::Misaligned { pfn, pages: area.order_per_bit.pages() }.into());
        }
        let bits = area.bit_of(pfn)..area.bit_of(pfn) + area.bits_for(pages);
        if let Some(lent) = area.first_unclaimed(bits.clone()) {
            let lent_pfn = area.pfn_of(lent);
            let state = self.map.frame(lent_pfn).word().state();
            return Err(FreeError::NotHandedOut { pfn: lent_pfn, state });
        }
        self.free_contig_range(pfn..area.pfn_of(bits.end))?;
        area.unclaim(bits);
        Ok(())
    }

    /// Refuses an area of another allocator.
    fn expect_own(&self, area: &CmaArea<'m, P::Lock>) -> Result<(), RangeError> {
        let is_own = core::ptr::eq(area.owner, self.zones);
        if is_own { Ok(()) } else { Err(RangeError::OutOfRange { pfn: area.range.start }) }
    }
}

fn words(pages: u32, order_per_bit: Order) -> usize {
    (pages >> order_per_bit.get()).div_ceil(64) as usize
}
