//! A platform that owns single pages, and does one thing wrong in each of its promises.

use core::cell::{Cell, RefCell};

use freehold::Policy;
use freehold::base::{Gfp, NodeId, Order, Pfn, ZoneKind};
use freehold::page::{Background, Config, Range};
use freehold::platform::{FreePages, Migrated, Migration, OutOfMemory, Patience, Reclaim, Reclaimed, Request, Task};
use freehold::policy::{Numbers, PcpPolicy};

use crate::common::{Hooks, range};
use crate::faults::Engine;

/// What reclaim, and what the last resort, does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Help {
    /// Nothing, and says so.
    Nothing,
    /// Nothing, and claims a page.
    Claimed,
    /// Frees a page, and denies it.
    Denied,
    /// Frees a page.
    One,
    /// Frees a page twice, and says that it freed two.
    Twice,
    /// Frees a page twice at once, and says that it freed two.
    TwiceAtOnce,
    /// Frees what it does not own: the inside of a block, a free page, a frame that does not exist.
    Foreign,
    /// Frees a page that it has just allocated, again and again.
    Borrowed,
    /// Frees all that is held.
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

/// What migration does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Refuses.
    Never,
    /// Moves what it owns.
    Always,
    /// Says that it moved, and did not.
    InName,
    /// Frees the old place, and says that it moved.
    FreesSource,
    /// Frees the new place, and says that it refused.
    FreesTarget,
    /// Keeps a reference to the new place, and says that it refused.
    HoldsTarget,
}

pub(super) const MOVES: [Move; 6] =
    [Move::Never, Move::Always, Move::InName, Move::FreesSource, Move::FreesTarget, Move::HoldsTarget];

/// What happens in every call besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Besides {
    /// The whole allocator is checked.
    Check,
    /// Background tasks are driven at the oddest of times.
    CallBack,
}

/// What a platform does wrong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manners {
    pub reclaim: Help,
    pub migrate: Move,
    pub last_resort: Help,
    /// Pages that it says could be reclaimed in each zone.
    pub reclaimable: u64,
    pub besides: Besides,
}

/// Does nothing, and no wrong.
pub(super) const IDLE: Manners = Manners {
    reclaim: Help::Nothing,
    migrate: Move::Never,
    last_resort: Help::Nothing,
    reclaimable: 0,
    besides: Besides::Check,
};

/// More calls than any request needs, whatever it is told.
const CALLS_MAX: u32 = 200_000;

/// The platform.
pub(super) struct Faulty<'a, 'h> {
    pub engine: &'a Engine<'a, 'h>,
    pub manners: Manners,
    /// Pages that it owns, each with one reference.
    pub held: RefCell<Vec<Pfn>>,
    /// Pages that it lost, to the engine or by its own fault.
    pub lost: Cell<usize>,
    /// Calls after which it is out of patience.
    pub patience: Cell<u32>,
    pub calls: Cell<u32>,
}

impl<'a, 'h> Faulty<'a, 'h> {
    pub(super) fn new(engine: &'a Engine<'a, 'h>, manners: Manners) -> Faulty<'a, 'h> {
        let (held, lost, calls) = (RefCell::default(), Cell::new(0), Cell::new(0));
        Faulty { engine, manners, held, lost, patience: Cell::new(40), calls }
    }

    /// Allocates pages until there are none, without help.
    pub(super) fn run_dry(&self, gfp: Gfp) {
        while let Ok(page) = self.engine.alloc_pages(gfp - Gfp::DIRECT_RECLAIM, Order::ZERO) {
            self.held.borrow_mut().push(page);
        }
    }

    /// Pages that are allocated on its behalf.
    pub(super) fn account(&self) -> usize {
        self.held.borrow().len() + self.lost.get()
    }

    fn note_call(&self) {
        self.calls.set(self.calls.get() + 1);
        assert!(self.calls.get() < CALLS_MAX, "the request does not end");
        match self.manners.besides {
            Besides::Check => _ = self.engine.check().expect("nothing is lost"),
            Besides::CallBack => self.call_back(),
        }
    }

    /// Frees what its manners say, and says how many pages that were.
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

    /// Drives what may be driving this very call: it is told that the task is asleep.
    fn call_back(&self) {
        let node = NodeId(0);
        match self.calls.get() % 4 {
            0 => _ = self.engine.run_kswapd(node),
            1 => _ = self.engine.run_kcompactd(node),
            2 => self.engine.tick_kcompactd(node),
            // A platform that frees what it has just taken keeps kswapd awake for ever.
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
                // The owner goes on using the old place, and nobody knows of the new one.
                self.lost.set(self.lost.get() + 1);
                Migrated::Moved
            }
            (Move::FreesSource, Some(place)) => {
                self.engine.free_pages(from, order).expect("it is held");
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

/// Small pageblocks, in two zones of one node.
pub(super) fn config() -> Config<'static> {
    let policy = Policy {
        pcp: PcpPolicy::Merge,
        numbers: Numbers { pcp_batch: Some(4), ..Numbers::default() },
        ..Policy::LINUX_6_12
    };
    Config { policy, pageblock_order: Order::new(4), end: Pfn::new(1 << 15), ..Config::default() }
}

/// The memory of such a machine.
pub(super) fn memory() -> [Range; 2] {
    [range(ZoneKind::Dma32, 0, 0, 512), range(ZoneKind::Normal, 0, 512, 2048)]
}
