//! Ranges of contiguous frames: allocated by their numbers, wherever they are, and freed together.
//!
//! The buddy lists return any free block, but a range must consist of certain frames. It is therefore allocated in
//! steps, each of which can be undone, with the help of `isolation`, `migrate` and `zone`:
//!
//! ```text
//! range      checks that the range is in one zone and has no unmovable block          nothing has changed yet
//! isolation  isolates the pageblocks: pages that are freed there stay there           undone when dropped
//! vacate     the platform migrates the blocks in the range, in a few rounds           migrated blocks stay migrated
//! isolate    under the zone lock: takes the range if all of it is free, else nothing
//! ```
//!
//! `free` does the reverse: every page of the range is checked, and adjacent pages are put on the free lists as the
//! largest blocks that fit. `search` finds a range if any range will do, by a `scan` of a zone. `cma` allocates ranges
//! of an area that is reserved at boot and lent to movable pages meanwhile, by a scan of the area.
//!
//! The blocks of a range depend on its references. Pages with references are single pages, because each has a count of
//! its own. A frozen range has no counts, so it consists of the largest blocks that fit, and neither its allocation nor
//! its free takes a step per page; `split` nevertheless lets any part of it be freed. A compound range is one block. If
//! it is larger than [`Order::MAX`](crate::base::Order::MAX), the largest order of the free lists, it is a row of
//! blocks of that order.
//!
//! linux: mm/page_alloc.c:alloc_contig_range_noprof, alloc_contig_pages_noprof, free_contig_range; mm/page_isolation.c;
//! mm/cma.c

mod alloc;
mod cma;
mod free;
mod range;
mod scan;
mod search;
mod split;
mod vacate;

pub use cma::{CmaArea, CmaError};
pub(super) use free::{RANGE_ORDER_MIN, Terms};
pub(super) use range::Purpose;
pub use search::Placement;
