//! Free memory of the machine, and the part of it that is reserved for the machine.

use std::fs;
use std::thread;
use std::time::Duration;

use freehold_trace::facts::ZoneFacts;
use freehold_trace::procfs::{ZoneBlocks, parse_buddyinfo, parse_pagetypeinfo, parse_zoneinfo};
use serde::Serialize;

use super::error::Error;
use super::page_set::PAGE;

/// Order of a pageblock.
pub(crate) const PAGEBLOCK_ORDER: usize = 9;
/// Pages of a MiB.
const PAGES_PER_MIB: u64 = (1 << 20) / PAGE as u64;
/// Margin that is left to the machine beyond its watermarks: this part of memory, and its minimum in pages.
const MARGIN_PART: u64 = 64;
const MARGIN_LEAST: u64 = (64 << 20) / PAGE as u64;
/// Maximum number of checks whether page tables are still being freed, and the pause before each.
const SETTLE_LOOKS: u32 = 20;
const SETTLE_PAUSE: Duration = Duration::from_millis(100);

/// Free memory at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Free {
    /// Free pages.
    pub pages: u64,
    /// Free blocks of order 9 and above, counted in pageblocks.
    pub pageblocks: u64,
    /// Share of the free memory that is in blocks too small for order 9.
    pub unusable_free_index_order9: f64,
}

impl Free {
    /// Reads the current free memory.
    pub fn now() -> Result<Free, Error> {
        Ok(Free::sum(&parse_buddyinfo(&read("/proc/buddyinfo")?)?))
    }

    fn sum(zones: &[ZoneBlocks]) -> Free {
        let (mut pages, mut pageblocks) = (0, 0);
        for (order, count) in zones.iter().flat_map(|zone| zone.free.iter().enumerate()) {
            pages += count << order;
            if order >= PAGEBLOCK_ORDER {
                pageblocks += count << (order - PAGEBLOCK_ORDER);
            }
        }
        let unusable = 1.0 - (pageblocks << PAGEBLOCK_ORDER) as f64 / pages.max(1) as f64;
        Free { pages, pageblocks, unusable_free_index_order9: unusable }
    }
}

/// Pages that may be used, and pages that are left to the machine: high watermarks and a margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Free pages beyond the floor.
    pub pages: u64,
    /// Free pages that are always left.
    pub floor: u64,
}

impl Room {
    /// Computes the room from the current state of the machine.
    pub fn now() -> Result<Room, Error> {
        let floor = floor(&parse_zoneinfo(&read("/proc/zoneinfo")?)?, field("MemTotal:")?);
        Ok(Room { pages: free_pages()?.saturating_sub(floor), floor })
    }

    /// Refuses to use more pages than there are.
    ///
    /// # Errors
    /// Returns an error if fewer pages are available.
    pub fn expect(&self, pages: u64) -> Result<(), Error> {
        if pages <= self.pages {
            return Ok(());
        }
        Err(Error::TooMuch { asked: pages / PAGES_PER_MIB, room: self.pages / PAGES_PER_MIB })
    }
}

fn floor(zones: &[ZoneFacts], total: u64) -> u64 {
    let high: u64 = zones.iter().map(|zone| zone.high + zone.boost).sum();
    high + (total / MARGIN_PART).max(MARGIN_LEAST)
}

/// Returns the number of free pages, from the cheapest counter.
pub(crate) fn free_pages() -> Result<u64, Error> {
    field("MemFree:")
}

/// Returns the number of free pages in unmovable pageblocks that are not wholly free. The kernel allocates them before
/// it uses another pageblock.
pub(crate) fn unmovable_fragments() -> Result<u64, Error> {
    let types = parse_pagetypeinfo(&read("/proc/pagetypeinfo")?)?.types;
    let unmovable = types.iter().filter(|count| count.migratetype == freehold_trace::event::migratetype::UNMOVABLE);
    let small = unmovable.flat_map(|count| count.free.iter().enumerate().take(PAGEBLOCK_ORDER));
    Ok(small.map(|(order, count)| count << order).sum())
}

/// Returns the number of pages that were migrated since boot.
pub(crate) fn moved_pages() -> Result<u64, Error> {
    let text = read("/proc/vmstat")?;
    Ok(text.lines().find_map(|line| line.strip_prefix("pgmigrate_success ")?.trim().parse().ok()).unwrap_or(0))
}

/// Waits until unmapped page tables are free: the kernel frees them when no CPU uses them any more. Ends when their
/// number does not decrease between two checks, after two seconds at most.
pub(crate) fn settle() -> Result<(), Error> {
    let mut tables = field("PageTables:")?;
    for _ in 0..SETTLE_LOOKS {
        thread::sleep(SETTLE_PAUSE);
        let now = field("PageTables:")?;
        if now >= tables {
            break;
        }
        tables = now;
    }
    Ok(())
}

/// Returns a number of `/proc/meminfo`, in pages.
fn field(name: &str) -> Result<u64, Error> {
    let text = read("/proc/meminfo")?;
    let number = text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB")?.trim().parse().ok());
    Ok(number.unwrap_or(0_u64) * 1024 / PAGE as u64)
}

fn read(path: &'static str) -> Result<String, Error> {
    fs::read_to_string(path).map_err(Error::kernel(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_index_counts_blocks_below_order_9() {
        let mut blocks = vec![0; 11];
        (blocks[0], blocks[9], blocks[10]) = (512, 1, 1);
        let zone = ZoneBlocks { node: 0, zone: "Normal".to_owned(), free: blocks };
        assert_eq!(Free::sum(&[zone]), Free { pages: 2048, pageblocks: 3, unusable_free_index_order9: 0.25 });
        assert_eq!(Free::sum(&[]).pageblocks, 0);
    }

    #[test]
    fn floor_keeps_watermarks_and_a_margin() {
        let zone = ZoneFacts { high: 1000, boost: 24, ..ZoneFacts::default() };
        assert_eq!(floor(&[zone.clone(), zone.clone()], 1 << 20), 2048 + (1 << 14));
        assert_eq!(floor(&[zone], 1 << 10), 1024 + (1 << 14));
    }
}
