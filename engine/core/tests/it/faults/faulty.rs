//! A platform that owns single pages, and commits one fault in each of its promises.

use core::cell::{Cell, RefCell};

use freehold::Policy;
use freehold::base::{Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Background, Config, Range};
use freehold::platform::{FreePages, Migrated, Migration, OutOfMemory, Patience, Reclaim, Reclaimed, Request, Task};
use freehold::policy::{Numbers, PcpPolicy};

use crate::common::{Hooks, range};
use crate::faults::Engine;

/// Behaviour of reclaim or of the last resort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Help {
    /// Frees nothing, and reports nothing.
    Nothing,
    /// Frees nothing, but reports a page.
    Claimed,
    /// Frees a page, but reports none.
    Denied,
    /// Frees a page.
    One,
    /// Frees a page twice, and reports two.
    Twice,
    /// Frees a page twice in one call, and reports two.
    TwiceAtOnce,
    /// Frees memory that it does not own: the inside of a block, a free page, a frame that does not exist.
    Foreign,
    /// Frees a page that it has just allocated.
    Borrowed,
    /// Frees all pages that it holds.
    All,
}

pub(super) const HELP: [Help; 9] = [
    Help::Nothing,
    Help::Claimed,
    Help::Denied,
    Help::One,
    Help::Twice,
    Help::TwiceAtOnce,
    Help::Foreign,
    Help::Borrowed,
    Help::All,
];

/// Behaviour of migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Refuses.
    Never,
    /// Moves the pages that it owns.
    Always,
    /// Reports a move that was not made.
    InName,
    /// Frees the source, and reports a move.
    FreesSource,
    /// Frees the target, and reports a refusal.
    FreesTarget,
    /// Keeps a reference to the target, and reports a refusal.
    HoldsTarget,
}

pub(super) const MOVES: [Move; 6] =
    [Move::Never, Move::Always, Move::InName, Move::FreesSource, Move::FreesTarget, Move::HoldsTarget];

/// Additional action in every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Besides {
    /// Checks the whole allocator.
    Check,
    /// Runs background tasks at unusual moments.
    CallBack,
}

/// Behaviour of a platform.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manners {
    pub reclaim: Help,
    pub migrate: Move,
    pub last_resort: Help,
    /// Number of reclaimable pages that it reports for each zone.
    pub reclaimable: u64,
    pub besides: Besides,
}

/// Behaviour of a platform that does nothing and commits no fault.
pub(super) const IDLE: Manners = Manners {
    reclaim: Help::Nothing,
    migrate: Move::Never,
    last_resort: Help::Nothing,
    reclaimable: 0,
    besides: Besides::Check,
};

/// Upper bound for the number of calls that any request makes.
const CALLS_MAX: u32 = 200_000;

/// The faulty platform.
pub(super) struct Faulty<'a, 'h> {
    pub engine: &'a Engine<'a, 'h>,
    pub manners: Manners,
    /// Pages that it owns, each with one reference.
    pub held: RefCell<Vec<Pfn>>,
    /// Number of pages that were lost by its faults.
    pub lost: Cell<usize>,
    /// Number of calls of `relax` before it gives up.
    pub patience: Cell<u32>,
    pub calls: Cell<u32>,
}

impl<'a, 'h> Faulty<'a, 'h> {
    pub(super) fn new(engine: &'a Engine<'a, 'h>, manners: Manners) -> Faulty<'a, 'h> {
        let (held, lost, calls) = (RefCell::default(), Cell::new(0), Cell::new(0));
        Faulty { engine, manners, held, lost, patience: Cell::new(40), calls }
    }

    /// Allocates pages until none is left, without reclaim.
    pub(super) fn run_dry(&self, gfp: Gfp) {
        while let Ok(page) = self.engine.alloc_pages(gfp - Gfp::DIRECT_RECLAIM, Order::ZERO) {
            self.held.borrow_mut().push(page);
        }
    }

    /// Returns the number of pages that are allocated on its behalf.
    pub(super) fn account(&self) -> usize {
        self.held.borrow().len() + self.lost.get()
    }

    fn note_call(&self) {
        self.calls.set(self.calls.get() + 1);
        assert!(self.calls.get() < CALLS_MAX, "the request does not end");
        match self.manners.besides {
            Besides::Check => _ = self.engine.check().expect("the check must find no error"),
            Besides::CallBack => self.call_back(),
        }
    }

