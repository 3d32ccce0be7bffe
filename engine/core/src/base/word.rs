//! The state of a frame, packed into one word.
//!
//! Every frame is in exactly one state. The head of a block has the block's state, and all its other frames are
//! [`State::Interior`]. A split writes the head of the upper half, and a merge makes it an interior frame again. So a
//! transition costs one store for a block of any size.
//!
//! ```text
//!              allocated                          on a list                    claimed by a call
//! bits 31..16  reference count, from bit 15 on;   CPU of the list              CPU of a drain that merges
//!              0: frozen
//!      14      this frame is broken                                            this frame is broken
//!      13      a frame of the block is broken                                  a frame of the block is broken
//!      12..8   pinned (12), of a range (11),      migratetype of the list, or  drain that merges (12)
//!              slab's (10), compound (9), movable index of the CPU's
//!       7..4   order
//!       3..0   state
//! ```
//!
//! A word has 32 bits, and 16 words fill a cache line, separate from the links. A free reads its own frame's word and
//! those of the buddies. All words together take 1 MiB per GiB of memory.
//!
//! The state decides which code may write the word. A `ZoneFree` head may be written by the holder of its zone's lock,
//! a `PcpCached` head by the holder of that CPU's list lock, a `RemotePending` head by the CPU that takes its stack, a
//! `Claimed` head by the call that claimed it, and `Absent` and `Reserved` frames by the call that brings memory
//! online. An `Allocated` head leaves that state only by an atomic compare-and-swap ([`Frame`](super::Frame)), so only
//! one of two concurrent frees succeeds, unless the block is allocated again in between. Pages of a range are freed together, by stores under the zone lock.
//!
//! Any code may read a word. A stale value is harmless, because a reader acts only on a state that its own lock
//! protects. The word of Absent is zero, so fresh metadata need not be written.

use core::fmt;

use super::{CpuId, MigrateType, Order};

const STATE: u32 = 0xf;
const ORDER_SHIFT: u32 = 4;
const ORDER: u32 = 0xf << ORDER_SHIFT;
const LIST_SHIFT: u32 = 8;
const LIST: u32 = 0x1f << LIST_SHIFT;
const MOVABLE: u32 = 1 << 8;
const COMPOUND: u32 = 1 << 9;
const SLAB: u32 = 1 << 10;
const RANGED: u32 = 1 << 11;
const POISONED: u32 = 1 << 13;
const BROKEN: u32 = 1 << 14;
const PINNED: u32 = 1 << 12;
const LEAVING: u32 = 1 << 12;
const REF_SHIFT: u32 = 15;
const REFS: u32 = REFS_MAX << REF_SHIFT;
const CPU_SHIFT: u32 = 16;
const CPU: u32 = 0xffff << CPU_SHIFT;

const ABSENT: u32 = 0;
const ZONE_FREE: u32 = 1;
const PCP_CACHED: u32 = 2;
const ALLOCATED: u32 = 3;
const INTERIOR: u32 = 4;
const WITHHELD: u32 = 5;
const REMOTE_PENDING: u32 = 6;
const RESERVED: u32 = 7;
const CLAIMED: u32 = 8;

/// For each state, a bit set of the states that the owner of the word may store next. Allocated has none, because an
/// allocated block leaves its state by a compare-and-swap.
const NEXT: [u16; 9] = {
    let mut next = [0; 9];
    next[ABSENT as usize] = 1 << RESERVED;
    next[RESERVED as usize] = 1 << INTERIOR | 1 << ABSENT;
    next[ZONE_FREE as usize] = 1 << ZONE_FREE | 1 << INTERIOR | 1 << CLAIMED;
    next[PCP_CACHED as usize] = 1 << ZONE_FREE | 1 << INTERIOR | 1 << CLAIMED | 1 << ALLOCATED;
    next[REMOTE_PENDING as usize] = 1 << INTERIOR;
    next[WITHHELD as usize] = 1 << ABSENT;
    let used = 1 << ZONE_FREE | 1 << PCP_CACHED | 1 << ALLOCATED | 1 << INTERIOR | 1 << WITHHELD | 1 << CLAIMED;
    next[INTERIOR as usize] = used | 1 << ABSENT | 1 << RESERVED;
    next[CLAIMED as usize] = used | 1 << REMOTE_PENDING;
    next
};

