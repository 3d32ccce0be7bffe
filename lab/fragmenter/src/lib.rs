//! Fragmentation of a running machine's memory, as requested, and its reversal.
//!
//! The order of execution: [`zones`] reads the free memory and computes the machine's reserve. [`limits`] refuses
//! requests that do not fit. [`scope`] sets the attributes of this process. A [`census`] reads all pageblocks. Then the
//! pages of each [`kind`] are placed ([`kind_pages`]): by frame number ([`exact`], with [`region`] and [`frames`]), or
//! in the order in which the kernel allocates ([`order`], with [`stores`]), as their [`page_set`] requires. Meanwhile
//! [`guard`] checks the machine's free memory. The pages around the wanted pages are freed, and another census
//! determines the result. [`proof`] tests it by compaction. [`hold`] keeps memory fragmented while a command runs, and
//! [`mod@sustain`] renews pins meanwhile. [`report`] has the results.
//!
//! *All of it ends with this process*: unmovable pages are held by mappings and open files of this process, which no
//! other process inherits. However the process ends, the kernel frees them.
//!
//! # Design
//!
//! The machine is fragmented by memory that it would not move anyway, without a kernel module or a setting. Pageblocks
//! are taken whole. Pages of tasks are placed exactly: `vmsplice` puts the wanted pages of each pageblock into pipes,
//! by frame number. Pages that the kernel allocates itself (page tables, slabs, buffers) can only be selected by their
//! position in the order of allocation, because an unmovable request opens the largest free block, wherever it is.
//! Their placement is therefore measured and not promised: a census reads all pageblocks, frame by frame, before and
//! after. The types of the pageblocks that the kernel opened for these pages remain until a movable request claims
//! them.

mod census;
mod error;
mod exact;
mod frames;
mod guard;
mod hold;
mod kind;
mod kind_pages;
mod limits;
mod order;
mod page_set;
mod proof;
mod region;
mod report;
mod scope;
mod stores;
mod sustain;
mod zones;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use freehold_record::{Interrupts, Program};

pub use error::Error;
pub use hold::EndReason;
pub use kind::Kind;
pub use page_set::PageSet;
pub use report::{FragmentReport, Proof, Verdict};
pub use zones::Room;

use census::{Census, Reader};
use guard::Guard;
use kind_pages::KindPages;
use order::Boxes;
use page_set::{PAGE, PAGEBLOCK, PAGEBLOCK_PAGES};
use proof::Control;
use report::{KindReport, Moments};
use scope::Scope;
use stores::Addresses;
use sustain::Sustain;
use zones::Free;

/// Maximum number of times that holes are filled, and number of partly used pageblocks whose holes may remain.
const PLUGGINGS: u32 = 8;
const PAGEBLOCKS_OPEN: usize = 2;
/// Maximum number of times that pages are freed because they are in too many pageblocks.
const THINNINGS: u32 = 2;
/// File with the size of a huge page, which is the size of a pageblock.
const HUGE_PAGE: &str = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";

/// A request for fragmentation.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Description of the request.
    pub subject: String,
    /// Sets of pages to hold, one for each pageblock that is used.
    pub wanted: Vec<PageSet>,
    /// Kinds of pages that hold them, in equal parts.
    pub kinds: Vec<Kind>,
    /// Whether compaction tests the result.
    pub check: Check,
    /// Command that runs meanwhile; empty if there is none.
    pub command: Vec<OsString>,
    /// Maximum time for which memory stays fragmented.
    pub duration: Option<Duration>,
    /// Pageblocks per second whose pins are replaced by pins in other pageblocks; 0 if pins stay.
    pub sustain: u64,
}

/// Test of the result by compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// All memory of the machine is compacted once.
    Compact,
    /// No test.
    None,
}

/// Observer of the progress.
pub trait Watch {
    /// Called when memory is as requested; it stays so from then on.
    fn applied(&mut self, held_pageblocks: u64, pageblocks: u64);
}

/// Returns the memory that may be used at this moment.
///
/// # Errors
/// Returns an error if the process is not root, or if the kernel lacks a required feature.
pub fn room() -> Result<Room, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    expect_pageblocks()?;
    Room::now()
}

/// Checks that pages have 4 KiB and pageblocks 2 MiB, on which all frame arithmetic here relies.
fn expect_pageblocks() -> Result<(), Error> {
    let huge_page = fs::read_to_string(HUGE_PAGE).ok().and_then(|text| text.trim().parse::<usize>().ok());
    let size = huge_page.unwrap_or(PAGEBLOCK);
    if rustix::param::page_size() == PAGE && size == PAGEBLOCK {
        Ok(())
    } else {
        Err(Error::Pageblocks(size as u64 >> 10))
    }
}

