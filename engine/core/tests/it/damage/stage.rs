//! The machine that is damaged: one thread, two CPUs, one zone with a CMA area and some Reserved memory. The damage may
//! be delayed until the engine calls its platform in the middle of an operation.

use std::cell::Cell;

use freehold::base::lock::SoloLock;
use freehold::base::{CpuId, Gfp, MigrateType, NodeId, Order, Pfn, ZoneKind};
use freehold::page::damage::Damage;
use freehold::page::{CmaArea, Config, MinFree, PageAllocator, Range, Zone};
use freehold::platform::{FreePages, Migrated, Migration, NoProbe, Patience, Platform, Reclaim, Reclaimed};
use freehold::policy::{Numbers, PcpPolicy, Policy};

/// Number of frames of the zone.
pub(super) const FRAMES: u32 = 16_384;
/// Start and end of the CMA area.
pub(super) const AREA: (u32, u32) = (12_288, 13_312);
/// Start of the memory that is online and Reserved.
pub(super) const RESERVED: u32 = 15_360;
/// Pages in a pageblock.
pub(super) const PAGEBLOCK: u32 = 512;
/// Flags of movable pages.
pub(super) const MOVABLE: Gfp = Gfp::HIGHUSER_MOVABLE;

pub(super) type Engine = PageAllocator<'static, Meddler>;
pub(super) type OneZone = Zone<SoloLock>;

/// A stage, and a function that damages it.
type Meddling = (&'static Stage, fn(&'static Stage));

/// A platform that can damage the machine during a callback.
#[derive(Default)]
pub(super) struct Meddler {
    cpu: Cell<u16>,
    meddle: Cell<Option<Meddling>>,
    /// Damage at the next read of the CPU number.
    meddle_on_cpu: Cell<Option<Meddling>>,
}

impl Meddler {
    fn is_asked(&self) {
        if let Some((stage, meddle)) = self.meddle.take() {
            meddle(stage);
        }
    }
}

impl Platform for Meddler {
    type Lock = SoloLock;
    type Probe = NoProbe;

    fn probe(&self) -> &NoProbe {
        &NoProbe
    }

    fn cpu(&self) -> CpuId {
        if let Some((stage, meddle)) = self.meddle_on_cpu.take() {
            meddle(stage);
        }
        CpuId(self.cpu.get())
    }

    fn reclaim(&self, _pages: &dyn FreePages, _wanted: &Reclaim) -> Reclaimed {
        self.is_asked();
        Reclaimed::default()
    }

    fn migrate(&self, _migration: &Migration) -> Migrated {
        self.is_asked();
        Migrated::Refused
    }

    fn migrates(&self) -> bool {
        true
    }

    fn wake_kswapd(&self, _node: NodeId) {
        self.is_asked();
    }

    fn relax(&self) -> Patience {
        self.is_asked();
        Patience::GiveUp
    }
}

/// The machine, and whether it is to be damaged.
pub(super) struct Stage {
    pub engine: Engine,
    pub area: CmaArea<'static, SoloLock>,
    is_armed: bool,
    is_spoiled: Cell<bool>,
}

/// Whether a row is played with its damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Play {
    Sound,
    Spoiled,
}

/// Allocates metadata and never frees it, because a damaged machine cannot be dropped safely.
fn memory(layout: core::alloc::Layout) -> &'static mut [core::mem::MaybeUninit<u8>] {
    Box::leak(Box::new_uninit_slice(layout.size() + layout.align()))
}