/// Largest reference count of a word: 131,071.
pub(crate) const REFS_MAX: u32 = (1 << 17) - 1;

/// State of a frame, as unpacked from its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Never online, or offline again: a hole.
    Absent,
    /// Online, but not released to the allocator: firmware, the metadata itself.
    Reserved,
    /// Head of a block on a zone's free list.
    ZoneFree {
        /// Order of the block.
        order: Order,
        /// Migratetype of the free list.
        migratetype: MigrateType,
    },
    /// Head of a block on a per-CPU list.
    PcpCached {
        /// Order of the block.
        order: Order,
        /// Index among the CPU's lists, by order and type.
        list: u8,
        /// CPU of the list.
        cpu: CpuId,
    },
    /// Head of a freed block on the stack of the CPU that owns its pageblock; that CPU has not taken it yet.
    RemotePending {
        /// Order of the block.
        order: Order,
    },
    /// Head of an allocated block.
    Allocated {
        /// Order of the block.
        order: Order,
        /// Reference count; 0 if the block is frozen.
        refs: u32,
        /// Whether the block may be migrated now: its request was movable, it is not pinned, and it is not a slab.
        movable: bool,
        /// Whether the block is freed as a whole, by its head.
        compound: bool,
        /// Whether a frame of the block is broken.
        poisoned: bool,
        /// Whether the block is a slab, which only the slab allocator frees.
        slab: bool,
    },
    /// Head of a block that a call in progress has claimed, in transition between two other states. If the call ended
    /// in a panic of the platform, the block stays in this state and is lost.
    Claimed {
        /// Order of the block.
        order: Order,
    },
    /// A frame inside a block, other than its head. Only the mark of a broken frame is meaningful.
    Interior,
    /// Permanently out of use: poisoned or bad.
    Withheld,
}

/// A frame's packed state, by value: 32 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Word(pub(super) u32);

impl Word {
    /// Word of [`State::Absent`], zero.
    pub(crate) const ABSENT: Word = Word(ABSENT);
    /// Word of [`State::Reserved`].
    pub(crate) const RESERVED: Word = Word(RESERVED);
    /// Word of [`State::Interior`], for a frame that is not broken.
    pub(crate) const INTERIOR: Word = Word(INTERIOR);
    /// Word of [`State::Withheld`].
    pub(crate) const WITHHELD: Word = Word(WITHHELD);

    /// Returns the word of a [`State::ZoneFree`] head.
    pub(crate) const fn zone_free(order: Order, migratetype: MigrateType) -> Word {
        Word(ZONE_FREE | (order.get() as u32) << ORDER_SHIFT | (migratetype as u32) << LIST_SHIFT)
    }

    /// Returns the word of a [`State::PcpCached`] head.
    pub(crate) const fn pcp_cached(order: Order, list: u8, cpu: CpuId) -> Word {
        Word(
            PCP_CACHED
                | (order.get() as u32) << ORDER_SHIFT
                | (list as u32) << LIST_SHIFT
                | (cpu.0 as u32) << CPU_SHIFT,
        )
    }

    /// Returns the word of a [`State::RemotePending`] head.
    pub(crate) const fn remote_pending(order: Order) -> Word {
        Word(REMOTE_PENDING | (order.get() as u32) << ORDER_SHIFT)
    }

    /// Returns the word of a [`State::Claimed`] head of this order.
    pub(crate) const fn claimed_of(order: Order) -> Word {
        Word(CLAIMED | (order.get() as u32) << ORDER_SHIFT)
    }

    /// Returns the word of a block that is claimed by a merging drain of this CPU's lists.
    pub(crate) const fn leaving(order: Order, cpu: CpuId) -> Word {
        Word(Word::claimed_of(order).0 | LEAVING | (cpu.0 as u32) << CPU_SHIFT)
    }

    /// Returns the claimed word of an allocated block. The order and the marks of broken frames are kept.
    pub(crate) const fn claimed(self) -> Word {
        Word(self.0 & (ORDER | POISONED | BROKEN) | CLAIMED)
    }

    /// Returns the word of a frozen block that is neither movable nor compound. See [`State::Allocated`].
    pub(crate) const fn allocated(order: Order) -> Word {
        Word(ALLOCATED | (order.get() as u32) << ORDER_SHIFT)
    }