/// Fragments memory as requested, keeps it so, and undoes it.
///
/// # Errors
/// See [`Error`]. After an error, everything has been undone.
pub fn apply(plan: &Plan, watch: &mut dyn Watch) -> Result<(FragmentReport, EndReason), Error> {
    let room = room()?;
    let program = Program::find(&plan.command)?;
    let interrupts = Interrupts::listen().map_err(Error::refused("handle signals"))?;
    let scope = Scope::enter();
    let mut work = Work::prepare(plan, &room, &scope, &interrupts)?;
    work.place(&interrupts)?;
    let applied = Free::now()?;
    let (proof, compacted) = match plan.check {
        Check::None => (None, None),
        Check::Compact => work.compact(&interrupts).map(|(proof, free)| (Some(proof), Some(free)))?,
    };
    interrupts.check()?;
    watch.applied(work.kinds().iter().map(|kind| kind.held_pageblocks).sum(), plan.wanted.len() as u64);
    let mut meanwhile = work.meanwhile(plan.sustain)?;
    let stays = plan.duration.is_some() || program.is_some() || plan.check == Check::None;
    let ended = match stays {
        true => hold::hold(program.as_ref(), plan.duration, &interrupts, &scope, &mut meanwhile)?,
        false => EndReason::AtOnce,
    };
    let (renewed_pageblocks, left_out) = meanwhile.map_or((0, 0), |sustain| (sustain.renewed, sustain.left_out));
    let (held, before) = (Free::now()?, work.before);
    let (kinds, notes) = (work.kinds(), work.notes(left_out));
    drop(work);
    zones::settle()?;
    let free = Moments { before, applied, compacted, held, undone: Free::now()? };
    Ok((FragmentReport { subject: plan.subject.clone(), kinds, free, proof, renewed_pageblocks, notes }, ended))
}

/// Pages that are held, and state of the machine.
struct Work {
    shares: Vec<(Kind, Vec<PageSet>)>,
    floor: u64,
    flags: Reader,
    before: Free,
    empty: Census,
    now: Census,
    placed: Vec<KindPages>,
    /// Pageblocks' worth of holes that were filled temporarily.
    plugged: usize,
    check: Check,
    /// Pages that compaction must be able to move, if compaction tests the result.
    control: Option<Control>,
}

impl Work {
    /// Reads the state of the machine, and refuses requests that do not fit.
    fn prepare(plan: &Plan, room: &Room, scope: &Scope, interrupts: &Interrupts) -> Result<Work, Error> {
        let shares = shares(&plan.kinds, &plan.wanted);
        let has_pins = shares.iter().any(|(kind, wanted)| *kind == Kind::Pins && page_set::totals(wanted).0 > 0);
        if plan.sustain > 0 && !has_pins {
            return Err(Error::NoPins);
        }
        let plug = if plan.kinds.iter().all(|kind| kind.is_exact()) { 0 } else { zones::unmovable_fragments()? };
        limits::expect(&shares, room, plug, scope.files_most())?;
        let mut work = Work {
            shares,
            floor: room.floor,
            flags: Reader::open()?,
            before: Free::now()?,
            empty: Census::default(),
            now: Census::default(),
            placed: Vec::new(),
            plugged: 0,
            check: plan.check,
            control: None,
        };
        work.empty = work.census()?;
        interrupts.check()?;
        Ok(work)
    }

    /// Places all kinds, frees the temporary pages, and locates the remaining ones.
    fn place(&mut self, interrupts: &Interrupts) -> Result<(), Error> {
        let mut guard = Guard::new(interrupts, self.floor);
        let mut plugs = Vec::new();
        for (kind, wanted) in &self.shares {
            if !kind.is_exact() {
                self.plugged += plug(&mut plugs, &mut guard)?;
            }
            self.placed.push(KindPages::place(*kind, wanted, &self.flags, &mut guard)?);
        }
        if self.check == Check::Compact {
            self.control = Some(Control::place(&self.flags, &mut guard)?);
        }
        drop(plugs);
        self.placed.iter_mut().try_for_each(KindPages::release)?;
        self.now = self.census()?;
        for _ in 0..THINNINGS {
            interrupts.check()?;
            let found: Vec<u64> = self.kinds().iter().map(|kind| kind.held_pageblocks).collect();
            let thinned = self.placed.iter_mut().zip(found).filter_map(|(placed, found)| placed.thin(found)).count();
            if thinned == 0 {
                break;
            }
            self.now = self.census()?;
        }
        Ok(())
    }

