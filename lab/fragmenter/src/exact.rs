//! Kinds that are placed page by page: a task's pages, held by pipes or by nothing.
//!
//! Memory is mapped and written until this process has as many whole pageblocks as requested; most of them are huge
//! pages. Pageblocks that are to hold pages are split. The wanted pages of each are put into pipes by `vmsplice`: a
//! pipe has a reference to its pages, so neither compaction nor reclaim can take them. Then everything is unmapped. The
//! pinned single pages remain, in pageblocks that are otherwise free. Movable pages stay mapped instead.
//!
//! linux: fs/splice.c:iter_to_pipe, mm/compaction.c:isolate_migratepages_block

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use super::census::Reader;
use super::error::Error;
use super::frames::{Pagemap, Whole};
use super::guard::Guard;
use super::kind::Kind;
use super::page_set::{PAGE, PAGEBLOCK_PAGES, PageSet};
use super::region::{Access, Region};

/// Pages that a pipe holds: the maximum that the kernel allows without privileges.
pub(crate) const PIPE_PAGES: usize = 256;
/// Maximum number of mappings that are tried until there are enough whole pageblocks, each twice as large as the one
/// before: small pages first fill the holes of other pageblocks.
const ROUNDS: usize = 8;

/// Pinned pages of one pipe, and their frames.
#[derive(Debug)]
pub(crate) struct PinnedPipe {
    /// Read end of the pipe. The pages are pinned until it is closed.
    _pipe: OwnedFd,
    /// Frames of the pages.
    frames: Vec<u64>,
}

/// Pages that are held, and memory that is mapped temporarily.
#[derive(Debug, Default)]
pub(crate) struct Exact {
    /// Pages in pipes, from the oldest to the newest.
    pinned: VecDeque<PinnedPipe>,
    /// Pages that are held beyond the requested number.
    surplus: usize,
    /// Mappings whose wanted pages stay, and the original frames of these pages.
    kept: Vec<(Region, Vec<(usize, u64)>)>,
    /// Mappings that will be freed.
    rest: Vec<(Region, Vec<Whole>)>,
    /// Whole pageblocks that this process had.
    pub pageblocks: u64,
}

impl Exact {
    /// Takes one whole pageblock for each set, as far as they are available, and holds the wanted pages of each. Fails
    /// if no whole pageblock is available, or if the guard stops the program.
    pub(crate) fn place(kind: Kind, wanted: &[PageSet], flags: &Reader, guard: &mut Guard<'_>) -> Result<Exact, Error> {
        let pagemap = Pagemap::open()?;
        let mut exact = Exact::default();
        for round in 0..ROUNDS {
            let missing = &wanted[exact.pageblocks as usize..];
            let pageblocks = missing.len() << round;
            if missing.is_empty() || round > 0 && !guard.has_room((pageblocks * PAGEBLOCK_PAGES) as u64)? {
                break;
            }
            let region = map_written(pageblocks, guard)?;
            let whole = pagemap.whole(&region)?;
            exact.pageblocks += whole.len().min(missing.len()) as u64;
            let wishes: Vec<(&Whole, &PageSet)> = whole.iter().zip(missing).filter(|(_, w)| w.count() > 0).collect();
            split(&region, &wishes, flags, &pagemap)?;
            match kind {
                Kind::Movable => exact.keep(region, &wishes, &pagemap)?,
                _ => exact.pin(region, &wishes, &pagemap)?,
            }
            guard.check()?;
        }
        if exact.pageblocks == 0 && !wanted.is_empty() {
            return Err(Error::NothingWhole);
        }
        Ok(exact)
    }

    /// Puts the wanted pages into pipes.
    fn pin(&mut self, region: Region, wishes: &[(&Whole, &PageSet)], pagemap: &Pagemap) -> Result<(), Error> {
        let pages: Vec<usize> = pages(wishes).collect();
        let pipes: Vec<OwnedFd> =
            pages.chunks(PIPE_PAGES).map(|pages| hold_by_pipe(&region, pages)).collect::<Result<_, _>>()?;
        // Pages may have been migrated until they were pinned, and stay in their frames from then on.
        let frames = pagemap.frames(&region)?;
        for (_pipe, pages) in pipes.into_iter().zip(pages.chunks(PIPE_PAGES)) {
            let frames = pages.iter().filter_map(|page| frames[*page]).collect();
            self.pinned.push_back(PinnedPipe { _pipe, frames });
        }
        let held: Vec<Whole> = wishes.iter().map(|(whole, _)| (*whole).clone()).collect();
        self.rest.push((region, held));
        Ok(())
    }

