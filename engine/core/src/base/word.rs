//! The state of a frame, packed into one word.
//!
//! Every frame is in exactly one state. The head of a block carries the block's state, all its other frames are
//! [`State::Interior`]. A split writes the head of the upper half, a merge makes it an interior frame again: a
//! transition costs one store, whatever the block's size.
//!
//! ```text
//!              allocated                          on a list                    in the hands of a call
//! bits 31..16  references, from bit 15 on;        CPU of the list              CPU of a drain that merges
//!              0: frozen
//!      14      this frame is broken                                            this frame is broken
//!      13      a frame of the block is broken                                  a frame of the block is broken
//!      12..8   pinned (12), of a range (11),      migratetype of the list, or  drain that merges (12)
//!              slab's (10), compound (9), movable index of the CPU's
//!       7..4   order
//!       3..0   state
//! ```
//!
//! So a word is 32 bits, sixteen of them in a cache line, apart from the links: what a free looks at, its own frame's
//! word and its buddies', is a mebibyte for each gibibyte of memory.
//!
//! The word names the part that may write it: a `ZoneFree` head belongs to the holder of its zone's lock, a `PcpCached`
//! head to the holder of that CPU's list lock, a `RemotePending` head to the CPU that takes its stack, a `Claimed` head
//! to the call that claimed it, `Absent` and `Reserved` frames to the call that brings memory in. An `Allocated` head
//! leaves that state by one atomic step only ([`Frame`](super::Frame)): of two calls that free a block, one takes the
//! step. Pages of a range go back together, so they leave it by stores under the zone lock. Any part may read a word: a
//! stale answer is harmless, since a reader acts only on a state that its own lock protects. Absent is zero: fresh
//! metadata is not written.

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

/// For each state, those that the word's owner may store next, as bits. An allocated block is nobody's to store: it
/// leaves its state by one atomic step.
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

/// References that a word can count: 131,071.
pub(crate) const REFS_MAX: u32 = (1 << 17) - 1;

/// What a frame is: the state that its word packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Never online, or offline again: a hole.
    Absent,
    /// Online, and not given to the allocator: firmware, the metadata itself.
    Reserved,
    /// Head of a block on a zone's free list.
    ZoneFree {
        /// Order of the block.
        order: Order,
        /// Migratetype of the free list that it is on.
        migratetype: MigrateType,
    },
    /// Head of a block on a per-CPU list.
    PcpCached {
        /// Order of the block.
        order: Order,
        /// Index among the CPU's lists, by order and type.
        list: u8,
        /// The CPU on whose list it is.
        cpu: CpuId,
    },
    /// Head of a block that was freed on its way home: on the stack of the CPU that owns its pageblock.
    RemotePending {
        /// Order of the block.
        order: Order,
    },
    /// Head of a block that somebody owns.
    Allocated {
        /// Order of the block.
        order: Order,
        /// References; none if the block is frozen.
        refs: u32,
        /// Whether it may be migrated now: its request was movable, it is not pinned, and no slab's.
        movable: bool,
        /// Whether the block is freed whole, by its head.
        compound: bool,
        /// Whether a frame of the block is broken.
        poisoned: bool,
        /// Whether the block is a slab's, which alone gives it back.
        slab: bool,
    },
    /// Head of a block in the hands of a call that is under way: on its way between two other states. If that call
    /// ended in a panic of the platform's, the block stays what it is, and is lost.
    Claimed {
        /// Order of the block.
        order: Order,
    },
    /// Inside a block, not its head. Of the rest of its word, only whether the frame is broken means anything.
    Interior,
    /// Out of use for ever: poisoned or bad.
    Withheld,
}

/// A frame's packed state, by value: 32 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Word(pub(super) u32);

impl Word {
    /// The word of [`State::Absent`], zero.
    pub(crate) const ABSENT: Word = Word(ABSENT);
    /// The word of [`State::Reserved`].
    pub(crate) const RESERVED: Word = Word(RESERVED);
    /// The word of [`State::Interior`], of a frame that is not broken.
    pub(crate) const INTERIOR: Word = Word(INTERIOR);
    /// The word of [`State::Withheld`].
    pub(crate) const WITHHELD: Word = Word(WITHHELD);

    /// The word of a [`State::ZoneFree`] head.
    pub(crate) const fn zone_free(order: Order, migratetype: MigrateType) -> Word {
        Word(ZONE_FREE | (order.get() as u32) << ORDER_SHIFT | (migratetype as u32) << LIST_SHIFT)
    }

    /// The word of a [`State::PcpCached`] head.
    pub(crate) const fn pcp_cached(order: Order, list: u8, cpu: CpuId) -> Word {
        Word(
            PCP_CACHED
                | (order.get() as u32) << ORDER_SHIFT
                | (list as u32) << LIST_SHIFT
                | (cpu.0 as u32) << CPU_SHIFT,
        )
    }

    /// The word of a [`State::RemotePending`] head.
    pub(crate) const fn remote_pending(order: Order) -> Word {
        Word(REMOTE_PENDING | (order.get() as u32) << ORDER_SHIFT)
    }

