//! The cost table: what the steps of a simulated CPU take, in picoseconds.
//!
//! A table has a name that results carry. The one that is checked in, `plans/costs/reference.toml`, was measured by
//! `freehold calibrate`; another can be measured on another machine and given to `freehold sim --costs`. All entries
//! are integers, so the same table gives the same results everywhere.
//!
//! What the simulation takes for granted beside these numbers:
//!
//! - An allocation or a free costs the same whatever its order, as long as a per-CPU list serves it.
//! - Under a zone lock, every insertion into a free list and removal from one costs `link_ps`, and every block that
//!   leaves or joins a per-CPU list `block_ps` more. Holding the lock costs nothing else: to walk the frames of a
//!   pageblock there, as claims, recalls and changes of its type do, costs nothing, only what is found and moved does.
//! - Four frames share a cache line of metadata. It is where it was touched last; who touches it next from elsewhere
//!   pays `line_ps`, or `line_remote_ps` from another node. A line that nobody has touched yet costs nothing, and
//!   caches never run full.
//! - Who takes a lock that another CPU had last pays `lock_transfer_ps` (`lock_transfer_remote_ps` from another node)
//!   for the lock and for what it protects. Locks are taken in order of arrival; a trylock that fails pays for looking.
//!   What was measured is a zone lock; locks of per-CPU lists, which protect less, are charged the same. `pcp=owned`
//!   takes those of other CPUs and `pcp=owned-remote` does not, so this speaks against the former.
//! - A CPU has nothing to do but its workload: no interrupts, no scheduler. Once a second, while it works, it lets
//!   limits of per-CPU lists decay. What runs beside the CPUs is said in [`background`](crate::background).
//! - `reclaim_ps`, `scan_ps`, `compact_scan_ps` and `migrate_ps` are estimates, not measured: a walk along lists whose
//!   entries are not in any cache, one along metadata in order of address, and a copy of 4 KiB between cold pages with
//!   what it takes to change one entry on other CPUs too.

use serde::{Deserialize, Serialize};

/// The table that is checked in.
const REFERENCE: &str = include_str!("../../../plans/costs/reference.toml");

/// A cost table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// The name that results carry.
    pub name: String,
    /// An allocation from a filled per-CPU list, with its lock, which nobody else wanted.
    pub alloc_ps: u64,
    /// A free to a per-CPU list that is not full, likewise.
    pub free_ps: u64,
    /// Taking and giving back a zone lock that this CPU had last, and what is done there for any number of blocks.
    pub zone_lock_ps: u64,
    /// An insertion into a free list, or a removal from one, with the check for a buddy.
    pub link_ps: u64,
    /// Moving a block between a per-CPU list and the zone, besides links.
    pub block_ps: u64,
    /// A part that is cut off a block on a per-CPU list.
    pub split_ps: u64,
    /// A block of a per-CPU list that is looked at, and merged if its buddy is there too.
    pub merge_ps: u64,
    /// A push to another CPU's stack, which this CPU touched last.
    pub push_ps: u64,
    /// Taking a stack, which this CPU touched last.
    pub take_ps: u64,
    /// Bringing a block from a stack to a list.
    pub absorb_ps: u64,
    /// A cache line that another CPU of the same node touched last.
    pub line_ps: u64,
    /// A cache line that a CPU of another node touched last.
    pub line_remote_ps: u64,
    /// A lock that another CPU of the same node had last, with what it protects.
    pub lock_transfer_ps: u64,
    /// A lock that a CPU of another node had last.
    pub lock_transfer_remote_ps: u64,
    /// Handing a parcel of blocks to another CPU, or taking one: the workload's own doing.
    pub parcel_ps: u64,
    /// Choosing a page of the page cache and taking it out, in reclaim.
    pub reclaim_ps: u64,
    /// Looking at a page that stays, or at an object that a shrinker may give up.
    pub scan_ps: u64,
    /// Looking at a frame, in compaction.
    pub compact_scan_ps: u64,
    /// Moving a page: its entry is taken away, the page copied, the entry written anew.
    pub migrate_ps: u64,
}

impl Costs {
    /// The table that is checked in.
    pub fn reference() -> Costs {
        Costs::parse(REFERENCE).expect("the reference table is checked by a test")
    }

    /// Reads a table.
    ///
    /// # Errors
    /// What is wrong with it, and on which line.
    pub fn parse(text: &str) -> Result<Costs, toml::de::Error> {
        toml::from_str(text)
    }

    /// The same table with locks that move between CPUs at so many percent of the cost. Its name says so.
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
    fn the_reference_table_is_whole() {
        let costs = Costs::reference();
        assert!(costs.alloc_ps > 0 && costs.line_remote_ps >= costs.line_ps);
        assert_eq!(Costs::parse(&toml::to_string(&costs).unwrap()).unwrap(), costs);
    }

    #[test]
    fn an_unknown_cost_is_refused() {
        assert!(Costs::parse(&format!("{REFERENCE}\nspeed_of_light_ps = 1\n")).is_err());
    }

    #[test]
    fn only_locks_are_scaled() {
        let (once, twice) = (Costs::reference(), Costs::reference().with_lock_transfer_percent(200));
        assert_eq!(twice.lock_transfer_ps, 2 * once.lock_transfer_ps);
        assert_eq!(twice.line_ps, once.line_ps);
        assert_ne!(twice.name, once.name);
    }
}
