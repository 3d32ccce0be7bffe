//! Checks of a request against the limits of the system, before any memory is taken.

use freehold_report::room::{self, Need};
use rustix::process::{Resource, getrlimit};

use super::error::Error;
use super::exact::PIPE_PAGES;
use super::kind::Kind;
use super::page_set::{PAGE, PAGEBLOCK, PAGEBLOCK_PAGES, PageSet, totals};
use super::zones::Room;

/// Bytes of a MiB.
const MIB: u64 = 1 << 20;
/// Minimum number of pageblocks for which shares are meaningful.
pub(crate) const PAGEBLOCKS_MIN: u64 = 16;
/// Part of the memory that is needed in addition: page tables, pipes, sockets.
const BESIDE_PART: u64 = 16;
/// Files that are open in any case.
const FILES_ANYWAY: u64 = 64;

/// Pages that each kind is to hold.
type Shares = [(Kind, Vec<PageSet>)];

/// Refuses a request that exceeds free memory, the control group, or the limits of this process.
pub(crate) fn expect(shares: &Shares, room: &Room, plug: u64, files: Option<u64>) -> Result<(), Error> {
    let pageblocks: u64 = shares.iter().map(|(_, wanted)| wanted.len() as u64).sum();
    let asked = pageblocks * PAGEBLOCK as u64;
    let least = PAGEBLOCKS_MIN * PAGEBLOCK as u64;
    if asked < least {
        return Err(Error::TooSmall { asked: asked / MIB, least: least / MIB });
    }
    let plugged = plug * PAGE as u64;
    Room { pages: room.pages.saturating_sub(plug), ..*room }.expect(asked / PAGE as u64)?;
    let memory = asked + asked / BESIDE_PART + plugged;
    room::expect(&Need { memory, addresses: addresses(shares) + plug * PAGEBLOCK as u64 })?;
    expect_files(shares, files)?;
    expect_data(shares)
}

fn expect_files(shares: &Shares, limit: Option<u64>) -> Result<(), Error> {
    let needed = FILES_ANYWAY + shares.iter().map(|(kind, wanted)| files(*kind, wanted)).sum::<u64>();
    match limit {
        Some(limit) if needed > limit => Err(Error::Files { needed, limit }),
        _ => Ok(()),
    }
}

fn expect_data(shares: &Shares) -> Result<(), Error> {
    let needed = shares.iter().filter(|(kind, _)| kind.is_exact()).map(|(_, wanted)| bytes(wanted)).sum::<u64>();
    match getrlimit(Resource::Data).current {
        Some(limit) if needed > limit => Err(Error::Data { needed: needed / MIB, limit: limit / MIB }),
        _ => Ok(()),
    }
}

fn bytes(wanted: &[PageSet]) -> u64 {
    (wanted.len() * PAGEBLOCK) as u64
}

/// Returns the bytes of addresses that are mapped: those of pages that are placed by frame number, and a pageblock's
/// size for each page table. Pipes' temporary pages are page tables.
fn addresses(shares: &Shares) -> u64 {
    shares
        .iter()
        .map(|(kind, wanted)| match kind {
            Kind::Pins | Kind::Movable => bytes(wanted),
            Kind::Pipes | Kind::PageTables => bytes(wanted) * PAGEBLOCK_PAGES as u64,
            Kind::Sockets | Kind::Slab => 0,
        })
        .sum()
}

/// Returns the number of files that stay open.
fn files(kind: Kind, wanted: &[PageSet]) -> u64 {
    let (pageblocks, pages) = totals(wanted);
    match kind {
        Kind::Movable | Kind::PageTables => 0,
        // Pins that are renewed need at worst one pipe per pageblock.
        Kind::Pins => pages.div_ceil(PIPE_PAGES as u64) + pageblocks,
        Kind::Pipes => 2 * wanted.iter().map(|pages| pages.count().div_ceil(PIPE_PAGES) as u64).sum::<u64>(),
        Kind::Sockets | Kind::Slab => 2 * (pageblocks + wanted.len() as u64 / 32 + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_sets(pageblocks: usize) -> Vec<PageSet> {
        let mut one = PageSet::default();
        (0..300).for_each(|page| one.add(page));
        vec![one; pageblocks]
    }

    #[test]
    fn limit_error_contains_the_exceeded_limit() {
        let room = Room { pages: 1 << 15, floor: 1 << 14 };
        for (pageblocks, kind, files, expected) in [
            (15, Kind::Pins, None, "30 MiB are too little"),
            (65, Kind::Pins, None, "130 MiB are requested, but only 128 MiB are free"),
            (32, Kind::Pipes, Some(100), "about 192 files open, but the limit is 100"),
        ] {
            let error = expect(&[(kind, page_sets(pageblocks))], &room, 0, files).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn file_count_depends_on_the_kind() {
        assert_eq!(files(Kind::Pins, &page_sets(2)), 5);
        assert_eq!(files(Kind::Pipes, &page_sets(2)), 8);
        assert_eq!(files(Kind::Movable, &page_sets(2)), 0);
    }
}
