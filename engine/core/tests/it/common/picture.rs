//! Snapshot of a whole machine: the states of all frames and pageblocks, all counters, and the texts of procfs. The
//! comparison of two snapshots returns their first difference.

use freehold::base::{MigrateType, Pfn, State};
use freehold::page::PageAllocator;
use freehold::platform::Platform;
use freehold::procfs;

/// State of a machine at one moment.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Picture {
    frames: Vec<(Pfn, State)>,
    /// First frame, current type, type without isolation, number of isolations.
    pageblocks: Vec<(Pfn, MigrateType, MigrateType, u8)>,
    /// Counters of each zone, with the pages on every CPU's lists.
    zones: Vec<Vec<u64>>,
    /// Lines of buddyinfo, pagetypeinfo and zoneinfo.
    texts: Vec<String>,
}

impl Picture {
    /// Takes a snapshot of a machine. Panics if the machine is not in order.
    pub(crate) fn take<P: Platform>(engine: &PageAllocator<'_, P>) -> Picture {
        engine.check().expect("the check must find no error");
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

    /// Returns the first difference from another snapshot.
    pub(crate) fn difference(&self, other: &Picture) -> Option<String> {
        first(&self.frames, &other.frames)
            .or_else(|| first(&self.pageblocks, &other.pageblocks))
            .or_else(|| first(&self.zones, &other.zones))
            .or_else(|| first(&self.texts, &other.texts))
    }

    /// Panics unless a machine looks exactly like this snapshot.
    #[track_caller]
    pub(crate) fn expect<P: Platform>(&self, engine: &PageAllocator<'_, P>, what: &str) {
        if let Some(difference) = self.difference(&Picture::take(engine)) {
            panic!("{what}: before and after are {difference}");
        }
    }

    /// Returns the first difference in frames or pageblocks, or `None`. Counters of zones and the tuning of per-CPU
    /// lists are not compared, so that two machines with different histories can be equal.
    pub(crate) fn difference_but_tuning(&self, other: &Picture) -> Option<String> {
        first(&self.frames, &other.frames).or_else(|| first(&self.pageblocks, &other.pageblocks))
    }
}

/// Returns every frame of all zones that is not inside a block. `check` has proved that the others are.
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
    procfs::buddyinfo(engine, &mut text).expect("writing into a string cannot fail");
    procfs::pagetypeinfo(engine, &mut text).expect("writing into a string cannot fail");
    procfs::zoneinfo(engine, &mut text).expect("writing into a string cannot fail");
    text.lines().map(String::from).collect()
}

fn first<T: PartialEq + core::fmt::Debug>(ours: &[T], theirs: &[T]) -> Option<String> {
    let place = (0..ours.len().max(theirs.len())).find(|&at| ours.get(at) != theirs.get(at))?;
    Some(format!("{:?}, then {:?}", ours.get(place), theirs.get(place)))
}
