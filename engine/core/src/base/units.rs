//! Unit types, which keep frame numbers, orders, CPUs and nodes from being confused.
//!
//! A [`Pfn`] has 32 bits, so the engine manages up to 2^32 frames (16 TiB with 4 KiB pages). Frames are linked by
//! number instead of by address, which keeps the metadata at 12 bytes per frame.

use core::fmt;

/// Number of a page frame: its physical address divided by the page size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Pfn(u32);

impl Pfn {
    /// Upper limit of frame numbers in use, exclusive. The last block of [`Order::MAX`] of the number space is never
    /// used, so the end of any block is itself a valid frame number.
    pub const END_MAX: Pfn = Pfn(u32::MAX).align_down(Order::MAX);

    /// Returns the frame with this number, whether or not it exists.
    pub const fn new(raw: u32) -> Pfn {
        Pfn(raw)
    }

    /// Returns the frame with this number, or `None` if the number does not fit. The largest 32-bit number is reserved
    /// as the end mark of lists.
    pub const fn from_u64(raw: u64) -> Option<Pfn> {
        if raw < u32::MAX as u64 { Some(Pfn(raw as u32)) } else { None }
    }

    /// Returns the number: the frame's address divided by the page size.
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// Returns the number as an index into arrays of frames.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the frame `pages` above this one.
    ///
    /// # Panics
    /// If the number overflows.
    pub const fn offset(self, pages: u32) -> Pfn {
        match self.checked_offset(pages) {
            Some(pfn) => pfn,
            None => panic!("the frame number does not fit into 32 bits"),
        }
    }

    /// Returns the frame `pages` above this one, or `None` if the number overflows.
    pub const fn checked_offset(self, pages: u32) -> Option<Pfn> {
        match self.0.checked_add(pages) {
            Some(raw) => Some(Pfn(raw)),
            None => None,
        }
    }

    /// Returns the buddy of the block of `order` at this frame: the other half of the block of `order` + 1.
    pub const fn buddy(self, order: Order) -> Pfn {
        Pfn(self.0 ^ order.pages())
    }

    /// Returns the first frame of the naturally aligned block of `order` that contains this frame.
    pub const fn align_down(self, order: Order) -> Pfn {
        Pfn(self.0 & !(order.pages() - 1))
    }

    /// Returns the first frame at or above this one where a naturally aligned block of `order` starts.
    ///
    /// # Panics
    /// If the number overflows.
    pub const fn align_up(self, order: Order) -> Pfn {
        Pfn(self.0.next_multiple_of(order.pages()))
    }

    /// Returns whether a naturally aligned block of `order` starts at this frame.
    pub const fn is_aligned(self, order: Order) -> bool {
        self.0 & (order.pages() - 1) == 0
    }

    /// Returns the frames from this one up to but excluding `end`.
    pub fn up_to(self, end: Pfn) -> impl DoubleEndedIterator<Item = Pfn> + use<> {
        (self.0..end.0).map(Pfn)
    }

    /// Returns the largest naturally aligned blocks, at most of order `cap`, that tile the frames from this one up to
    /// `end`; in order of address.
    pub fn blocks_up_to(self, end: Pfn, cap: Order) -> impl Iterator<Item = (Pfn, Order)> {
        let mut at = self.0;
        core::iter::from_fn(move || {
            let left = end.0.checked_sub(at).filter(|&left| left > 0)?;
            let order = at.trailing_zeros().min(left.ilog2()).min(u32::from(cap.get()));
            let block = (Pfn(at), Order::new(order as u8));
            at += 1 << order;
            Some(block)
        })
    }
}

impl fmt::Debug for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for Pfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Size of a block as a power of two. A block of order `n` has `2^n` frames and starts at a multiple of that number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Order(u8);

impl Order {
    /// Order 0: blocks of one frame.
    pub const ZERO: Order = Order(0);
    /// Order of the largest block on the free lists. linux: MAX_PAGE_ORDER
    pub const MAX: Order = Order(if cfg!(loom) { 4 } else { 10 });
    /// Number of orders. linux: NR_PAGE_ORDERS
    pub const COUNT: usize = Order::MAX.0 as usize + 1;
    /// Largest order that is not costly. linux: PAGE_ALLOC_COSTLY_ORDER
    pub const COSTLY: Order = Order(3);

    /// Creates an order.
    ///
    /// # Panics
    /// If the order is above [`Order::MAX`].
    pub const fn new(order: u8) -> Order {
        assert!(order <= Order::MAX.0, "an order must be at most 10");
        Order(order)
    }

    /// Creates an order; returns `None` above [`Order::MAX`].
    pub const fn from_u8(order: u8) -> Option<Order> {
        if order <= Order::MAX.0 { Some(Order(order)) } else { None }
    }

    /// Returns the exponent, 0 to [`MAX`](Self::MAX).
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Returns the exponent as an index into arrays by order.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the number of frames in a block of this order.
    pub const fn pages(self) -> u32 {
        1 << self.0
    }

    /// Returns the next higher order; `None` above [`Order::MAX`].
    pub const fn up(self) -> Option<Order> {
        Order::from_u8(self.0 + 1)
    }

    /// Returns the next lower order; `None` below order 0.
    pub const fn down(self) -> Option<Order> {
        match self.0.checked_sub(1) {
            Some(order) => Some(Order(order)),
            None => None,
        }
    }

