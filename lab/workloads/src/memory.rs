//! Loads on anonymous memory and files in memory: hogs, and memory with many holes.

use std::fs::File;
use std::io::{self, Write};

use memmap2::{Advice, MmapMut};
use rustix::fs::{FallocateFlags, MemfdFlags};

use crate::command;
use crate::pages::Pages;

/// Bytes in a page of the recorded machines.
const PAGE: usize = 4096;
/// Bytes of a hog's piece: one pageblock.
const PIECE: usize = 2 << 20;
/// Bytes in a MiB.
const MIB: usize = 1 << 20;

/// Maps `mib` MiB in pieces and touches every page; unmaps every other piece; maps and touches as many again.
pub(crate) fn hog(mib: usize, pages: Pages) -> io::Result<()> {
    let mut pieces = Vec::new();
    for _ in 0..mib * MIB / PIECE {
        pieces.push(map_touched(pages)?);
    }
    let whole = pieces.len();
    let mut number = 0;
    pieces.retain(|_| {
        number += 1;
        number % 2 == 0
    });
    while pieces.len() < whole {
        pieces.push(map_touched(pages)?);
    }
    Ok(())
}

/// Maps one piece and writes to every page of it.
fn map_touched(pages: Pages) -> io::Result<MmapMut> {
    // The mapping has twice the size, so that it contains one aligned piece wherever it begins.
    let mut map = MmapMut::map_anon(2 * PIECE)?;
    map.advise(match pages {
        Pages::Small => Advice::NoHugePage,
        Pages::Huge => Advice::HugePage,
    })?;
    let start = map.as_ptr().align_offset(PIECE);
    for page in map[start..start + PIECE].chunks_mut(PAGE) {
        page[0] = 1;
    }
    Ok(map)
}

/// Fills a file in memory, frees all but the first `keep` pages of each group of `out_of`, and runs `command` while the
/// others stay.
pub(crate) fn holes(mib: usize, keep: usize, out_of: usize, command: &[String]) -> io::Result<()> {
    let mut file = File::from(rustix::fs::memfd_create("holes", MemfdFlags::CLOEXEC)?);
    let block = vec![1_u8; MIB];
    for _ in 0..mib {
        file.write_all(&block)?;
    }
    let group = out_of * PAGE;
    for start in (0..mib * MIB).step_by(group) {
        let hole = start + keep * PAGE;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, flags, hole as u64, (group - keep * PAGE) as u64)?;
    }
    command::run(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hog_touches_and_unmaps_its_memory() {
        hog(4, Pages::Small).unwrap();
        let map = map_touched(Pages::Huge).unwrap();
        assert_eq!(map.iter().filter(|byte| **byte == 1).count(), PIECE / PAGE);
    }

    #[test]
    fn holes_passes_on_the_command_failure() {
        holes(1, 3, 4, &["true".to_owned()]).unwrap();
        assert!(holes(1, 3, 4, &["false".to_owned()]).is_err());
    }
}
