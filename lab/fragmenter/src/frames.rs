//! Frames of the pages of a mapping, and the pageblocks that a mapping has completely.
//!
//! A huge page is a whole pageblock. If the kernel gave no huge pages, small pages are sorted by frame, which finds the
//! pageblocks that they form.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::error::Error;
use super::page_set::PAGEBLOCK_PAGES;
use super::region::Region;

/// File of the kernel.
const PAGEMAP: &str = "/proc/self/pagemap";
/// Bytes of an entry, the mask of the frame number, and the bit for a present page.
const ENTRY_BYTES: usize = 8;
const FRAME: u64 = (1 << 55) - 1;
const PRESENT: u64 = 1 << 63;

/// A pageblock all of whose frames belong to a mapping.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    /// Page of the mapping in each of its frames, in order.
    pub pages: Vec<usize>,
}

/// The kernel's page map of this process.
#[derive(Debug)]
pub(crate) struct Pagemap(File);

impl Pagemap {
    /// Opens the page map.
    pub(crate) fn open() -> Result<Pagemap, Error> {
        File::open(PAGEMAP).map(Pagemap).map_err(Error::kernel(PAGEMAP))
    }

    /// Returns the frame of each page of a region; `None` for pages that are not present.
    pub(crate) fn frames(&self, region: &Region) -> Result<Vec<Option<u64>>, Error> {
        let mut bytes = vec![0; region.pageblocks() * PAGEBLOCK_PAGES * ENTRY_BYTES];
        let offset = region.first_page() * ENTRY_BYTES;
        self.0.read_exact_at(&mut bytes, offset as u64).map_err(Error::kernel(PAGEMAP))?;
        Ok(bytes
            .chunks_exact(ENTRY_BYTES)
            .map(|entry| frame(u64::from_le_bytes(entry.try_into().expect("a chunk has 8 bytes"))))
            .collect())
    }

    /// Returns the pageblocks of which a region has all frames, in order.
    pub(crate) fn whole(&self, region: &Region) -> Result<Vec<Whole>, Error> {
        let frames = self.frames(region)?;
        let mut placed: Vec<(u64, usize)> =
            frames.iter().enumerate().filter_map(|(page, frame)| Some(((*frame)?, page))).collect();
        placed.sort_unstable();
        Ok(whole(&placed))
    }
}

fn frame(entry: u64) -> Option<u64> {
    let frame = entry & FRAME;
    (entry & PRESENT != 0 && frame != 0).then_some(frame)
}

/// Returns the pageblocks of which all frames are among these sorted frames.
fn whole(placed: &[(u64, usize)]) -> Vec<Whole> {
    let together = placed.chunk_by(|(one, _), (next, _)| one / PAGEBLOCK_PAGES as u64 == next / PAGEBLOCK_PAGES as u64);
    let all = together.filter(|chunk| chunk.len() == PAGEBLOCK_PAGES);
    all.map(|chunk| Whole { pages: chunk.iter().map(|(_, page)| *page).collect() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pagemap_entry_yields_a_present_frame() {
        assert_eq!([frame(PRESENT | 7), frame(7), frame(PRESENT), frame(1 << 62 | 9)], [Some(7), None, None, None]);
    }

    #[test]
    fn whole_pageblocks_are_found_in_any_page_order() {
        let mut placed: Vec<(u64, usize)> = (0..512).map(|page| (1024 + page, 900 - page as usize)).collect();
        placed.extend((0..511).map(|page| (2048 + page, page as usize)));
        placed.sort_unstable();
        let found = whole(&placed);
        assert_eq!((found.len(), found[0].pages[0], found[0].pages[511]), (1, 900, 389));
    }
}
