//! Kinds that are placed page by page: a task's pages, held by pipes or by nothing.
//!
//! Memory is mapped and written to until as many pageblocks are ours as a whole as are worked on; mostly they come as
//! huge pages. Those that are to hold something are split. The wanted pages of each go into pipes, by `vmsplice`: a
//! pipe has a reference to its pages, with which neither compaction nor reclaim takes them. Then everything is
//! unmapped, and what stays are single pages in pageblocks that are free otherwise. Movable pages stay mapped instead.
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

/// Pages that a pipe holds: as many as the kernel lets anybody have.
pub(crate) const PIPE_PAGES: usize = 256;
/// How often memory is mapped because too few pageblocks were ours, each time twice as much: small pages fill the holes
/// of other pageblocks first.
const ROUNDS: usize = 8;

/// Pages of one pipe, and the pageblocks that they lie in.
#[derive(Debug)]
pub(crate) struct PinnedPipe {
    /// The end that is read from. The pages live as long as it.
    _pipe: OwnedFd,
    /// The frames.
    frames: Vec<u64>,
}

/// What is held, and what is mapped for the time being.
#[derive(Debug, Default)]
pub(crate) struct Exact {
    /// Pages in pipes, from the oldest to the newest.
    pinned: VecDeque<PinnedPipe>,
    /// Pages that are held beyond those that were ordered.
    surplus: usize,
    /// Mappings whose wanted pages stay, and where these were at first.
    kept: Vec<(Region, Vec<(usize, u64)>)>,
    /// Mappings that go.
    rest: Vec<(Region, Vec<Whole>)>,
    /// Pageblocks that were ours as a whole.
    pub pageblocks: u64,
}

impl Exact {
    /// Takes as many pageblocks as there are wishes, as far as they can be had, and holds the wanted pages of each.
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
        // A page may have been moved until it was held, and stays where it is from then on.
        let frames = pagemap.frames(&region)?;
        for (_pipe, pages) in pipes.into_iter().zip(pages.chunks(PIPE_PAGES)) {
            let frames = pages.iter().filter_map(|page| frames[*page]).collect();
            self.pinned.push_back(PinnedPipe { _pipe, frames });
        }
        let held: Vec<Whole> = wishes.iter().map(|(whole, _)| (*whole).clone()).collect();
        self.rest.push((region, held));
        Ok(())
    }

    /// Leaves the wanted pages mapped, and gives all others back.
    fn keep(&mut self, region: Region, wishes: &[(&Whole, &PageSet)], pagemap: &Pagemap) -> Result<(), Error> {
        let mut stays = vec![false; region.pageblocks() * PAGEBLOCK_PAGES];
        pages(wishes).for_each(|page| stays[page] = true);
        let frames = pagemap.frames(&region)?;
        let placed = pages(wishes).filter_map(|page| Some((page, frames[page]?))).collect();
        region.keep_small().map_err(Error::refused("keep pages small"))?;
        let mut page = 0;
        for run in stays.chunk_by(|one, next| one == next) {
            if !run[0] {
                region.give_back(page, run.len()).map_err(Error::refused("give pages back"))?;
            }
            page += run.len();
        }
        self.kept.push((region, placed));
        Ok(())
    }

    /// Gives back what is not held: first around the held pages, then whole pageblocks, so that few of those wait on
    /// the list of a CPU in the end.
    pub(crate) fn release(&mut self) -> Result<(), Error> {
        for (region, held) in self.rest.drain(..) {
            for page in held.iter().flat_map(|whole| &whole.pages) {
                region.give_back(*page, 1).map_err(Error::refused("give pages back"))?;
            }
        }
        Ok(())
    }

    /// Holds the wanted pages of other pageblocks, and lets as many of the oldest go: how many pageblocks were taken.
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

    /// Frames that are held, or were at first.
    pub(crate) fn frames(&self) -> impl Iterator<Item = u64> {
        let mapped = self.kept.iter().flat_map(|(_, placed)| placed.iter().map(|(_, frame)| *frame));
        self.pinned.iter().flat_map(|pinned| pinned.frames.iter().copied()).chain(mapped)
    }

    /// How many of the pages that are mapped have not been moved.
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

/// The pages of the mapping that are wanted.
fn pages(wishes: &[(&Whole, &PageSet)]) -> impl Iterator<Item = usize> {
    wishes.iter().flat_map(|(whole, wanted)| wanted.pages().map(|page| whole.pages[page]))
}

/// Maps pageblocks and writes to all of their pages.
fn map_written(pageblocks: usize, guard: &mut Guard<'_>) -> Result<Region, Error> {
    let region = Region::map(pageblocks, Access::Written).map_err(Error::refused("map memory"))?;
    for pageblock in 0..pageblocks {
        guard.took(PAGEBLOCK_PAGES as u64)?;
        region.write(pageblock * PAGEBLOCK_PAGES, PAGEBLOCK_PAGES).map_err(Error::refused("take memory"))?;
    }
    Ok(region)
}

/// Makes single pages of the huge ones that are to hold something.
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
        done += region.splice(&pages[done..], to.as_fd()).map_err(Error::refused("hold pages by a pipe"))?;
    }
    Ok(from)
}