    /// Returns this allocated word with the mark of a movable request.
    pub(crate) const fn movable(self) -> Word {
        Word(self.0 | MOVABLE)
    }

    /// Returns this allocated word with the mark of a handle that prevents migration. The reference count is not 0.
    pub(crate) const fn pinned(self) -> Word {
        Word(self.0 | PINNED)
    }

    /// Returns this allocated word without the mark of a handle; a word of another state is returned unchanged.
    pub(crate) const fn unpinned(self) -> Word {
        if self.is_allocated() { Word(self.0 & !PINNED) } else { self }
    }

    /// Returns this allocated word as compound: the block is freed as a whole, by its head.
    pub(crate) const fn compound(self) -> Word {
        Word(self.0 | COMPOUND)
    }

    /// Returns this allocated word as that of a slab.
    pub(crate) const fn slab(self) -> Word {
        Word(self.0 | SLAB)
    }

    /// Returns this allocated word as that of a page of a range, without a pin.
    pub(crate) const fn ranged(self) -> Word {
        Word(self.0 & !PINNED | RANGED)
    }

    /// Returns this allocated word as that of a single page.
    pub(crate) const fn unranged(self) -> Word {
        Word(self.0 & !RANGED)
    }

    /// Returns this allocated word with the mark that a frame of the block is broken.
    pub(crate) const fn poisoned(self) -> Word {
        Word(self.0 | POISONED)
    }

    /// Returns this word with the mark that the frame itself is broken.
    pub(crate) const fn broken(self) -> Word {
        Word(self.0 | BROKEN)
    }

    /// Returns this word without marks of broken frames.
    pub(crate) const fn healthy(self) -> Word {
        Word(self.0 & !(POISONED | BROKEN))
    }

    /// Returns this allocated word with a reference count.
    pub(crate) const fn with_refs(self, refs: u32) -> Word {
        debug_assert!(refs <= REFS_MAX, "word: the number of references does not fit into the counter");
        Word(self.0 & !REFS | refs << REF_SHIFT)
    }

    /// Returns this allocated word with another order, as after a split.
    pub(crate) const fn with_order(self, order: Order) -> Word {
        Word(self.0 & !ORDER | (order.get() as u32) << ORDER_SHIFT)
    }

    /// Returns the order of the block, if the word is a head's.
    pub const fn order(self) -> Order {
        Order::new(((self.0 & ORDER) >> ORDER_SHIFT) as u8)
    }

    /// Returns the reference count of an allocated block.
    pub const fn refs(self) -> u32 {
        self.0 >> REF_SHIFT
    }

    /// Returns whether the frame is the head of a block on a zone's free list.
    pub const fn is_zone_free(self) -> bool {
        self.0 & STATE == ZONE_FREE
    }

    /// Returns whether the frame is the head of a block of exactly this order on a zone's free list.
    pub const fn is_zone_free_of(self, order: Order) -> bool {
        self.0 & (STATE | ORDER) == ZONE_FREE | (order.get() as u32) << ORDER_SHIFT
    }

    /// Returns whether the frame is the head of a block of exactly this order on a list of this CPU.
    pub const fn is_cached_of(self, order: Order, cpu: CpuId) -> bool {
        self.0 & (STATE | ORDER | CPU) == Word::pcp_cached(order, 0, cpu).0
    }

    /// Returns whether the frame heads a block of exactly this order that a merging drain of this CPU has claimed.
    pub(crate) const fn is_leaving_of(self, order: Order, cpu: CpuId) -> bool {
        self.0 == Word::leaving(order, cpu).0
    }

    /// Returns whether the frame is the head of a block on a zone's free list or a per-CPU list.
    pub(crate) const fn is_listed(self) -> bool {
        matches!(self.0 & STATE, ZONE_FREE | PCP_CACHED)
    }

    /// Returns whether the frame is the head of a block on the stack of its owner.
    pub(crate) const fn is_remote_pending(self) -> bool {
        self.0 & STATE == REMOTE_PENDING
    }

