//! The state of a frame: one packed word, and the links that put it on a list.
//!
//! Every frame is in exactly one state. The head of a block carries the block's state; all its other
//! frames are [`State::Interior`]. Splitting a block writes the head of the upper half, merging two
//! blocks turns the upper head back into an interior frame: a transition costs one store, whatever
//! the block's size.
//!
//! ```text
//! bits 63..32  references of an allocated block (0: frozen); CPU whose list holds a cached one
//!      31..28  flags: this frame is broken; a frame of the block is; compound; movable
//!      15..8   migratetype of the free list, or index of the per-CPU list
//!       7..4   order
//!       3..0   state
//! ```
//!
//! Who may write the word is told by the word: a `ZoneFree` head belongs to the holder of its zone's lock, a
//! `PcpCached` head to the holder of that CPU's list lock, a `RemotePending` head to whoever takes the stack that it
//! is on, an `Allocated` head to whoever owns the block. Anybody may read it: a buddy is judged by its word alone, and
//! a stale answer from a block that one does not own is harmless, since only a state that the reader's own lock
//! protects makes it act.
//!
//! Reserved is zero, so fresh metadata needs no pass of initialisation.

use core::fmt;
use core::sync::atomic::{Ordering::AcqRel, Ordering::Relaxed};

use super::atomic::{AtomicU32, AtomicU64};
use super::{CpuId, MigrateType, Order};

const STATE: u64 = 0xf;
const ORDER_SHIFT: u32 = 4;
const LIST_SHIFT: u32 = 8;
const LIST: u64 = 0xff;
const CPU_SHIFT: u32 = 32;
const MOVABLE: u64 = 1 << 28;
const COMPOUND: u64 = 1 << 29;
const POISONED: u64 = 1 << 30;
const BROKEN: u64 = 1 << 31;
const REF_SHIFT: u32 = 32;
const REF_ONE: u64 = 1 << REF_SHIFT;

const RESERVED: u64 = 0;
const ZONE_FREE: u64 = 1;
const PCP_CACHED: u64 = 2;
const ALLOCATED: u64 = 3;
const INTERIOR: u64 = 4;
const WITHHELD: u64 = 5;
const REMOTE_PENDING: u64 = 6;

/// What a frame is, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Never given to the allocator: a hole, firmware, the metadata itself.
    Reserved,
    /// Head of a block on a zone's free list.
    ZoneFree {
        /// Size of the block.
        order: Order,
        /// The list it is on.
        migratetype: MigrateType,
    },
    /// Head of a block on a per-CPU list.
    PcpCached {
        /// Size of the block.
        order: Order,
        /// Index of the list.
        list: u8,
        /// The CPU whose list it is.
        cpu: CpuId,
    },
    /// Head of a block that was freed on its way home: on the stack of the CPU that owns its pageblock.
    RemotePending {
        /// Size of the block.
        order: Order,
    },
    /// Head of a block that somebody owns.
    Allocated {
        /// Size of the block.
        order: Order,
        /// References; none if the block is frozen.
        refs: u32,
        /// Whether the owner lets the block be migrated.
        movable: bool,
        /// Whether the block is freed whole, by its head.
        compound: bool,
        /// Whether a frame of the block is broken.
        poisoned: bool,
    },
    /// Inside a block, not its head. Of the rest of its word, only whether the frame is broken means anything.
    Interior,
    /// Out of use for ever: poisoned or bad.
    Withheld,
}

/// The packed state, by value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Word(u64);

impl Word {
    /// See [`State::Reserved`].
    pub const RESERVED: Word = Word(RESERVED);
    /// See [`State::Interior`].
    pub const INTERIOR: Word = Word(INTERIOR);
    /// See [`State::Withheld`].
    pub const WITHHELD: Word = Word(WITHHELD);

    /// See [`State::ZoneFree`].
    pub const fn zone_free(order: Order, migratetype: MigrateType) -> Word {
        Word(ZONE_FREE | (order.get() as u64) << ORDER_SHIFT | (migratetype as u64) << LIST_SHIFT)
    }

    /// See [`State::PcpCached`].
    pub const fn pcp_cached(order: Order, list: u8, cpu: CpuId) -> Word {
        Word(
            PCP_CACHED
                | (order.get() as u64) << ORDER_SHIFT
                | (list as u64) << LIST_SHIFT
                | (cpu.0 as u64) << CPU_SHIFT,
        )
    }

    /// See [`State::RemotePending`].
    pub const fn remote_pending(order: Order) -> Word {
        Word(REMOTE_PENDING | (order.get() as u64) << ORDER_SHIFT)
    }

    /// A frozen block, neither movable nor compound. See [`State::Allocated`].
    pub const fn allocated(order: Order) -> Word {
        Word(ALLOCATED | (order.get() as u64) << ORDER_SHIFT)
    }

    /// The same allocated block, open to migration.
    pub const fn movable(self) -> Word {
        Word(self.0 | MOVABLE)
    }

