//! Per-CPU lists, which serve most requests and frees under a lock that no other CPU normally takes.
//!
//! A CPU has fourteen lists of free blocks for each zone: one for each of three types and the orders 0 to 3, and two of
//! pageblock order for huge pages. A request takes the first block of a list, and a free puts its block at the head. An
//! empty list is refilled from the zone (`refill`). A full list is drained from its tail (`drain`), and an idle list
//! shrinks over time (`decay` in `drain`). A block on a list is not free from the zone's point of view.
//!
//! Under the policies that own pageblocks, a list takes large parts of pageblocks, and its CPU owns these pageblocks
//! (`owned`). A freed page of an owned pageblock is returned to the owner's lists or stack (`remote_frees`). A
//! pageblock that becomes whole there is given back as one block. These policies have lists for the orders between as
//! well.
//!
//! Locking: everything in [`PcpLists`](super::PcpLists) is protected by the lists' own lock, of rank Pcp. A CPU only
//! *tries* its lock, and if that fails uses the zone or its own stack. A drain from another CPU waits for the lock. The
//! stack needs no lock. The lists themselves are in `percpu`, and `zone` provides the blocks.
//!
//! linux: mm/page_alloc.c:rmqueue_pcplist, free_unref_page
//!
//! # Design
//!
//! Per-CPU lists are linked from their first block on. An array of the newest fifteen blocks in front of the links was
//! built and removed again. It saved a tenth of the instructions of an allocation and its free, and no time, and each
//! merging drain had to link the whole array first.

mod drain;
mod locked;
mod merge;
mod owned;
mod refill;
mod remote_frees;