    /// Reads the contents of all pageblocks. Returns an empty census if all pages are placed by frame number, since it
    /// is not needed then.
    fn census(&self) -> Result<Census, Error> {
        match self.shares.iter().all(|(kind, _)| kind.is_exact()) {
            true => Ok(Census::default()),
            false => zones::settle().and_then(|()| self.flags.census()),
        }
    }

    /// Compacts all memory. Returns how many of the pageblocks became free again, and the free memory after that.
    fn compact(&self, interrupts: &Interrupts) -> Result<(Proof, Free), Error> {
        let lost: BTreeSet<u64> =
            self.placed.iter().flat_map(|placed| placed.locate(&self.empty, &self.now).0).collect();
        self.control.as_ref().expect("the control is placed before compaction").compact(&lost, &self.flags, interrupts)
    }

    fn kinds(&self) -> Vec<KindReport> {
        let mut reports = Vec::new();
        for placed in &self.placed {
            let (pageblocks, pages) = placed.locate(&self.empty, &self.now);
            reports.push(KindReport {
                kind: placed.kind,
                page_by_page: placed.kind.is_exact(),
                pageblocks: placed.pageblocks,
                wanted_pageblocks: placed.wanted_pageblocks,
                held_pageblocks: pageblocks.len() as u64,
                wanted_pages: placed.wanted_pages,
                held_pages: pages,
            });
        }
        reports
    }

    /// Returns the work while memory stays fragmented: renewing pins at this rate.
    fn meanwhile(&mut self, rate: u64) -> Result<Option<Sustain<'_>>, Error> {
        if rate == 0 {
            return Ok(None);
        }
        let (_, wanted) = self.shares.iter().find(|(kind, _)| *kind == Kind::Pins).ok_or(Error::NoPins)?;
        let placed = self.placed.iter_mut().find(|placed| placed.kind == Kind::Pins).ok_or(Error::NoPins)?;
        Ok(Some(Sustain::new(rate, wanted, placed, &self.flags, self.floor)))
    }

    fn notes(&self, left_out: u64) -> Vec<String> {
        let is_vague = !self.flags.tells_owners()
            && self.placed.iter().any(|placed| matches!(placed.kind, Kind::Pipes | Kind::Sockets));
        let vague =
            "this process is in no control group, so free pages on per-CPU lists may be counted as pages of pipes";
        let short =
            (left_out > 0).then(|| format!("{left_out} steps of --sustain were skipped, since memory was short"));
        let has_slab = self.placed.iter().any(|placed| placed.kind == Kind::Slab);
        let slab = has_slab.then(|| {
            "slabs that other programs filled meanwhile in empty pageblocks are counted too, since no owner is known"
                .to_owned()
        });
        let plugged = (self.plugged > 0).then(|| {
            let mib = (self.plugged * PAGEBLOCK) >> 20;
            format!("{mib} MiB more were allocated temporarily, to fill the holes of unmovable pageblocks")
        });
        is_vague.then(|| vague.to_owned()).into_iter().chain(slab).chain(plugged).chain(short).collect()
    }
}

/// Fills the holes of unmovable pageblocks with page tables, since the kernel allocates from holes before it uses
/// another pageblock. Repeats this, since other programs make new holes meanwhile. Returns the number of pageblocks'
/// worth of holes.
fn plug(plugs: &mut Vec<Boxes<Addresses>>, guard: &mut Guard<'_>) -> Result<usize, Error> {
    let mut plugged = 0;
    for _ in 0..PLUGGINGS {
        let pageblocks = zones::unmovable_fragments()? as usize / PAGEBLOCK_PAGES;
        if pageblocks <= PAGEBLOCKS_OPEN {
            break;
        }
        plugs.push(order::fill(&stores::Tables, &vec![PageSet::default(); pageblocks], guard)?);
        plugged += pageblocks;
    }
    Ok(plugged)
}

/// Distributes the pageblocks over the kinds, in equal parts of those with pages to hold and of the others. Their order
/// is kept.
fn shares(kinds: &[Kind], wanted: &[PageSet]) -> Vec<(Kind, Vec<PageSet>)> {
    let mut shares: Vec<_> = kinds.iter().map(|kind| (*kind, Vec::new())).collect();
    let (mut holding, mut empty) = (0, kinds.len());
    for wish in wanted {
        let next = if wish.count() > 0 { &mut holding } else { &mut empty };
        *next += 1;
        shares[*next % kinds.len()].1.push(*wish);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_share_all_pageblocks() {
        let wanted = vec![PageSet::default(); 17];
        for (count, expected) in [(5, [1; 5]), (17, [3, 4, 4, 3, 3])] {
            let shares = shares(&Kind::UNMOVABLE, &wanted[..count]);
            assert!(shares.iter().map(|(_, part)| part.len()).eq(expected), "{count} pageblocks");
        }
    }
}