    /// The word of a [`State::Claimed`] head of this order.
    pub(crate) const fn claimed_of(order: Order) -> Word {
        Word(CLAIMED | (order.get() as u32) << ORDER_SHIFT)
    }

    /// A block in the hands of a drain of this CPU's lists that merges.
    pub(crate) const fn leaving(order: Order, cpu: CpuId) -> Word {
        Word(Word::claimed_of(order).0 | LEAVING | (cpu.0 as u32) << CPU_SHIFT)
    }

    /// The allocated block as one that a call has claimed: its size, and what of it is broken, remain.
    pub(crate) const fn claimed(self) -> Word {
        Word(self.0 & (ORDER | POISONED | BROKEN) | CLAIMED)
    }

    /// A frozen block, neither movable nor compound. See [`State::Allocated`].
    pub(crate) const fn allocated(order: Order) -> Word {
        Word(ALLOCATED | (order.get() as u32) << ORDER_SHIFT)
    }

    /// The same allocated block, of a movable request.
    pub(crate) const fn movable(self) -> Word {
        Word(self.0 | MOVABLE)
    }

    /// The same allocated block, which a handle keeps from being migrated. It has references.
    pub(crate) const fn pinned(self) -> Word {
        Word(self.0 | PINNED)
    }

    /// The same block without that mark.
    pub(crate) const fn unpinned(self) -> Word {
        if self.is_allocated() { Word(self.0 & !PINNED) } else { self }
    }

    /// The same allocated block, freed whole by its head.
    pub(crate) const fn compound(self) -> Word {
        Word(self.0 | COMPOUND)
    }

    /// The same allocated block, a slab's.
    pub(crate) const fn slab(self) -> Word {
        Word(self.0 | SLAB)
    }

    /// The same allocated page, one of a range.
    pub(crate) const fn ranged(self) -> Word {
        Word(self.0 & !PINNED | RANGED)
    }

    /// The same allocated page, by itself.
    pub(crate) const fn unranged(self) -> Word {
        Word(self.0 & !RANGED)
    }

    /// The same allocated block, some frame of which is broken.
    pub(crate) const fn poisoned(self) -> Word {
        Word(self.0 | POISONED)
    }

    /// The same frame, broken itself.
    pub(crate) const fn broken(self) -> Word {
        Word(self.0 | BROKEN)
    }

    /// The same block, without marks of broken memory.
    pub(crate) const fn healthy(self) -> Word {
        Word(self.0 & !(POISONED | BROKEN))
    }

    /// The same allocated block with this many references.
    pub(crate) const fn with_refs(self, refs: u32) -> Word {
        debug_assert!(refs <= REFS_MAX, "word: more references than it counts");
        Word(self.0 & !REFS | refs << REF_SHIFT)
    }

    /// The same allocated block, seen as one of `order` (what is left of it after a split).
    pub(crate) const fn with_order(self, order: Order) -> Word {
        Word(self.0 & !ORDER | (order.get() as u32) << ORDER_SHIFT)
    }

    /// Size of the block, if this is a head.
    pub const fn order(self) -> Order {
        Order::new(((self.0 & ORDER) >> ORDER_SHIFT) as u8)
    }

    /// References of an allocated block.
    pub const fn refs(self) -> u32 {
        self.0 >> REF_SHIFT
    }

    /// Head of a block on a zone's free list?
    pub const fn is_zone_free(self) -> bool {
        self.0 & STATE == ZONE_FREE
    }

    /// Head of a free block of exactly this order?
    pub const fn is_zone_free_of(self, order: Order) -> bool {
        self.0 & (STATE | ORDER) == ZONE_FREE | (order.get() as u32) << ORDER_SHIFT
    }

    /// Head of a block of exactly this order on a list of this CPU?
    pub const fn is_cached_of(self, order: Order, cpu: CpuId) -> bool {
        self.0 & (STATE | ORDER | CPU) == Word::pcp_cached(order, 0, cpu).0
    }

    /// Head of a block of exactly this order in the hands of a drain of this CPU's lists that merges?
    pub(crate) const fn is_leaving_of(self, order: Order, cpu: CpuId) -> bool {
        self.0 == Word::leaving(order, cpu).0
    }

    /// Head of a block on a list, a zone's or a CPU's?
    pub(crate) const fn is_listed(self) -> bool {
        matches!(self.0 & STATE, ZONE_FREE | PCP_CACHED)
    }

    /// Head of a block on its way home?
    pub(crate) const fn is_remote_pending(self) -> bool {
        self.0 & STATE == REMOTE_PENDING
    }

    /// Whether it is the word of a state, with no bit set that this state does not have.
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

    /// Whether the owner of this word may store that one.
    pub(super) const fn may_become(self, next: Word) -> bool {
        // Pages of a range leave their owner's hands under the zone lock, by a store.
        let is_next =
            NEXT[(self.0 & STATE) as usize] >> (next.0 & STATE) & 1 == 1 || self.is_ranged() && next.is_interior();
        self.is_sound() && next.is_sound() && is_next
    }