    /// Returns whether the word is valid: its state exists, and it has only bits that this state uses.
    pub(crate) const fn is_sound(self) -> bool {
        let order = self.0 & ORDER;
        let extra = self.0 & !(STATE | ORDER);
        let fits = order >> ORDER_SHIFT <= Order::MAX.get() as u32;
        match self.0 & STATE {
            ABSENT | RESERVED | WITHHELD => order | extra == 0,
            INTERIOR => true,
            ZONE_FREE => fits && extra & !LIST == 0 && extra >> LIST_SHIFT < MigrateType::COUNT as u32,
            PCP_CACHED => fits && extra & !(LIST | CPU) == 0,
            REMOTE_PENDING => fits && extra == 0,
            ALLOCATED if extra & RANGED != 0 => order | extra & !(RANGED | POISONED | BROKEN | REFS) == 0,
            ALLOCATED if extra & PINNED != 0 && extra & REFS == 0 => false,
            ALLOCATED => fits && extra & !(MOVABLE | PINNED | COMPOUND | SLAB | POISONED | BROKEN | REFS) == 0,
            CLAIMED if extra & LEAVING != 0 => fits && extra & !(LEAVING | CPU) == 0,
            CLAIMED => fits && extra & !(POISONED | BROKEN) == 0,
            _ => false,
        }
    }

    /// Returns whether the owner of this word may replace it with `next` by a store.
    pub(super) const fn may_become(self, next: Word) -> bool {
        // Pages of a range leave the Allocated state under the zone lock, by a store.
        let is_next =
            NEXT[(self.0 & STATE) as usize] >> (next.0 & STATE) & 1 == 1 || self.is_ranged() && next.is_interior();
        self.is_sound() && next.is_sound() && is_next
    }

    /// Returns whether the frame is the head of a block: free, claimed or allocated.
    pub const fn is_head(self) -> bool {
        matches!(self.0 & STATE, ZONE_FREE | PCP_CACHED | ALLOCATED | REMOTE_PENDING | CLAIMED)
    }

    /// Returns whether the frame is the head of a block that a call in progress has claimed.
    pub const fn is_claimed(self) -> bool {
        self.0 & STATE == CLAIMED
    }

    /// Returns whether the frame is the head of an allocated block.
    pub const fn is_allocated(self) -> bool {
        self.0 & STATE == ALLOCATED
    }

    /// Returns whether the frame is the head of an allocated block of exactly this order.
    pub const fn is_allocated_of(self, order: Order) -> bool {
        self.0 & (STATE | ORDER) == ALLOCATED | (order.get() as u32) << ORDER_SHIFT
    }

    /// Returns whether the frame is a healthy allocated page with this reference count, single or of a range, no slab.
    #[inline]
    pub const fn is_page_of(self, refs: u32) -> bool {
        self.unranged().is_held_of(Order::ZERO, refs)
    }

    /// Returns whether the frame heads a healthy allocated block of this order and count, no slab or page of a range.
    #[inline]
    pub const fn is_held_of(self, order: Order, refs: u32) -> bool {
        let mask = STATE | ORDER | RANGED | SLAB | POISONED | REFS;
        self.0 & mask == Word::allocated(order).with_refs(refs).0
    }

    /// Returns whether the frame is the head of a healthy frozen block of exactly this order that is a slab.
    #[inline]
    pub(crate) const fn is_slab_of(self, order: Order) -> bool {
        let mask = STATE | ORDER | SLAB | POISONED | REFS;
        self.0 & mask == Word::allocated(order).slab().0
    }

    /// Returns whether the frame is inside a block, broken or not.
    pub const fn is_interior(self) -> bool {
        self.0 & STATE == INTERIOR
    }

    /// Returns a lower bound of the distance to the next head, in pages; for use under the zone lock. Only zone-free
    /// and allocated blocks are skipped as a whole: the order of a cached or claimed block may be outdated.
    #[inline]
    pub(crate) fn pages_to_next_head(self) -> u32 {
        // A predictable branch, so that a walk over single pages does not wait for each word to compute the distance.
        let whole = (self.is_zone_free() || self.is_allocated()) && self.order() > Order::ZERO;
        if whole { self.order().pages() } else { 1 }
    }

    /// Returns whether the frame was never online, or is offline again.
    pub const fn is_absent(self) -> bool {
        self.0 & STATE == ABSENT
    }

    /// Returns whether the frame is online but not released to the allocator.
    pub const fn is_reserved(self) -> bool {
        self.0 & STATE == RESERVED
    }

    /// Returns whether the frame heads an allocated block that may be migrated now: movable, not pinned, and no slab.
    pub const fn is_movable(self) -> bool {
        self.0 & (STATE | MOVABLE | PINNED | SLAB) == ALLOCATED | MOVABLE
    }