    /// Returns the orders from this one to `last`, inclusive.
    pub fn to(self, last: Order) -> impl DoubleEndedIterator<Item = Order> {
        // The loops over a range without its end are smaller and faster than those over an inclusive range.
        (self.0..last.0 + 1).map(Order)
    }

    /// Returns all orders, from 0 to [`MAX`](Self::MAX).
    pub fn all() -> impl DoubleEndedIterator<Item = Order> {
        Order::ZERO.to(Order::MAX)
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Number of a CPU, dense from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId(pub u16);

impl CpuId {
    /// Returns the number as an index into arrays by CPU.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of a NUMA node, dense from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u8);

impl NodeId {
    /// Returns the number as an index into arrays by node.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Kind of a zone in a node, from the most to the least precious memory. linux: include/linux/mmzone.h:zone_type
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ZoneKind {
    /// Memory that the oldest devices can address (below 16 MiB on a PC).
    Dma = 0,
    /// Memory that 32-bit devices can address.
    Dma32 = 1,
    /// All other memory that the kernel and user processes use.
    Normal = 2,
    /// Memory for movable pages only.
    Movable = 3,
}

impl ZoneKind {
    /// Number of zone kinds: DMA, DMA32, Normal, Movable.
    pub const COUNT: usize = 4;
    /// All kinds, the most precious first.
    pub const ALL: [ZoneKind; ZoneKind::COUNT] = [ZoneKind::Dma, ZoneKind::Dma32, ZoneKind::Normal, ZoneKind::Movable];

    /// Returns the kind as an index, 0 for DMA to 3 for Movable.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the name that Linux prints, such as `DMA32`.
    pub const fn name(self) -> &'static str {
        ["DMA", "DMA32", "Normal", "Movable"][self as usize]
    }

    /// Returns the kind that Linux prints as `name`, or `None` for a name of no kind, such as HighMem.
    pub fn from_name(name: &str) -> Option<ZoneKind> {
        ZoneKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_split_into_the_largest_aligned_blocks() {
        let blocks: [(u32, u8); 5] = [(3, 0), (4, 2), (8, 3), (16, 2), (20, 0)];
        let cut = Pfn::new(3).blocks_up_to(Pfn::new(21), Order::new(3));
        assert!(cut.map(|(pfn, order)| (pfn.raw(), order.get())).eq(blocks));
        assert_eq!(Pfn::new(5).blocks_up_to(Pfn::new(5), Order::MAX).count(), 0);
        assert_eq!(Pfn::new(0).blocks_up_to(Pfn::new(2048), Order::MAX).count(), 2);
    }

    #[test]
    fn buddy_of_a_buddy_is_the_block() {
        let pfn = Pfn::new(0x1240);
        for order in Order::all() {
            assert_eq!(pfn.buddy(order).buddy(order), pfn);
        }
    }

    #[test]
    fn orders_range_from_0_to_10() {
        assert!(Order::all().map(Order::get).eq(0..=10));
        assert!(Order::new(2).to(Order::new(4)).map(Order::pages).eq([4, 8, 16]));
        assert_eq!((Order::ZERO.down(), Order::MAX.up()), (None, None));
        assert_eq!((Order::new(3).down(), Order::new(3).up()), (Some(Order::new(2)), Some(Order::new(4))));
        assert_eq!((Order::from_u8(10), Order::from_u8(11)), (Some(Order::MAX), None));
        assert_eq!((Order::COUNT, Order::COSTLY.pages()), (11, 8));
    }

    #[test]
    fn pfn_arithmetic_follows_block_boundaries() {
        let (pfn, order) = (Pfn::new(0x1234), Order::new(4));
        assert_eq!(
            (pfn.align_down(order), pfn.buddy(order), pfn.offset(12)),
            (Pfn::new(0x1230), Pfn::new(0x1224), Pfn::new(0x1240))
        );
        assert!(!pfn.is_aligned(Order::new(3)) && pfn.is_aligned(Order::new(2)));
        assert!(Pfn::new(3).up_to(Pfn::new(6)).map(Pfn::raw).eq(3..6));
    }

    #[test]
    fn largest_pfn_bounds_ranges_and_blocks() {
        let last = u64::from(u32::MAX);
        assert_eq!((Pfn::from_u64(last - 1), Pfn::from_u64(last)), (Some(Pfn::new(u32::MAX - 1)), None));
        assert_eq!(Pfn::new(u32::MAX - 1).checked_offset(1), Some(Pfn::new(u32::MAX)));
        assert_eq!(Pfn::new(u32::MAX - 1).checked_offset(2), None);
        assert_eq!(Pfn::END_MAX, Pfn::new(0u32.wrapping_sub(1024)));
        assert_eq!([0, 1, 8, 9].map(|raw| Pfn::new(raw).align_up(Order::new(3)).raw()), [0, 8, 8, 16]);
    }

    #[test]
    fn zone_kinds_have_linux_names() {
        for kind in ZoneKind::ALL {
            assert_eq!(ZoneKind::from_name(kind.name()), Some(kind));
            assert_eq!(ZoneKind::ALL[kind.index()], kind);
        }
        assert_eq!((ZoneKind::Dma32.name(), ZoneKind::from_name("HighMem")), ("DMA32", None));
    }
}
