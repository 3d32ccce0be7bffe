//! Carving arrays out of memory that the caller hands in: the engine's only way to get memory for itself.

use core::alloc::Layout;
use core::mem::MaybeUninit;

/// Sums up the layouts of arrays that will be carved one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct Plan(Layout);

impl Plan {
    /// Nothing yet.
    pub const EMPTY: Plan = Plan(Layout::new::<()>());

    /// Adds an array of `len` values; `None` if the sum leaves the address space.
    pub fn array<T>(self, len: usize) -> Option<Plan> {
        let array = Layout::array::<T>(len).ok()?;
        let (sum, _) = self.0.extend(array).ok()?;
        Some(Plan(sum))
    }

    /// Size and alignment of it all.
    pub fn layout(self) -> Layout {
        self.0.pad_to_align()
    }
}

/// What is left of the caller's memory.
#[derive(Debug)]
pub struct Carver<'m> {
    rest: &'m mut [MaybeUninit<u8>],
}

impl<'m> Carver<'m> {
    /// Starts carving.
    pub fn new(memory: &'m mut [MaybeUninit<u8>]) -> Carver<'m> {
        Carver { rest: memory }
    }

    /// Cuts off an array of `len` values, each made by `make` from its index. `None`, and nothing cut, if the
    /// rest is too small.
    pub fn array<T: 'm>(&mut self, len: usize, mut make: impl FnMut(usize) -> T) -> Option<&'m mut [T]> {
        let skip = self.rest.as_ptr().align_offset(align_of::<T>());
        let bytes = size_of::<T>().checked_mul(len)?;
        if skip.checked_add(bytes)? > self.rest.len() {
            return None;
        }
        let (_, rest) = core::mem::take(&mut self.rest).split_at_mut(skip);
        let (mine, rest) = rest.split_at_mut(bytes);
        self.rest = rest;
        let start = mine.as_mut_ptr().cast::<T>();
        for index in 0..len {
            // SAFETY: `mine` is aligned for T (skipped to it), has room for `len` of them, and is ours for 'm.
            unsafe { start.add(index).write(make(index)) };
        }
        // SAFETY: all `len` values were just written, and `mine` is borrowed for 'm exclusively.
        Some(unsafe { core::slice::from_raw_parts_mut(start, len) })
    }
}
