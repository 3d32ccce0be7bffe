//! One of the two machines: an engine, its model, and the platform's answers.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use fastrand::Rng;
use freehold::base::lock::SoloLock;
use freehold::base::{Gfp, MigrateType, Order, Pfn};
use freehold::page::{CmaArea, ContigError, FreeError, Placement};
use freehold::platform::{FreePages, Migrated, Migration, Reclaim, Reclaimed};

use super::Sabotage;
use super::range_model::{Holder, Holding, RangeModel, Unit};
use super::step::{Step, Way};
use super::world::World;
use crate::common::Hooks;
use crate::common::picture::Picture;
use crate::contig::scene::Engine;
use crate::contig::span;

/// State of one machine. Most fields are cells because the platform's answers change them in the middle of a request.
pub(super) struct Side<'a, 'h> {
    pub world: &'a World,
    pub engine: &'a Engine<'a, 'h>,
    pub area: &'a CmaArea<'a, SoloLock>,
    pub range_model: RefCell<RangeModel>,
    pub luck: RefCell<Rng>,
    pub mood: Cell<(u8, u8)>,
    pub sabotage: Sabotage,
    pub turn: Cell<u32>,
    pub total: u64,
    /// First violation that the platform's answers detected.
    pub problem: RefCell<Option<String>>,
    pub seen: Coverage,
}

/// Counts of events that should occur at least once.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    pub ranges: Cell<u32>,
    pub refusals: Cell<u32>,
    pub busy: Cell<u32>,
    pub from_area: Cell<u32>,
    pub parts: Cell<u32>,
    pub mistakes: Cell<u32>,
}

fn count(counter: &Cell<u32>) {
    counter.set(counter.get() + 1);
}

impl Side<'_, '_> {
    /// Takes a step. `number` becomes part of the keys of new holdings. `holder` is the holding that the step's `pick`
    /// selected.
    pub(super) fn step(&self, number: usize, step: Step, holder: Option<Holder>) -> Result<(), String> {
        *self.luck.borrow_mut() = Rng::with_seed(number as u64);
        let holding = holder.and_then(|holder| self.range_model.borrow().held.get(&holder).cloned());
        let taken = match step {
            Step::Alloc { cpu, gfp, order, frozen } => self.on(cpu).alloc((number, 0), gfp, order, frozen),
            Step::Range { cpu, start, pages, gfp, frozen } => self.on(cpu).range(number, (start, pages), gfp, frozen),
            Step::Find { cpu, pages, place, gfp, frozen } => self.on(cpu).find(number, (pages, place), gfp, frozen),
            Step::Cma { cpu, pages, align } => self.on(cpu).cma(number, pages, align),
            Step::PoisonFree { pfn } => self.poison_free(pfn),
            Step::DrainAll => {
                self.engine.drain_all_pages();
                Ok(())
            }
            Step::Mood { refusals, reclaims } => {
                self.mood.set((refusals, reclaims));
                Ok(())
            }
            Step::Free { .. } | Step::Part { .. } | Step::Wrong { .. } | Step::Share { .. } | Step::Poison { .. } => {
                match holder.zip(holding) {
                    Some((holder, holding)) => self.with_holding(number, step, holder, holding),
                    None => Ok(()),
                }
            }
        };
        taken?;
        self.problem.borrow_mut().take().map_or(Ok(()), Err)?;
        self.check_sum()
    }

    fn with_holding(&self, number: usize, step: Step, holder: Holder, holding: Holding) -> Result<(), String> {
        match step {
            Step::Free { cpu, way, .. } => self.on(cpu).free(number, holder, &holding, way),
            Step::Part { cpu, from, to, .. } => self.on(cpu).free_part(number, holder, &holding, (from, to)),
            Step::Wrong { cpu, before, after, .. } => self.on(cpu).free_wrongly(&holding, before, after),
            Step::Share { at, .. } => self.share(holder, &holding, at),
            Step::Poison { at, .. } => self.poison(holder, &holding, at),
            other => unreachable!("{other:?} selects no holding"),
        }
    }

