//! Fragmentation of a running machine's memory, to order, and undone.
//!
//! The story in order of files: [`zones`] says how much is free and what the machine keeps, [`limits`] refuses what
//! does not fit, [`scope`] sets what this process needs. A [`census`] looks at all pageblocks. Then each [`kind`] of
//! page is placed ([`kind_pages`]): by frame number ([`exact`], with [`region`] and [`frames`]), or in the order in
//! which the kernel allocates ([`order`], with [`stores`]), as its [`page_set`] says; and [`guard`] looks after the
//! machine meanwhile. What is around the wanted pages is freed, and another census finds what came of it. [`proof`] has
//! it tried by compaction. [`hold`] lets memory stay so while a command runs, and [`mod@sustain`] goes on meanwhile.
//! [`report`] tells all.
//!
//! *Nothing outlives this process*: what cannot be moved hangs on mappings and open files that are its own, and that no
//! other process inherits. However it ends, the kernel frees them.

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

/// How often holes are filled, and pageblocks that are open anyway: their holes are not worth it.
const PLUGGINGS: u32 = 8;
const PAGEBLOCKS_OPEN: usize = 2;
/// How often pages are freed again because they lie in too many pageblocks.
const THINNINGS: u32 = 2;
/// Where the kernel tells the size of a huge page, which is that of a pageblock.
const HUGE_PAGE: &str = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";

/// What is ordered.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What was ordered, for people.
    pub subject: String,
    /// The pageblocks to work on, with the pages of each that are to be held.
    pub wanted: Vec<PageSet>,
    /// What holds them, in equal parts.
    pub kinds: Vec<Kind>,
    /// Whether compaction is to try it.
    pub check: Check,
    /// The command that runs meanwhile; empty if none does.
    pub command: Vec<OsString>,
    /// How long memory stays so at most.
    pub duration: Option<Duration>,
    /// Pageblocks a second whose pins are let go, for others elsewhere; 0 if memory stays as it is.
    pub sustain: u64,
}

/// Whether compaction is to try what was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// All memory of the machine is compacted once.
    Compact,
    /// It is not.
    None,
}

/// Is told how it goes.
pub trait Watch {
    /// Memory is as ordered, and stays so.
    fn applied(&mut self, held_pageblocks: u64, pageblocks: u64);
}

/// What may be worked on at this moment.
///
/// # Errors
/// When this is not root, or not Linux as it has to be.
pub fn room() -> Result<Room, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    expect_pageblocks()?;
    Room::now()
}

/// Frame numbers are counted in pages of 4 KiB and pageblocks of 2 MiB here.
fn expect_pageblocks() -> Result<(), Error> {
    let huge_page = fs::read_to_string(HUGE_PAGE).ok().and_then(|text| text.trim().parse::<usize>().ok());
    let size = huge_page.unwrap_or(PAGEBLOCK);
    if rustix::param::page_size() == PAGE && size == PAGEBLOCK {
        Ok(())
    } else {
        Err(Error::Pageblocks(size as u64 >> 10))
    }
}

/// Makes memory as it is ordered, lets it stay so, and undoes it.
///
/// # Errors
/// See [`Error`]; everything was undone then.
pub fn apply(plan: &Plan, watch: &mut dyn Watch) -> Result<(FragmentReport, EndReason), Error> {
    let room = room()?;
    let program = Program::find(&plan.command)?;
    let interrupts = Interrupts::listen().map_err(Error::refused("listen to signals"))?;
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

/// What is held, and what is known of the machine.
struct Work {
    shares: Vec<(Kind, Vec<PageSet>)>,
    floor: u64,
    flags: Reader,
    before: Free,
    empty: Census,
    now: Census,
    placed: Vec<KindPages>,
    /// Pageblocks' worth of holes that were filled meanwhile.
    plugged: usize,
    check: Check,
    /// What compaction has to bring back, if it is to try.
    control: Option<Control>,
}

impl Work {
    /// Looks at the machine, and refuses what does not fit.
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

    /// Places all kinds, frees what is around them, and finds them again.
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

    /// What lies in each pageblock. Where each page is ours by its frame, nobody needs to know.
    fn census(&self) -> Result<Census, Error> {
        match self.shares.iter().all(|(kind, _)| kind.is_exact()) {
            true => Ok(Census::default()),
            false => zones::settle().and_then(|()| self.flags.census()),
        }
    }

    /// Compacts all memory: how many of the pageblocks came back, and what is free then.
    fn compact(&self, interrupts: &Interrupts) -> Result<(Proof, Free), Error> {
        let lost: BTreeSet<u64> =
            self.placed.iter().flat_map(|placed| placed.locate(&self.empty, &self.now).0).collect();
        self.control.as_ref().expect("it was placed for this").compact(&lost, &self.flags, interrupts)
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

    /// What goes on while memory stays so: pins are renewed, at this rate.
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
            "this process is in no control group, so free pages on the lists of CPUs may count as pages of pipes";
        let short =
            (left_out > 0).then(|| format!("{left_out} steps of --sustain were left out, since memory was short"));
        let has_slab = self.placed.iter().any(|placed| placed.kind == Kind::Slab);
        let slab = has_slab.then(|| {
            "slabs that others filled meanwhile count too, where a pageblock was empty before; nothing tells whose they are"
                .to_owned()
        });
        let plugged = (self.plugged > 0).then(|| {
            let mib = (self.plugged * PAGEBLOCK) >> 20;
            format!("{mib} MiB more were taken for a moment, to fill the holes of unmovable pageblocks")
        });
        is_vague.then(|| vague.to_owned()).into_iter().chain(slab).chain(plugged).chain(short).collect()
    }
}

/// Fills the holes of unmovable pageblocks with page tables, since the kernel takes those before it opens another.
/// Others make new ones meanwhile. Returns how many pageblocks' worth that took.
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

/// The pageblocks of each kind: equal parts of those that are to hold something, and of the others. Their order stays.
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
