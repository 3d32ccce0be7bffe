//! Per-CPU lists, which serve most requests and frees under a lock that no other CPU normally takes.
//!
//! A CPU has fourteen lists of free blocks for each zone: one for each of three types and the orders 0 to 3, and two of
//! pageblock order for huge pages. A request takes the first block of a list, and a free puts its block at the head. An
//! empty list is refilled from the zone (`refill`). A full list is drained from its tail (`drain`), and an idle list
//! shrinks over time (`decay` in `drain`). A block on a list is not free from the zone's point of view.
//!
//! Under the policies in which CPUs own pageblocks, a list takes large parts of pageblocks, and its CPU owns these
//! pageblocks (`owned`). A freed page of an owned pageblock is returned to the owner's lists or stack (`remote_frees`).
//! A pageblock that becomes whole there is given back as one block. These policies have lists for the orders between as
//! well.
//!
//! Locking: everything in [`PcpLists`](super::PcpLists) is protected by the lists' own lock, of rank Pcp. A CPU only
//! *tries* its own lock. If the lock is taken, the request uses the zone; under `pcp=owned-remote` a free may use the
//! CPU's stack. A drain from another CPU waits for the lock. The stack needs no lock. The lists themselves are in
//! `percpu`, and `zone` provides the blocks.
//!
//! linux: mm/page_alloc.c:rmqueue_pcplist, free_unref_page
//!
//! # Design
//!
//! Per-CPU lists are linked from their first block on. An array of the newest fifteen blocks in front of the links was
//! built and removed again. It saved a tenth of the instructions of an allocation and its free, and no time, and each
//! merging drain had to link the whole array first.
//!
//! Four other changes were built, measured and removed again:
//!
//! - A ring of 64 single pages in front of the links, whose older half is linked when the ring is full. Pairs of
//!   allocation and free, and frees in order, became slower. Frees in random order did not change.
//! - Sorting the blocks of a drain by frame number, 256 at a time, before they are merged. Frees became slower, in order
//!   and at random, since few pages of a drain are adjacent.
//! - Looking up the zone, the type and the lists of a free before its atomic step instead of after it. No change.
//! - A prefetch of the links at the start of a free. No change beyond noise.

mod drain;
mod locked;
mod merge;
mod owned;
mod refill;
mod remote_frees;