impl Stage {
    /// Builds a machine with this policy of per-CPU lists. Where CPUs own pageblocks, the lists of a CPU hold up to
    /// four of them.
    pub(super) fn new(pcp: PcpPolicy, play: Play) -> &'static Stage {
        let numbers = Numbers { pcp_batch: pcp.owns().then_some(PAGEBLOCK), ..Numbers::default() };
        let policy = Policy { pcp, numbers, ..Policy::LINUX_6_12 };
        let config = Config { cpu_nodes: &[NodeId(0); 2], policy, end: Pfn::new(FRAMES), ..Config::default() };
        let range = Range { start: Pfn::new(0), end: Pfn::new(FRAMES), node: NodeId(0), kind: ZoneKind::Normal };
        let engine = PageAllocator::new(Meddler::default(), &config, memory(config.metadata_layout::<Meddler>()));
        let engine = engine.expect("the configuration must be valid");
        engine.online(&range, memory(engine.online_layout(&range))).expect("the memory range must be valid");
        let area = Pfn::new(AREA.0)..Pfn::new(AREA.1);
        let bitmap = memory(CmaArea::<SoloLock>::layout(AREA.1 - AREA.0, Order::ZERO));
        let area = engine.reserve_cma(area, Order::ZERO, bitmap).expect("the area can be reserved");
        for (start, end) in [(0, AREA.0), (AREA.1, RESERVED)] {
            engine.release(Pfn::new(start), Pfn::new(end)).expect("the frames must be online");
        }
        engine.set_up_watermarks(MinFree::Pages(64));
        Box::leak(Box::new(Stage { engine, area, is_armed: play == Play::Spoiled, is_spoiled: Cell::new(false) }))
    }

    /// Applies the damage, unless the play is without damage.
    pub(super) fn spoil(&self, damage: impl FnOnce(Damage<'_, 'static, Meddler>)) {
        if self.is_armed {
            self.is_spoiled.set(true);
            damage(self.engine.damage());
        }
    }

    /// Calls `meddle` at the next callback of the platform.
    pub(super) fn spoil_when_asked(&'static self, meddle: fn(&'static Stage)) {
        self.engine.platform().meddle.set(Some((self, meddle)));
    }

    /// Calls `meddle` at the next read of the CPU number.
    pub(super) fn spoil_when_located(&'static self, meddle: fn(&'static Stage)) {
        self.engine.platform().meddle_on_cpu.set(Some((self, meddle)));
    }

    pub(super) fn is_spoiled(&self) -> bool {
        self.is_spoiled.get()
    }

    pub(super) fn run_on(&self, cpu: u16) {
        self.engine.platform().cpu.set(cpu);
    }

    pub(super) fn zone(&self) -> &'static OneZone {
        self.engine.zone(NodeId(0), ZoneKind::Normal)
    }

    /// Allocates a movable block.
    pub(super) fn take(&self, order: u8) -> Pfn {
        self.engine.alloc_pages(MOVABLE, Order::new(order)).expect("enough memory must be free")
    }

    pub(super) fn free(&self, pfn: Pfn, order: u8) {
        self.engine.free_pages(pfn, Order::new(order)).expect("the block is allocated");
    }

    /// Allocates the given page out of a free block in the zone.
    pub(super) fn cut_out(&self, pfn: Pfn) {
        let is_taken = self.engine.isolate_free_page(pfn, Order::ZERO, MOVABLE).expect("the frame is online");
        assert!(is_taken, "frame {pfn} is free");
    }

    /// Returns the free movable blocks of an order in the zone, first to last.
    pub(super) fn free_list(&self, order: u8) -> Vec<Pfn> {
        self.zone()
            .inspect(|areas| areas.area(Order::new(order)).list(MigrateType::Movable).iter(self.engine.map()).collect())
    }

    /// Returns the first page on CPU 0's list of movable single pages.
    pub(super) fn first_listed(&self) -> Pfn {
        let first =
            self.engine.pcp(CpuId(0), self.zone()).inspect(|lists| lists.list(MigrateType::Movable.index()).first());
        first.expect("the list has a page")
    }

    /// Makes CPU 0 own two movable pageblocks in part. Returns one allocated page of each. CPU 0's lists are empty
    /// afterwards.
    pub(super) fn two_fragments(&self) -> [Pfn; 2] {
        let pages: Vec<Pfn> = (0..=PAGEBLOCK).map(|_| self.take(0)).collect();
        let [first, last] = [pages[0], pages[PAGEBLOCK as usize]];
        pages[1..PAGEBLOCK as usize].iter().for_each(|&page| self.free(page, 0));
        self.engine.drain_pages_zone(CpuId(0), self.zone());
        let owned = [first, last].map(|page| self.engine.map().pageblock(page).is_listed());
        assert_eq!(owned, [true; 2], "both are owned in part");
        [first, last]
    }

    /// Returns a page on CPU 0's stack, freed on the other CPU.
    pub(super) fn stacked(&self) -> Pfn {
        let page = self.take(0);
        self.run_on(1);
        self.free(page, 0);
        self.run_on(0);
        assert_eq!(self.engine.damage().stack(CpuId(0), self.zone()), Some(page));
        page
    }
}