    fn on(&self, cpu: u16) -> &Self {
        self.engine.platform().run_on(cpu);
        self
    }

    /// Returns the number of pages on lists, and the number of withheld frames.
    pub(super) fn sums(&self) -> (u64, u64) {
        let mut spare = 0;
        for zone in self.engine.zones() {
            spare += zone.free_pages();
            for cpu in self.engine.cpu_ids() {
                let pcp = self.engine.pcp(cpu, zone);
                spare += u64::from(pcp.inspect(|lists| lists.count()) + pcp.waiting());
            }
        }
        (spare, self.engine.platform().events.counts().withheld)
    }

    /// Checks that the numbers of free, allocated and withheld pages add up to the total.
    fn check_sum(&self) -> Result<(), String> {
        let (spare, withheld) = self.sums();
        let allocated = self.range_model.borrow().allocated();
        if spare + withheld + allocated == self.total {
            return Ok(());
        }
        Err(format!("{spare} pages to spare, {allocated} allocated and {withheld} withheld are not {}", self.total))
    }

    /// Checks the whole machine, block by block.
    pub(super) fn check_all(&self) -> Result<(), String> {
        let census = self.engine.check().map_err(|violation| violation.to_string())?;
        let range_model = self.range_model.borrow();
        if (census.allocated, census.withheld) != (range_model.allocated(), range_model.withheld) {
            let (allocated, withheld) = (range_model.allocated(), range_model.withheld);
            return Err(format!("{census:?}, expected {allocated} allocated and {withheld} withheld"));
        }
        for (holder, holding) in &range_model.held {
            for block in holding.blocks() {
                let (found, expected) = (self.engine.state(Pfn::new(block.0)), holding.state(block));
                if found != Some(expected) {
                    return Err(format!("{holder:?}: block {block:?} is {found:?}, expected {expected:?}"));
                }
            }
        }
        let from_area: u32 =
            range_model.held.values().filter(|holding| holding.from_area).map(|holding| holding.pages).sum();
        if self.area.allocated() != from_area {
            return Err(format!("the area counts {} pages, and {from_area} are held", self.area.allocated()));
        }
        self.check_pageblocks()
    }

    fn check_pageblocks(&self) -> Result<(), String> {
        for pfn in self.engine.map().pageblocks() {
            let block = self.engine.map().pageblock(pfn);
            let in_area = self.world.area.contains(&pfn.raw());
            let fits = (block.migratetype() == MigrateType::Cma) == in_area;
            if !fits || block.migratetype() == MigrateType::Isolate || block.isolations() > 0 {
                return Err(format!("pageblock {pfn} is {block:?}"));
            }
        }
        Ok(())
    }

    fn alloc(&self, holder: Holder, gfp: Gfp, order: u8, frozen: bool) -> Result<(), String> {
        let taken = match frozen {
            true => self.engine.alloc_frozen_pages(gfp, Order::new(order)),
            false => self.engine.alloc_pages(gfp, Order::new(order)),
        };
        let Ok(pfn) = taken else { return Ok(()) };
        self.give(holder, Unit::Block, pfn.raw(), 1 << order, gfp, u32::from(!frozen))
    }

    fn give(&self, holder: Holder, unit: Unit, pfn: u32, pages: u32, gfp: Gfp, refs: u32) -> Result<(), String> {
        let (shared, broken) = (BTreeSet::new(), BTreeSet::new());
        let holding = Holding { pfn, pages, unit, gfp, refs, from_area: false, shared, broken };
        self.range_model.borrow_mut().give(holder, holding)
    }

    /// Records an allocated range. Movable blocks become separate holdings.
    fn give_range(&self, number: usize, (pfn, pages): (u32, u32), gfp: Gfp, frozen: bool) -> Result<(), String> {
        count(&self.seen.ranges);
        let refs = u32::from(!frozen);
        let unit = match (gfp.contains(Gfp::COMP), frozen) {
            (true, _) => Unit::Block,
            (false, true) => Unit::Largest,
            (false, false) => Unit::Pages,
        };
        if !gfp.contains(Gfp::MOVABLE) {
            return self.give((number, 0), unit, pfn, pages, gfp, refs);
        }
        let whole =
            Holding { pfn, pages, unit, gfp, refs, from_area: false, shared: BTreeSet::new(), broken: BTreeSet::new() };
        whole
            .blocks()
            .into_iter()
            .try_for_each(|(head, order)| self.give((number, head - pfn), Unit::Block, head, order.pages(), gfp, refs))
    }

