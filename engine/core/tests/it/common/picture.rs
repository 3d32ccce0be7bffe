//! A picture of a whole machine: what every frame and every pageblock is, every counter, and the texts of procfs. Two
//! pictures are the same, or the first difference has a name.

use freehold::base::{MigrateType, Pfn, State};
use freehold::page::PageAllocator;
use freehold::platform::Platform;
use freehold::procfs;

/// One machine at one moment.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Picture {
    frames: Vec<(Pfn, State)>,
    /// First frame, type, type when nobody isolates it, how many do.
    pageblocks: Vec<(Pfn, MigrateType, MigrateType, u8)>,
    /// Zones' counters, with the pages on every CPU's lists.
    zones: Vec<Vec<u64>>,
    /// buddyinfo, pagetypeinfo and zoneinfo, line by line.
    texts: Vec<String>,
}

impl Picture {
    /// Takes one, of a machine that must be in order.
    pub(crate) fn take<P: Platform>(engine: &PageAllocator<'_, P>) -> Picture {
        engine.check().expect("the machine is in order");
        let pageblocks = engine.map().pageblocks().map(|pfn| {
            let block = engine.map().pageblock(pfn);
            (pfn, block.migratetype(), block.lasting_migratetype(), block.isolations())
        });
        Picture {
            frames: heads(engine),
            pageblocks: pageblocks.collect(),
            zones: (0..engine.zones().len()).map(|zone| counters(engine, zone)).collect(),
            texts: texts(engine),
        }
    }

    /// Where another picture differs first, if it does.
    pub(crate) fn difference(&self, other: &Picture) -> Option<String> {
        first(&self.frames, &other.frames)
            .or_else(|| first(&self.pageblocks, &other.pageblocks))
            .or_else(|| first(&self.zones, &other.zones))
            .or_else(|| first(&self.texts, &other.texts))
    }

    /// Fails unless a machine looks exactly like this.
    #[track_caller]
    pub(crate) fn expect<P: Platform>(&self, engine: &PageAllocator<'_, P>, what: &str) {
        if let Some(difference) = self.difference(&Picture::take(engine)) {
            panic!("{what}: before and after are {difference}");
        }
    }

    /// What the frames are, pageblock types, and counters of zones, but not how the per-CPU lists are tuned: for
    /// machines that came to the same place by different ways.
    pub(crate) fn difference_but_tuning(&self, other: &Picture) -> Option<String> {
        first(&self.frames, &other.frames).or_else(|| first(&self.pageblocks, &other.pageblocks))
    }
}

/// Every frame of a zone that is not inside a block. `check` has proved that all others are.
fn heads<P: Platform>(engine: &PageAllocator<'_, P>) -> Vec<(Pfn, State)> {
    let mut heads = Vec::new();
    for zone in engine.zones() {
        let (mut at, end) = zone.span();
        while at < end {
            let state = engine.state(at).unwrap_or(State::Reserved);
            heads.push((at, state));
            at = match state {
                State::ZoneFree { order, .. }
                | State::PcpCached { order, .. }
                | State::RemotePending { order }
                | State::Claimed { order }
                | State::Allocated { order, .. } => at.offset(order.pages()),
                State::Absent | State::Reserved | State::Interior | State::Withheld => at.offset(1),
            };
        }
    }
    heads
}

fn counters<P: Platform>(engine: &PageAllocator<'_, P>, zone: usize) -> Vec<u64> {
    let zone = &engine.zones()[zone];
    let mut counters = vec![
        zone.present(),
        zone.managed(),
        zone.cma(),
        zone.boost(),
        zone.free_pages(),
        zone.free_cma(),
        zone.free_highatomic(),
        zone.reserved_highatomic(),
    ];
    counters.extend(engine.cpu_ids().map(|cpu| {
        let pcp = engine.pcp(cpu, zone);
        u64::from(pcp.inspect(|lists| lists.count()) + pcp.waiting())
    }));
    counters
}

fn texts<P: Platform>(engine: &PageAllocator<'_, P>) -> Vec<String> {
    let mut text = String::new();
    procfs::buddyinfo(engine, &mut text).expect("a string takes everything");
    procfs::pagetypeinfo(engine, &mut text).expect("a string takes everything");
    procfs::zoneinfo(engine, &mut text).expect("a string takes everything");
    text.lines().map(String::from).collect()
}

fn first<T: PartialEq + core::fmt::Debug>(ours: &[T], theirs: &[T]) -> Option<String> {
    let place = (0..ours.len().max(theirs.len())).find(|&at| ours.get(at) != theirs.get(at))?;
    Some(format!("{:?}, then {:?}", ours.get(place), theirs.get(place)))
}