    /// Head of a block, free or owned, on a list or not?
    pub const fn is_head(self) -> bool {
        matches!(self.0 & STATE, ZONE_FREE | PCP_CACHED | ALLOCATED | REMOTE_PENDING | CLAIMED)
    }

    /// Head of a block in the hands of a call that is under way?
    pub const fn is_claimed(self) -> bool {
        self.0 & STATE == CLAIMED
    }

    /// Head of a block that somebody owns?
    pub const fn is_allocated(self) -> bool {
        self.0 & STATE == ALLOCATED
    }

    /// Head of an allocated block of exactly this order?
    pub const fn is_allocated_of(self, order: Order) -> bool {
        self.0 & (STATE | ORDER) == ALLOCATED | (order.get() as u32) << ORDER_SHIFT
    }

    /// A healthy allocated page with exactly so many references, of a range or by itself, and no slab's?
    #[inline]
    pub const fn is_page_of(self, refs: u32) -> bool {
        self.unranged().is_held_of(Order::ZERO, refs)
    }

    /// Head of a healthy allocated block of exactly this order, with exactly so many references, no slab's, and no page
    /// of a range?
    #[inline]
    pub const fn is_held_of(self, order: Order, refs: u32) -> bool {
        let mask = STATE | ORDER | RANGED | SLAB | POISONED | REFS;
        self.0 & mask == Word::allocated(order).with_refs(refs).0
    }

    /// Head of a healthy block of exactly this order that is a slab's, and that nobody refers to?
    #[inline]
    pub(crate) const fn is_slab_of(self, order: Order) -> bool {
        let mask = STATE | ORDER | SLAB | POISONED | REFS;
        self.0 & mask == Word::allocated(order).slab().0
    }

    /// Inside a block (poisoned or not)?
    pub const fn is_interior(self) -> bool {
        self.0 & STATE == INTERIOR
    }

    /// How far on the next head may be. Under the zone lock: what a block on a per-CPU list or in nobody's hands says
    /// of its size may be out of date.
    #[inline]
    pub(crate) fn pages_to_next_head(self) -> u32 {
        // Single pages are told apart by a branch that is foreseen: a walk does not wait for each word to say how far
        // on.
        let whole = (self.is_zone_free() || self.is_allocated()) && self.order() > Order::ZERO;
        if whole { self.order().pages() } else { 1 }
    }

    /// Never online, or offline again?
    pub const fn is_absent(self) -> bool {
        self.0 & STATE == ABSENT
    }

    /// Online, and not given to the allocator?
    pub const fn is_reserved(self) -> bool {
        self.0 & STATE == RESERVED
    }

    /// An allocated block that may be migrated now: of a movable request, not pinned, and no slab's?
    pub const fn is_movable(self) -> bool {
        self.0 & (STATE | MOVABLE | PINNED | SLAB) == ALLOCATED | MOVABLE
    }

    /// An allocated block of a movable request, pinned or not?
    pub const fn is_of_movable_request(self) -> bool {
        self.0 & (STATE | MOVABLE) == ALLOCATED | MOVABLE
    }

    /// An allocated block that is freed whole?
    pub const fn is_compound(self) -> bool {
        self.0 & (STATE | COMPOUND) == ALLOCATED | COMPOUND
    }

    /// A healthy allocated page of a range with exactly so many references?
    #[inline]
    pub(crate) const fn is_ranged_page_of(self, refs: u32) -> bool {
        let mask = STATE | ORDER | RANGED | SLAB | POISONED | REFS;
        self.0 & mask == Word::allocated(Order::ZERO).ranged().with_refs(refs).0
    }

    /// Whether the word is that of an allocated page of a range.
    pub(crate) const fn is_ranged(self) -> bool {
        self.0 & (STATE | RANGED) == ALLOCATED | RANGED
    }

    /// An allocated block of a slab's?
    pub const fn is_slab(self) -> bool {
        self.0 & (STATE | SLAB) == ALLOCATED | SLAB
    }

    /// Whether the word is that of a block one of whose frames is broken.
    pub const fn is_poisoned(self) -> bool {
        self.0 & POISONED != 0
    }

    /// Whether the word says that this very frame is broken.
    pub const fn is_broken(self) -> bool {
        self.0 & BROKEN != 0
    }

    /// Migratetype of the free list of a `ZoneFree` head.
    pub const fn migratetype(self) -> MigrateType {
        MigrateType::from_index(((self.0 & LIST) >> LIST_SHIFT) as usize)
    }

    /// Index of the per-CPU list of a `PcpCached` head.
    pub const fn list(self) -> u8 {
        ((self.0 & LIST) >> LIST_SHIFT) as u8
    }

    /// The word's 32 bits, as the frame stores them.
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// A word of any bits, be they no state's.
    #[cfg(feature = "damage")]
    pub(crate) const fn raw(bits: u32) -> Word {
        Word(bits)
    }

    /// The word that packs a state, sound or not, with as many of its references as can be counted.
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

    /// The word's meaning, as an enum that can be matched and printed.
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
        if self.is_sound() { self.state().fmt(f) } else { write!(f, "{:#x}, the word of no state", self.0) }
    }
}

#[cfg(test)]
mod tests;