    fn range(&self, number: usize, (start, pages): (u32, u32), gfp: Gfp, frozen: bool) -> Result<(), String> {
        let refusal = self
            .range_model
            .borrow()
            .refusal(start, pages, gfp, |pfn| self.engine.state(Pfn::new(pfn)).expect("frames of zones have states"));
        let before = refusal.map(|_| Picture::take(self.engine));
        let was_free = refusal.is_none() && self.range_model.borrow().is_free(start, pages);
        let range = span(start, start + pages);
        let taken = match frozen {
            true => self.engine.alloc_contig_frozen_range(range, gfp),
            false => self.engine.alloc_contig_range(range, gfp),
        };
        if self.sabotage == Sabotage::KeepIsolated && taken.is_err() && refusal.is_none() {
            self.engine.damage().add_isolation(Pfn::new(start));
            self.check_all()?;
        }
        match (taken, refusal, before) {
            (Err(error), Some(expected), Some(before)) if error == expected => {
                count(&self.seen.refusals);
                let difference = before.difference(&Picture::take(self.engine));
                difference.map_or(Ok(()), |difference| Err(format!("{error}, but before and after are {difference}")))
            }
            (taken, Some(expected), _) => Err(format!("the answer was {taken:?}, expected {expected:?}")),
            (Ok(()), None, _) => self.give_range(number, (start, pages), gfp, frozen),
            (Err(ContigError::Busy { pfn, .. }), None, _) if !was_free => {
                count(&self.seen.busy);
                self.check_all()?;
                let in_range = (start..start + pages).contains(&pfn.raw());
                if in_range && self.range_model.borrow().is_held(pfn.raw()) {
                    Ok(())
                } else {
                    Err(format!("{pfn} is free"))
                }
            }
            (Err(error), None, _) => Err(format!("nothing is in the way, but: {error}")),
        }
    }

    fn find(&self, number: usize, (pages, place): (u32, Placement), gfp: Gfp, frozen: bool) -> Result<(), String> {
        let is_compound = gfp.contains(Gfp::COMP);
        let pages = if is_compound { pages.next_power_of_two() } else { pages };
        // The blocks of a frozen range depend on where it starts, and both machines are to have the same ones.
        let align = if is_compound || frozen { place.align.max(1 << pages.ilog2()) } else { place.align };
        let place = Placement { align, ..place };
        let free = self.range_model.borrow().first_free(pages, align, place.end.raw());
        let luck = self.luck.borrow().get_seed();
        let found = match frozen {
            true => self.engine.alloc_contig_frozen_pages(gfp, pages, place),
            false => self.engine.alloc_contig_pages(gfp, pages, place),
        };
        // A search that moved blocks may have moved one there.
        let missed = free.filter(|_| self.luck.borrow().get_seed() == luck);
        match found {
            Ok(pfn) if !pfn.raw().is_multiple_of(align) || pfn.offset(pages) > place.end => {
                Err(format!("{pages} pages at {pfn} are not {place:?}"))
            }
            Ok(pfn) => self.give_range(number, (pfn.raw(), pages), gfp, frozen),
            Err(ContigError::NoRange) => {
                missed.map_or(Ok(()), |start| Err(format!("{pages} pages at {start} are free")))
            }
            Err(error) => Err(format!("unexpected error: {error}")),
        }
    }

