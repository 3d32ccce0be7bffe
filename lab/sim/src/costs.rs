//! The cost table: picoseconds for each step of a simulated CPU.
//!
//! A table has a name, which results carry. The table that is checked in, `plans/costs/reference.toml`, was measured by
//! `freehold calibrate`. A table measured on another machine is given to `freehold sim --costs`. All entries are
//! integers, so the same table gives the same results everywhere.
//!
//! Beside these numbers, the simulation assumes:
//!
//! - An allocation or a free costs the same for every order, as long as a per-CPU list serves it.
//! - Under a zone lock, each insertion into a free list and each removal costs `link_ps`. Each block that leaves or
//!   joins a per-CPU list costs `block_ps` more. Holding the lock costs nothing else. In particular, the walk over the
//!   frames of a pageblock in claims, recalls and changes of type is free; only the blocks that it moves cost
//!   something.
//! - Four frames share a cache line of metadata. The line is at the CPU that touched it last. The next CPU to touch it
//!   pays `line_ps`, or `line_remote_ps` if it is on another node. The first touch of a line is free, and caches never
//!   fill up.
//! - A CPU that takes a lock which another CPU had last pays `lock_transfer_ps` (`lock_transfer_remote_ps` from another
//!   node) for the lock and the data it protects. Locks are taken in order of arrival; a trylock that fails pays for
//!   the access. The measured lock is a zone lock. Locks of per-CPU lists protect less data, but are charged the same.
//!   `pcp=owned` takes the list locks of other CPUs and `pcp=owned-remote` does not, so this assumption is unfavourable
//!   to `pcp=owned`.
//! - A CPU runs nothing but its workload: no interrupts, no scheduler. Once a second, while it works, it lets the
//!   limits of its per-CPU lists decay. [`background`](crate::background) describes the tasks beside the CPUs.
//! - `reclaim_ps`, `scan_ps`, `compact_scan_ps` and `migrate_ps` are estimates and were not measured. They stand for a
//!   walk along lists whose entries are not cached, a walk along metadata in order of address, and a copy of 4 KiB
//!   between cold pages, including the change of one page-table entry on all CPUs.

use serde::{Deserialize, Serialize};

/// Text of the table that is checked in.
const REFERENCE: &str = include_str!("../../../plans/costs/reference.toml");

/// A cost table. All costs are in picoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Name that results carry.
    pub name: String,
    /// An allocation from a filled per-CPU list, with its uncontended lock.
    pub alloc_ps: u64,
    /// A free to a per-CPU list that is not full, with its uncontended lock.
    pub free_ps: u64,
    /// Taking and releasing a zone lock that this CPU had last, plus the fixed part of the work under the lock.
    pub zone_lock_ps: u64,
    /// An insertion into a free list, or a removal from one, with the check for a buddy.
    pub link_ps: u64,
    /// Moving a block between a per-CPU list and the zone, besides links.
    pub block_ps: u64,
    /// One part that is split off a block on a per-CPU list.
    pub split_ps: u64,
    /// Examining a block of a per-CPU list, and merging it if its buddy is there too.
    pub merge_ps: u64,
    /// A push to another CPU's stack that this CPU touched last.
    pub push_ps: u64,
    /// Taking a stack that this CPU touched last.
    pub take_ps: u64,
    /// Moving a block from a stack to a list.
    pub absorb_ps: u64,
    /// A cache line that another CPU of the same node touched last.
    pub line_ps: u64,
    /// A cache line that a CPU of another node touched last.
    pub line_remote_ps: u64,
    /// A lock that another CPU of the same node had last, with the data it protects.
    pub lock_transfer_ps: u64,
    /// A lock that a CPU of another node had last, with the data it protects.
    pub lock_transfer_remote_ps: u64,
    /// Handing a parcel of blocks to another CPU, or receiving one: work of the workload itself.
    pub parcel_ps: u64,
    /// Selecting a page of the page cache and removing it, in reclaim.
    pub reclaim_ps: u64,
    /// Examining a page that stays, or an object that a shrinker may free.
    pub scan_ps: u64,
    /// Examining a frame, in compaction.
    pub compact_scan_ps: u64,
    /// Migrating a page: removing its entry, copying the page, and writing the entry anew.
    pub migrate_ps: u64,
}

impl Costs {
    /// Returns the table that is checked in.
    pub fn reference() -> Costs {
        Costs::parse(REFERENCE).expect("the reference table is valid")
    }

    /// Parses a table.
    ///
    /// # Errors
    /// Returns what is wrong with the text, and on which line.
    pub fn parse(text: &str) -> Result<Costs, toml::de::Error> {
        toml::from_str(text)
    }

    /// Returns a copy in which locks that move between CPUs cost `percent` percent. The name of the copy says so,
    /// unless `percent` is 100.
    pub fn with_lock_transfer_percent(&self, percent: u64) -> Costs {
        let mut costs = self.clone();
        if percent != 100 {
            costs.name = format!("{} with lock transfers at {percent} %", self.name);
            costs.lock_transfer_ps = self.lock_transfer_ps * percent / 100;
            costs.lock_transfer_remote_ps = self.lock_transfer_remote_ps * percent / 100;
        }
        costs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_costs_round_trip() {
        let costs = Costs::reference();
        assert!(costs.alloc_ps > 0 && costs.line_remote_ps >= costs.line_ps);
        assert_eq!(Costs::parse(&toml::to_string(&costs).unwrap()).unwrap(), costs);
    }

    #[test]
    fn unknown_cost_is_an_error() {
        assert!(Costs::parse(&format!("{REFERENCE}\nspeed_of_light_ps = 1\n")).is_err());
    }

    #[test]
    fn lock_transfer_percent_scales_only_locks() {
        let (once, twice) = (Costs::reference(), Costs::reference().with_lock_transfer_percent(200));
        assert_eq!(twice.lock_transfer_ps, 2 * once.lock_transfer_ps);
        assert_eq!(twice.line_ps, once.line_ps);
        assert_ne!(twice.name, once.name);
    }
}