    /// The same allocated block, fixed in place.
    pub const fn unmovable(self) -> Word {
        Word(self.0 & !MOVABLE)
    }

    /// The same allocated block, freed whole by its head.
    pub const fn compound(self) -> Word {
        Word(self.0 | COMPOUND)
    }

    /// The same allocated block, some frame of which is broken.
    pub const fn poisoned(self) -> Word {
        Word(self.0 | POISONED)
    }

    /// The same frame, broken itself.
    pub const fn broken(self) -> Word {
        Word(self.0 | BROKEN)
    }

    /// The same block, without marks of broken memory.
    pub const fn healthy(self) -> Word {
        Word(self.0 & !(POISONED | BROKEN))
    }

    /// The same allocated block with this many references.
    pub const fn with_refs(self, refs: u32) -> Word {
        Word(self.0 & (REF_ONE - 1) | (refs as u64) << REF_SHIFT)
    }

    /// The same allocated block, seen as one of `order` (what is left of it after a split).
    pub const fn with_order(self, order: Order) -> Word {
        Word(self.0 & !(0xf << ORDER_SHIFT) | (order.get() as u64) << ORDER_SHIFT)
    }

    /// Size of the block, if this is a head.
    pub const fn order(self) -> Order {
        Order::new((self.0 >> ORDER_SHIFT & 0xf) as u8)
    }

    /// References of an allocated block.
    pub const fn refs(self) -> u32 {
        (self.0 >> REF_SHIFT) as u32
    }

    /// Head of a block on a zone's free list?
    pub const fn is_zone_free(self) -> bool {
        self.0 & STATE == ZONE_FREE
    }

    /// Head of a free block of exactly this order?
    pub const fn is_zone_free_of(self, order: Order) -> bool {
        self.0 & (STATE | 0xf << ORDER_SHIFT) == ZONE_FREE | (order.get() as u64) << ORDER_SHIFT
    }

    /// Head of a block of exactly this order on a list of this CPU?
    pub const fn is_cached_of(self, order: Order, cpu: CpuId) -> bool {
        let mask = STATE | 0xf << ORDER_SHIFT | 0xffff << CPU_SHIFT;
        self.0 & mask == Word::pcp_cached(order, 0, cpu).0
    }

    /// Head of a block, free or owned, on a list or not?
    pub const fn is_head(self) -> bool {
        matches!(self.0 & STATE, ZONE_FREE | PCP_CACHED | ALLOCATED | REMOTE_PENDING)
    }

    /// Head of a block that somebody owns?
    pub const fn is_allocated(self) -> bool {
        self.0 & STATE == ALLOCATED
    }

    /// Head of an allocated block of exactly this order?
    pub const fn is_allocated_of(self, order: Order) -> bool {
        self.0 & (STATE | 0xf << ORDER_SHIFT) == ALLOCATED | (order.get() as u64) << ORDER_SHIFT
    }

    /// Head of a healthy allocated block of exactly this order, with exactly so many references?
    #[inline]
    pub const fn is_held_of(self, order: Order, refs: u32) -> bool {
        let mask = STATE | 0xf << ORDER_SHIFT | POISONED | !(REF_ONE - 1);
        self.0 & mask == Word::allocated(order).with_refs(refs).0
    }

    /// The allocated head as an interior frame of a larger block. What it was stays in bits that mean nothing inside a
    /// block, so that [`Word::restored`] can take the step back.
    #[inline]
    pub const fn absorbed(self) -> Word {
        Word(self.0 ^ (ALLOCATED ^ INTERIOR))
    }

    /// The interior frame as the allocated head that it was when it was [`absorbed`](Word::absorbed).
    pub const fn restored(self) -> Word {
        self.absorbed()
    }

    /// Inside a block (poisoned or not)?
    pub const fn is_interior(self) -> bool {
        self.0 & STATE == INTERIOR
    }

    /// Never given to the allocator?
    pub const fn is_reserved(self) -> bool {
        self.0 & STATE == RESERVED
    }

    /// An allocated block open to migration?
    pub const fn is_movable(self) -> bool {
        self.0 & MOVABLE != 0
    }

    /// An allocated block that is freed whole?
    pub const fn is_compound(self) -> bool {
        self.0 & COMPOUND != 0
    }

    /// A block with a broken frame?
    pub const fn is_poisoned(self) -> bool {
        self.0 & POISONED != 0
    }

    /// A broken frame?
    pub const fn is_broken(self) -> bool {
        self.0 & BROKEN != 0
    }

    /// Migratetype of the free list of a `ZoneFree` head.
    pub const fn migratetype(self) -> MigrateType {
        MigrateType::from_index((self.0 >> LIST_SHIFT & 0xf) as usize)
    }

    /// Index of the per-CPU list of a `PcpCached` head.
    pub const fn list(self) -> u8 {
        (self.0 >> LIST_SHIFT & LIST) as u8
    }

