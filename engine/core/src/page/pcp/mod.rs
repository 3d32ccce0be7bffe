//! Per-CPU lists: where most requests begin and end, under a lock that nobody else wants.
//!
//! A CPU has, for each zone, fourteen lists of free blocks: orders 0 to 3 for each of the three types that have
//! lists, and two of pageblock order, for huge pages. A request takes the head of a list; a free puts its block at
//! the head. An empty list is filled from the zone (`refill`), a full one gives back from its tails
//! (`drain`), an idle one shrinks with time (`decay` in `drain`). Lists hold pages, not zones: a block on a list
//! is not free in the eyes of the zone.
//!
//! Under the policies that own pageblocks, a list takes large parts and its CPU owns the pageblocks (`owned`): a free
//! of one of their pages goes home, to the owner's lists or onto the owner's stack (`home`), and what merges there to a
//! whole pageblock goes back as one. Then there are lists for the orders between as well.
//!
//! What protects what: everything in [`PcpLists`](super::PcpLists) stands under the list's own lock, of rank Pcp. A CPU
//! only ever *tries* its lock and goes to the zone, or to its own stack, if that fails; a drain of another CPU waits for
//! it. The stack needs none.
//!
//! linux: mm/page_alloc.c:rmqueue_pcplist, free_unref_page

mod drain;
mod home;
mod locked;
mod merge;
mod owned;
mod refill;
