//! Frames and orders as types, so that a frame number, an order and a count cannot be confused.
//!
//! The engine has types with the same meaning. These types are deliberately separate, because the peers must build and
//! run independently of the engine's state.

/// Logarithm to base 2 of the bytes of a frame.
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
    /// Returns the frame that starts `bytes` bytes after the start of the first frame.
    pub(crate) const fn at_offset(bytes: usize) -> Frame {
        Frame((bytes >> FRAME_SHIFT) as u32)
    }

    /// Returns the bytes between the start of the first frame and the start of this frame.
    pub(crate) const fn offset(self) -> usize {
        (self.0 as usize) << FRAME_SHIFT
    }

    /// Returns the number as an index.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Size of a block as a power of two of frames; below [`ORDERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(crate) struct Order(u8);

impl Order {
    /// Order of a single frame.
    pub(crate) const ZERO: Order = Order(0);

    /// Creates the order with this number.
    ///
    /// # Panics
    /// Panics if there is no such order.
    pub(crate) const fn new(raw: u8) -> Order {
        assert!((raw as usize) < ORDERS, "the order is out of range");
        Order(raw)
    }

    /// Returns the number of the order.
    pub(crate) const fn raw(self) -> u8 {
        self.0
    }

    /// Returns the frames of a block.
    pub(crate) const fn frames(self) -> usize {
        1 << self.0
    }

    /// Returns the bytes of a block.
    pub(crate) const fn bytes(self) -> usize {
        FRAME_BYTES << self.0
    }
}