    /// The word in words.
    pub const fn state(self) -> State {
        match self.0 & STATE {
            RESERVED => State::Reserved,
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
            },
            INTERIOR => State::Interior,
            REMOTE_PENDING => State::RemotePending { order: self.order() },
            _ => State::Withheld,
        }
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state().fmt(f)
    }
}

/// Metadata of one frame: 16 bytes.
#[derive(Debug, Default)]
#[repr(C, align(16))]
pub struct Frame {
    word: AtomicU64,
    /// Next frame on the list or stack this head is on; protected by what protects the list.
    pub(super) next: AtomicU32,
    /// Previous frame, likewise.
    pub(super) prev: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Frame>() == 16, "metadata budget: 16 bytes a frame");

impl Frame {
    /// The state now. Stable only under the lock that the state names.
    #[inline]
    pub fn word(&self) -> Word {
        Word(self.word.load(Relaxed))
    }

    /// Puts the frame into another state. The caller holds what the present state names.
    #[inline]
    pub fn set(&self, word: Word) {
        self.word.store(word.0, Relaxed);
    }

    /// Marks a frame of an allocated block as broken, while others may be counting references.
    pub fn mark_broken(&self) {
        self.word.fetch_or(BROKEN, Relaxed);
    }

    /// Marks an allocated block as one that has a broken frame, likewise.
    pub fn mark_poisoned(&self) {
        self.word.fetch_or(POISONED, Relaxed);
    }

    /// Gives a block that was taken frozen and plain its references and flags, while others may be marking it as
    /// broken.
    pub fn dress(&self, word: Word) {
        let before = Word(self.word.fetch_or(word.0, Relaxed));
        debug_assert_eq!(before.healthy(), Word::allocated(word.order()));
    }

    /// Adds a reference to an allocated block on which the caller holds one.
    pub fn get(&self) {
        let before = Word(self.word.fetch_add(REF_ONE, Relaxed));
        debug_assert!(before.is_allocated() && before.refs() > 0);
    }

    /// Drops one of several references; returns the word after. The last holder sees what every
    /// earlier one wrote.
    pub fn put(&self) -> Word {
        let before = self.word.fetch_sub(REF_ONE, AcqRel);
        debug_assert!(Word(before).refs() > 0);
        Word(before - REF_ONE)
    }

    /// Drops all references at once, by whoever owns every one of them, while others may be marking the block as
    /// broken; returns the word after.
    pub fn freeze(&self) -> Word {
        Word(self.word.fetch_and(REF_ONE - 1, AcqRel)).with_refs(0)
    }

    /// As [`Frame::put`], by whoever allocated the block: if references are left and the block is not compound, what
    /// they refer to is its first frame alone from now on.
    pub fn put_by_owner(&self) -> Word {
        let drop_one = |word: Word| {
            let left = word.with_refs(word.refs() - 1);
            if left.refs() > 0 && !left.is_compound() { left.with_order(Order::ZERO) } else { left }
        };
        let mut before = self.word();
        loop {
            let after = drop_one(before);
            match self.word.compare_exchange_weak(before.0, after.0, AcqRel, Relaxed) {
                Ok(_) => return after,
                Err(now) => before = Word(now),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_they_were_made_of() {
        let order = Order::new(9);
        assert_eq!(
            Word::zone_free(order, MigrateType::Cma).state(),
            State::ZoneFree { order, migratetype: MigrateType::Cma }
        );
        let cached = Word::pcp_cached(order, 29, CpuId(511));
        assert_eq!(cached.state(), State::PcpCached { order, list: 29, cpu: CpuId(511) });
        assert_eq!(Word::remote_pending(order).state(), State::RemotePending { order });
        assert!(cached.is_cached_of(order, CpuId(511)) && !cached.is_cached_of(order, CpuId(510)));
        let word = Word::allocated(order).movable().compound().with_refs(7).with_order(Order::ZERO);
        assert_eq!(
            word.state(),
            State::Allocated { order: Order::ZERO, refs: 7, movable: true, compound: true, poisoned: false }
        );
        assert_eq!(Frame::default().word().state(), State::Reserved);
        assert_eq!((word.absorbed().state(), word.absorbed().restored()), (State::Interior, word));
    }

    #[test]
    fn the_owner_of_a_shared_block_keeps_its_size_only_if_it_is_compound() {
        let frame = Frame::default();
        let order = Order::new(4);
        frame.set(Word::allocated(order).with_refs(2));
        assert_eq!(frame.put_by_owner(), Word::allocated(Order::ZERO).with_refs(1));
        assert_eq!(frame.put(), Word::allocated(Order::ZERO));
        frame.set(Word::allocated(order).compound().with_refs(2));
        assert_eq!(frame.put_by_owner(), Word::allocated(order).compound().with_refs(1));
        frame.set(Word::allocated(order).with_refs(1));
        assert_eq!(frame.put_by_owner(), Word::allocated(order), "the last reference: all of it is free");
    }
}