    fn cma(&self, number: usize, pages: u32, align: u32) -> Result<(), String> {
        match self.engine.cma_alloc(self.area, pages, align, Gfp::KERNEL) {
            Ok(pfn) if !pfn.raw().is_multiple_of(align) => Err(format!("{pfn} is no multiple of {align}")),
            Ok(pfn) => {
                count(&self.seen.from_area);
                self.give((number, 0), Unit::Pages, pfn.raw(), pages, Gfp::KERNEL, 1)?;
                let mut range_model = self.range_model.borrow_mut();
                range_model.held.get_mut(&(number, 0)).expect("the model must contain the new holding").from_area =
                    true;
                Ok(())
            }
            Err(ContigError::NoRange) => Ok(()),
            Err(error) => Err(format!("unexpected error: {error}")),
        }
    }

    /// Frees a holding, and records the result.
    fn free(&self, number: usize, holder: Holder, holding: &Holding, way: Way) -> Result<(), String> {
        self.turn.set(self.turn.get() + 1);
        let forgotten = self.sabotage == Sabotage::ForgetFree && self.turn.get().is_multiple_of(10);
        if !forgotten {
            self.free_by(holding, way).map_err(|error| format!("{holding:?} was not freed: {error}"))?;
        }
        let mut range_model = self.range_model.borrow_mut();
        range_model.held.remove(&holder);
        range_model.take_back(number, holding);
        Ok(())
    }

    fn free_by(&self, holding: &Holding, way: Way) -> Result<(), FreeError> {
        let range = span(holding.pfn, holding.end());
        if holding.from_area {
            return self.engine.cma_release(self.area, range.start, holding.pages);
        }
        match way {
            Way::InBulk(seed) if holding.unit == Unit::Pages => {
                let mut pages: Vec<Pfn> = range.start.up_to(range.end).collect();
                // Mostly in order, with up to four swaps.
                let mut rng = Rng::with_seed(seed);
                for _ in 0..seed % 5 {
                    let (from, to) = (rng.usize(0..pages.len()), rng.usize(0..pages.len()));
                    pages.swap(from, to);
                }
                self.engine.free_pages_bulk(&pages)
            }
            Way::BlockByBlock => holding.blocks().into_iter().try_for_each(|(head, order)| match holding.refs {
                0 => self.engine.free_frozen_pages(Pfn::new(head), order),
                _ => self.engine.free_pages(Pfn::new(head), order),
            }),
            _ if holding.refs == 0 => self.engine.free_contig_frozen_range(range),
            _ => self.engine.free_contig_range(range),
        }
    }

    /// Frees some frames of a divisible holding. The remaining parts become separate holdings.
    fn free_part(
        &self,
        number: usize,
        holder: Holder,
        holding: &Holding,
        (from, to): (u32, u32),
    ) -> Result<(), String> {
        let divisible = holding.unit != Unit::Block || (holding.refs == 0 && !holding.is_compound());
        let (from, to) = (from % holding.pages, to % holding.pages + 1);
        if !divisible || from >= to {
            return Ok(());
        }
        count(&self.seen.parts);
        let part = holding.part(from, to);
        self.free_by(&part, Way::AsRange).map_err(|error| format!("{part:?} of {holding:?} was not freed: {error}"))?;
        let mut range_model = self.range_model.borrow_mut();
        range_model.held.remove(&holder);
        range_model.take_back(number, &part);
        let unit = if holding.unit == Unit::Pages { Unit::Pages } else { Unit::Largest };
        for (from, to) in [(0, from), (to, holding.pages)].into_iter().filter(|(from, to)| from < to) {
            let left = Holding { unit, ..holding.part(from, to) };
            if !holding.gfp.contains(Gfp::MOVABLE) {
                range_model.rename((number, 10_000 + from), left);
                continue;
            }
            for (head, order) in left.blocks() {
                let at = head - holding.pfn;
                let block = Holding { unit: Unit::Block, ..holding.part(at, at + order.pages()) };
                range_model.rename((number, 10_000 + at), block);
            }
        }
        Ok(())
    }

