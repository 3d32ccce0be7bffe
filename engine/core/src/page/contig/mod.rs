//! Ranges of neighbouring frames: taken by name from wherever they are, and given back together.
//!
//! A range is allocated against the grain of the allocator, which hands out whatever block comes first. So it is
//! done in steps, each of which can be undone:
//!
//! ```text
//! range      is it one range of one zone, with nothing in it that must stay?     nothing has changed yet
//! isolation  its pageblocks leave circulation: what is freed there stays there    undone when dropped
//! vacate     the platform moves what is in the way; a few rounds                  what moved has moved
//! isolate    under the zone lock: all of it is free now, or none of it is taken
//! ```
//!
//! `free` is the way back: every page of the range is checked, then neighbours go to the free lists as the largest
//! blocks that fit. `search` finds a range when any will do; `cma` hands out ranges of an area that was set
//! aside at boot and is lent to movable pages meanwhile.
//!
//! What a range is made of follows from how it is referred to. Pages with references are single pages, since each has a
//! count of its own. A frozen range has nothing to count, so it is made of the largest blocks that fit, and costs no
//! step a page on either way; `split` lets any part of it be given back all the same. A compound range is one block,
//! or, above [`Order::MAX`](crate::base::Order::MAX), which the free lists do not know, a row of blocks of that order.
//!
//! linux: mm/page_alloc.c:alloc_contig_range_noprof, alloc_contig_pages_noprof, free_contig_range; mm/page_isolation.c;
//! mm/cma.c

mod alloc;
mod cma;
mod free;
mod range;
mod search;
mod split;
mod vacate;

pub use cma::{CmaArea, CmaError};
pub(super) use free::{RANGE_ORDER_MIN, Terms};
pub(super) use range::Purpose;
