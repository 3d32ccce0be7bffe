//! Frames and orders as types, so that a frame number, an order and a count cannot be mistaken for each other.
//!
//! The engine has types of the same meaning. These are apart from them on purpose: a peer must build and run
//! whatever state the engine is in.

/// Logarithm of the bytes of a frame.
pub(crate) const FRAME_SHIFT: u32 = 12;
/// Bytes of a frame.
pub(crate) const FRAME_BYTES: usize = 1 << FRAME_SHIFT;
/// Number of orders, as on Linux: the largest block has 2^10 frames.
pub(crate) const ORDERS: usize = 11;

/// Number of a frame, counted from the start of its machine's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(crate) struct Frame(pub(crate) u32);

impl Frame {
    /// The frame that starts so many bytes after the first.
    pub(crate) const fn at_offset(bytes: usize) -> Frame {
        Frame((bytes >> FRAME_SHIFT) as u32)
    }

    /// Bytes between the start of the first frame and the start of this one.
    pub(crate) const fn offset(self) -> usize {
        (self.0 as usize) << FRAME_SHIFT
    }

    /// The number as an index.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Size of a block as a power of two of frames; below [`ORDERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(crate) struct Order(u8);

impl Order {
    /// One frame.
    pub(crate) const ZERO: Order = Order(0);

    /// The order with this number.
    ///
    /// # Panics
    /// When there is no such order.
    pub(crate) const fn new(raw: u8) -> Order {
        assert!((raw as usize) < ORDERS, "there is no such order");
        Order(raw)
    }

    /// The number.
    pub(crate) const fn raw(self) -> u8 {
        self.0
    }

    /// Frames of a block.
    pub(crate) const fn frames(self) -> usize {
        1 << self.0
    }

    /// Bytes of a block.
    pub(crate) const fn bytes(self) -> usize {
        FRAME_BYTES << self.0
    }
}