    /// Frees a holding together with a few frames around it, if that is a mistake. The free must change nothing.
    fn free_wrongly(&self, holding: &Holding, before: u32, after: u32) -> Result<(), String> {
        let (start, end, frozen) = (holding.pfn.saturating_sub(before), holding.end() + after, holding.refs == 0);
        let range_model = self.range_model.borrow();
        let swapped = (before, after) == (0, 0) && frozen && holding.shared.is_empty();
        let misfit = range_model.misfit(start, end, frozen && !swapped);
        let Some(expected) = misfit.filter(|_| range_model.is_in_one_zone(start, end)) else { return Ok(()) };
        count(&self.seen.mistakes);
        let picture = Picture::take(self.engine);
        let freed = match frozen && !swapped {
            true => self.engine.free_contig_frozen_range(span(start, end)),
            false => self.engine.free_contig_range(span(start, end)),
        };
        match freed {
            Err(
                error @ (FreeError::NotAllocated { pfn, .. }
                | FreeError::Frozen { pfn, .. }
                | FreeError::CrossesEnd { pfn, .. }),
            ) if pfn.raw() == expected => {
                let difference = picture.difference(&Picture::take(self.engine));
                difference.map_or(Ok(()), |difference| Err(format!("{error}, but before and after are {difference}")))
            }
            other => Err(format!("{start:#x}..{end:#x}: {other:?}, expected a refusal at {expected:#x}")),
        }
    }

    /// Adds a reference to a block of a holding.
    fn share(&self, holder: Holder, holding: &Holding, at: u32) -> Result<(), String> {
        let blocks = holding.blocks();
        let (head, _) = blocks[at as usize % blocks.len()];
        let at = head - holding.pfn;
        if holding.refs == 0 || !holding.broken.is_empty() || holding.shared.contains(&at) {
            return Ok(());
        }
        self.engine.get_page(Pfn::new(head)).map_err(|error| error.to_string())?;
        let mut range_model = self.range_model.borrow_mut();
        range_model.held.get_mut(&holder).expect("the model must contain the selected holding").shared.insert(at);
        Ok(())
    }

    fn poison(&self, holder: Holder, holding: &Holding, at: u32) -> Result<(), String> {
        if !holding.shared.is_empty() {
            return Ok(());
        }
        let at = at % holding.pages;
        self.engine.poison(Pfn::new(holding.pfn + at)).map_err(|error| error.to_string())?;
        let mut range_model = self.range_model.borrow_mut();
        range_model.held.get_mut(&holder).expect("the model must contain the selected holding").broken.insert(at);
        Ok(())
    }

    fn poison_free(&self, pfn: u32) -> Result<(), String> {
        let was_free = self.range_model.borrow_mut().withhold(pfn);
        if was_free { self.engine.poison(Pfn::new(pfn)).map_err(|error| error.to_string()) } else { Ok(()) }
    }
}

impl Hooks for Side<'_, '_> {
    fn migrate(&self, migration: &Migration) -> Migrated {
        let luck = self.luck.borrow_mut().u8(0..100);
        if luck < self.mood.get().0 {
            return Migrated::Refused;
        }
        if self.sabotage == Sabotage::ClaimMove && luck % 4 == 3 {
            return Migrated::Moved;
        }
        self.range_model.borrow_mut().migrate(migration).unwrap_or_else(|problem| {
            self.problem.borrow_mut().get_or_insert(problem);
            Migrated::Refused
        })
    }

    /// Frees a random block at random times, through its owner. The block may be the one that is about to move.
    fn reclaim(&self, _pages: &dyn FreePages, _wanted: &Reclaim) -> Reclaimed {
        let luck = self.luck.borrow_mut().u32(..);
        let none = Reclaimed::default();
        if luck % 100 >= u32::from(self.mood.get().1) {
            return none;
        }
        let chosen = {
            let range_model = self.range_model.borrow();
            let count = range_model.held.values().filter(|holding| holding.is_unshared_block()).count().max(1);
            let mut held = range_model.held.iter().filter(|(_, holding)| holding.is_unshared_block());
            held.nth(luck as usize / 100 % count).map(|(&holder, holding)| (holder, holding.clone()))
        };
        let Some((holder, holding)) = chosen else { return none };
        if let Err(problem) = self.free(0, holder, &holding, Way::BlockByBlock) {
            self.problem.borrow_mut().get_or_insert(problem);
        }
        none
    }
}