    /// Frees pages according to the behaviour. Returns the number of pages to report.
    fn help(&self, pages: &dyn FreePages, help: Help) -> u64 {
        let took = if matches!(help, Help::Denied | Help::One | Help::Twice | Help::TwiceAtOnce) {
            self.held.borrow_mut().pop()
        } else {
            None
        };
        match (help, took) {
            (Help::Claimed, _) => 1,
            (Help::Denied, Some(page)) => {
                pages.free_pages(page, Order::ZERO);
                0
            }
            (Help::One, Some(page)) => {
                pages.free_pages_bulk(&[page]);
                1
            }
            (Help::Twice, Some(page)) => {
                (0..2).for_each(|_| pages.free_pages(page, Order::ZERO));
                2
            }
            (Help::TwiceAtOnce, Some(page)) => {
                pages.free_pages_bulk(&[page, page]);
                2
            }
            (Help::Foreign, _) => self.free_foreign(pages),
            (Help::Borrowed, _) => self.free_borrowed(pages),
            (Help::All, _) => {
                let all = self.held.take();
                pages.free_pages_bulk(&all);
                all.len() as u64
            }
            _ => 0,
        }
    }

    fn free_foreign(&self, pages: &dyn FreePages) -> u64 {
        let end = self.engine.map().frames_max().end as u32;
        let beyond = [Pfn::new(end - 1), Pfn::new(end), Pfn::new(u32::MAX - 1)];
        let wrong_size = self.held.borrow().first().copied();
        beyond.into_iter().for_each(|pfn| pages.free_pages(pfn, Order::ZERO));
        wrong_size.into_iter().for_each(|pfn| pages.free_pages(pfn.align_down(Order::new(2)), Order::new(2)));
        3
    }

    fn free_borrowed(&self, pages: &dyn FreePages) -> u64 {
        self.engine.platform().run_as(Task { memalloc: true, ..Task::default() });
        let page = self.engine.alloc_pages(Gfp::KERNEL, Order::ZERO);
        self.engine.platform().run_as(Task::default());
        page.map_or(0, |page| {
            pages.free_pages(page, Order::ZERO);
            1
        })
    }

    /// Runs background tasks, including those that may be running during this call; these report that they are asleep.
    fn call_back(&self) {
        let node = NodeId(0);
        match self.calls.get() % 4 {
            0 => _ = self.engine.run_kswapd(node),
            1 => _ = self.engine.run_kcompactd(node),
            2 => self.engine.tick_kcompactd(node),
            // Bounded, because a platform that frees only the pages that it has just allocated keeps kswapd awake for
            // ever.
            _ => _ = (0..5).take_while(|_| self.engine.run_kswapd(node) == Background::Working).count(),
        }
    }
}

impl Hooks for Faulty<'_, '_> {
    fn reclaim(&self, pages: &dyn FreePages, _wanted: &Reclaim) -> Reclaimed {
        let said = self.help(pages, self.manners.reclaim);
        self.note_call();
        Reclaimed { pages: said, scanned: said }
    }

    fn migrate(&self, migration: &Migration) -> Migrated {
        let Migration { from, to, order, .. } = *migration;
        let place = self.held.borrow().iter().position(|&page| page == from);
        let answer = match (self.manners.migrate, place) {
            (Move::Never, _) | (_, None) => Migrated::Refused,
            (Move::Always, Some(place)) => {
                self.held.borrow_mut()[place] = to;
                Migrated::Moved
            }
            (Move::InName, Some(_)) => {
                // The owner continues to use the source, and the target is lost.
                self.lost.set(self.lost.get() + 1);
                Migrated::Moved
            }
            (Move::FreesSource, Some(place)) => {
                self.engine.free_pages(from, order).expect("the test holds this block");
                self.held.borrow_mut()[place] = to;
                Migrated::Moved
            }
            (Move::FreesTarget, Some(_)) => {
                self.engine.free_pages(to, order).expect("the target has a reference");
                Migrated::Refused
            }
            (Move::HoldsTarget, Some(_)) => {
                self.engine.get_page(to).expect("the target has a reference");
                self.lost.set(self.lost.get() + 1);
                Migrated::Refused
            }
        };
        self.note_call();
        answer
    }

    fn reclaimable(&self, _node: NodeId, _zone: ZoneKind) -> u64 {
        self.manners.reclaimable
    }

    fn out_of_memory(&self, pages: &dyn FreePages, _request: &Request) -> OutOfMemory {
        let said = self.help(pages, self.manners.last_resort);
        self.note_call();
        if said > 0 { OutOfMemory::Freed } else { OutOfMemory::NothingFreed }
    }

    fn relax(&self) -> Patience {
        self.note_call();
        self.patience.set(self.patience.get().saturating_sub(1));
        if self.patience.get() > 0 { Patience::Wait } else { Patience::GiveUp }
    }
}

/// Returns a configuration with small pageblocks.
pub(super) fn config() -> Config<'static> {
    let policy = Policy {
        pcp: PcpPolicy::Merge,
        numbers: Numbers { pcp_batch: Some(4), ..Numbers::default() },
        ..Policy::LINUX_6_12
    };
    Config { policy, pageblock_order: Order::new(4), end: Pfn::new(1 << 15), ..Config::default() }
}

/// Returns the memory of the machine, in two zones of one node.
pub(super) fn memory() -> [Range; 2] {
    [range(ZoneKind::Dma32, 0, 0, 512), range(ZoneKind::Normal, 0, 512, 2048)]
}