    /// Leaves the wanted pages mapped, and frees all others.
    fn keep(&mut self, region: Region, wishes: &[(&Whole, &PageSet)], pagemap: &Pagemap) -> Result<(), Error> {
        let mut stays = vec![false; region.pageblocks() * PAGEBLOCK_PAGES];
        pages(wishes).for_each(|page| stays[page] = true);
        let frames = pagemap.frames(&region)?;
        let placed = pages(wishes).filter_map(|page| Some((page, frames[page]?))).collect();
        region.keep_small().map_err(Error::refused("prevent huge pages"))?;
        let mut page = 0;
        for run in stays.chunk_by(|one, next| one == next) {
            if !run[0] {
                region.give_back(page, run.len()).map_err(Error::refused("free pages"))?;
            }
            page += run.len();
        }
        self.kept.push((region, placed));
        Ok(())
    }

    /// Frees the pages that are not held: first around the held pages, then the remaining pageblocks. In this order few
    /// pages of whole pageblocks are left on per-CPU lists.
    pub(crate) fn release(&mut self) -> Result<(), Error> {
        for (region, held) in self.rest.drain(..) {
            for page in held.iter().flat_map(|whole| &whole.pages) {
                region.give_back(*page, 1).map_err(Error::refused("free pages"))?;
            }
        }
        Ok(())
    }

    /// Holds the wanted pages of other pageblocks, and frees at most as many of the oldest pages, pipe by pipe. Returns
    /// the number of pageblocks that were taken.
    pub(crate) fn renew(&mut self, wanted: &[PageSet], flags: &Reader, guard: &mut Guard<'_>) -> Result<u64, Error> {
        let mut new = Exact::place(Kind::Pins, wanted, flags, guard)?;
        new.release()?;
        self.surplus += new.pinned.iter().map(|pinned| pinned.frames.len()).sum::<usize>();
        self.pinned.append(&mut new.pinned);
        while let Some(oldest) = self.pinned.front().filter(|oldest| oldest.frames.len() <= self.surplus) {
            self.surplus -= oldest.frames.len();
            self.pinned.pop_front();
        }
        Ok(new.pageblocks)
    }

    /// Returns the frames of held pages; for mapped pages their original frames.
    pub(crate) fn frames(&self) -> impl Iterator<Item = u64> {
        let mapped = self.kept.iter().flat_map(|(_, placed)| placed.iter().map(|(_, frame)| *frame));
        self.pinned.iter().flat_map(|pinned| pinned.frames.iter().copied()).chain(mapped)
    }

    /// Returns how many of the mapped pages have not been moved.
    pub(crate) fn staying(&self) -> Result<usize, Error> {
        let pagemap = Pagemap::open()?;
        let mut staying = 0;
        for (region, placed) in &self.kept {
            let frames = pagemap.frames(region)?;
            staying += placed.iter().filter(|(page, frame)| frames[*page] == Some(*frame)).count();
        }
        Ok(staying)
    }
}

/// Returns the wanted pages of the mapping.
fn pages(wishes: &[(&Whole, &PageSet)]) -> impl Iterator<Item = usize> {
    wishes.iter().flat_map(|(whole, wanted)| wanted.pages().map(|page| whole.pages[page]))
}

/// Maps pageblocks and writes to all of their pages.
fn map_written(pageblocks: usize, guard: &mut Guard<'_>) -> Result<Region, Error> {
    let region = Region::map(pageblocks, Access::Written).map_err(Error::refused("map memory"))?;
    for pageblock in 0..pageblocks {
        guard.took(PAGEBLOCK_PAGES as u64)?;
        region.write(pageblock * PAGEBLOCK_PAGES, PAGEBLOCK_PAGES).map_err(Error::refused("allocate memory"))?;
    }
    Ok(region)
}

/// Splits the huge pages of which some pages are to be held.
fn split(region: &Region, wishes: &[(&Whole, &PageSet)], flags: &Reader, pagemap: &Pagemap) -> Result<(), Error> {
    for (whole, _) in wishes {
        region.split(whole.pages[0]).map_err(Error::refused("split a huge page"))?;
    }
    let frames = pagemap.frames(region)?;
    for (whole, _) in wishes {
        if let Some(frame) = frames[whole.pages[0]]
            && flags.is_compound(frame)?
        {
            return Err(Error::refused("split a huge page")(Errno::BUSY));
        }
    }
    Ok(())
}

/// Opens a pipe and puts these pages into it.
fn hold_by_pipe(region: &Region, pages: &[usize]) -> Result<OwnedFd, Error> {
    let (from, to) = pipe_with(PipeFlags::CLOEXEC).map_err(Error::refused("open a pipe"))?;
    fcntl_setpipe_size(&to, PIPE_PAGES * PAGE).map_err(Error::refused("enlarge a pipe"))?;
    let mut done = 0;
    while done < pages.len() {
        done += region.splice(&pages[done..], to.as_fd()).map_err(Error::refused("hold pages in a pipe"))?;
    }
    Ok(from)
}