    /// Returns whether the frame is the head of an allocated block of a movable request, pinned or not.
    pub const fn is_of_movable_request(self) -> bool {
        self.0 & (STATE | MOVABLE) == ALLOCATED | MOVABLE
    }

    /// Returns whether the frame is the head of an allocated compound block.
    pub const fn is_compound(self) -> bool {
        self.0 & (STATE | COMPOUND) == ALLOCATED | COMPOUND
    }

    /// Returns whether the frame is a healthy allocated page of a range with exactly this reference count.
    #[inline]
    pub(crate) const fn is_ranged_page_of(self, refs: u32) -> bool {
        let mask = STATE | ORDER | RANGED | SLAB | POISONED | REFS;
        self.0 & mask == Word::allocated(Order::ZERO).ranged().with_refs(refs).0
    }

    /// Returns whether the frame is an allocated page of a range.
    pub(crate) const fn is_ranged(self) -> bool {
        self.0 & (STATE | RANGED) == ALLOCATED | RANGED
    }

    /// Returns whether the frame is the head of an allocated block that is a slab.
    pub const fn is_slab(self) -> bool {
        self.0 & (STATE | SLAB) == ALLOCATED | SLAB
    }

    /// Returns whether a frame of the block is marked as broken.
    pub const fn is_poisoned(self) -> bool {
        self.0 & POISONED != 0
    }

    /// Returns whether this frame itself is marked as broken.
    pub const fn is_broken(self) -> bool {
        self.0 & BROKEN != 0
    }

    /// Returns the migratetype of the free list of a `ZoneFree` head.
    pub const fn migratetype(self) -> MigrateType {
        MigrateType::from_index(((self.0 & LIST) >> LIST_SHIFT) as usize)
    }

    /// Returns the index of the per-CPU list of a `PcpCached` head.
    pub const fn list(self) -> u8 {
        ((self.0 & LIST) >> LIST_SHIFT) as u8
    }

    /// Returns the 32 bits of the word, as the frame stores them.
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the word with these bits, valid or not.
    #[cfg(feature = "damage")]
    pub(crate) const fn raw(bits: u32) -> Word {
        Word(bits)
    }

    /// Returns the word of a state, valid or not. The reference count is capped at its maximum.
    #[cfg(feature = "damage")]
    pub(crate) fn from_state(state: State) -> Word {
        match state {
            State::Absent => Word::ABSENT,
            State::Reserved => Word::RESERVED,
            State::ZoneFree { order, migratetype } => Word::zone_free(order, migratetype),
            State::PcpCached { order, list, cpu } => Word::pcp_cached(order, list, cpu),
            State::RemotePending { order } => Word::remote_pending(order),
            State::Allocated { order, refs, movable, compound, poisoned, slab } => {
                let flags = [(movable, MOVABLE), (compound, COMPOUND), (poisoned, POISONED), (slab, SLAB)];
                let set = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |set, (_, flag)| set | flag);
                Word(Word::allocated(order).with_refs(refs.min(REFS_MAX)).0 | set)
            }
            State::Claimed { order } => Word::claimed_of(order),
            State::Interior => Word::INTERIOR,
            State::Withheld => Word::WITHHELD,
        }
    }

    /// Unpacks the word into an enum for matching and printing.
    pub const fn state(self) -> State {
        match self.0 & STATE {
            ABSENT => State::Absent,
            RESERVED => State::Reserved,
            CLAIMED => State::Claimed { order: self.order() },
            ZONE_FREE => State::ZoneFree { order: self.order(), migratetype: self.migratetype() },
            PCP_CACHED => {
                State::PcpCached { order: self.order(), list: self.list(), cpu: CpuId((self.0 >> CPU_SHIFT) as u16) }
            }
            ALLOCATED => State::Allocated {
                order: self.order(),
                refs: self.refs(),
                movable: self.is_movable(),
                compound: self.is_compound(),
                poisoned: self.is_poisoned(),
                slab: self.is_slab(),
            },
            INTERIOR => State::Interior,
            REMOTE_PENDING => State::RemotePending { order: self.order() },
            _ => State::Withheld,
        }
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_sound() { self.state().fmt(f) } else { write!(f, "{:#x} (no valid state)", self.0) }
    }
}

#[cfg(test)]
mod tests;
