//! All mistakes with ranges. The error names the first wrong frame and its state, and the machine is unchanged.

mod alloc;
mod areas;
mod faults;
mod free;
mod poison;

use freehold::base::Pfn;
use freehold::page::RangeError;

fn empty_at(pfn: u32) -> RangeError {
    RangeError::Empty { start: Pfn::new(pfn) }
}

fn out_of_range(pfn: u32) -> RangeError {
    RangeError::OutOfRange { pfn: Pfn::new(pfn) }
}

fn misaligned(pfn: u32, pages: u32) -> RangeError {
    RangeError::Misaligned { pfn: Pfn::new(pfn), pages }
}
