//! kswapd and kcompactd: the engine's, at the pace of the recorded ones.
//!
//! A task that was woken runs pass after pass between two events, as long as the recorded time allows: each pass takes as long as
//! the recorded task would have taken to look at as many pages, and none begins while the recorded task waited ([`Pace`]). Between
//! passes requests find memory as it is by then.

use std::cell::Cell;

use freehold::base::{CpuId, NodeId};
use freehold::page::Background;
use freehold::stats::Counts;

use super::platform::Stage;
use super::survey::Pace;
use super::{Engine, ProbeCounts};

/// Nanoseconds between two looks of kcompactd at fragmentation. linux: mm/compaction.c:kcompactd
const LOOK: u64 = 500_000_000;
/// Nanoseconds without an event of which no more is worth looking at.
const IDLE_MAX: u64 = 60_000_000_000;
/// Nanoseconds that a pass takes at least, so that one which finds nothing to look at takes its time too.
const PASS_MIN: u64 = 10_000;

/// The tasks of all nodes.
#[derive(Debug)]
pub struct Tasks {
    kswapd: Daemon,
    kcompactd: Daemon,
    next_look: u64,
}

/// One kind of task.
#[derive(Debug)]
struct Daemon {
    /// For each node, when its task goes on; `None` while it sleeps.
    next: Vec<Option<u64>>,
    ns_per_page: u64,
    /// For each node, when its task has to wait: from, until. In order of time.
    waits: Vec<Vec<(u64, u64)>>,
    woken: fn(&Stage) -> &Cell<u64>,
    pass: fn(&Engine<'_>, NodeId) -> Background,
    /// Pages that it has looked at so far.
    looked_at: fn(&Counts) -> u64,
}

impl Tasks {
    /// All asleep.
    pub fn new(nodes: u8, pace: &Pace) -> Tasks {
        let next = vec![None; usize::from(nodes)];
        Tasks {
            kswapd: Daemon {
                next: next.clone(),
                ns_per_page: pace.kswapd,
                waits: pace.waits.clone(),
                woken: |stage| stage.kswapds(),
                pass: |engine, node| engine.run_kswapd(node),
                looked_at: |counts| counts.pgscan_kswapd,
            },
            kcompactd: Daemon {
                next,
                ns_per_page: pace.kcompactd,
                waits: Vec::new(),
                woken: |stage| stage.kcompactds(),
                pass: |engine, node| engine.run_kcompactd(node),
                looked_at: |counts| counts.compact_daemon_migrate_scanned + counts.compact_daemon_free_scanned,
            },
            next_look: LOOK,
        }
    }

    /// Lets them do what they can until `time`, on the first CPU of their node.
    #[inline]
    pub fn run_until(&mut self, time: u64, engine: &Engine<'_>) {
        let stage = engine.platform();
        if self.next_look <= time || stage.kswapds().get() | stage.kcompactds().get() != 0 {
            self.work_until(time, engine);
        }
    }

    #[cold]
    fn work_until(&mut self, time: u64, engine: &Engine<'_>) {
        self.next_look = self.next_look.max(time.saturating_sub(IDLE_MAX));
        loop {
            self.run_daemons_until(time.min(self.next_look), engine);
            if self.next_look > time {
                break;
            }
            self.next_look += LOOK;
            (0..engine.nodes()).for_each(|node| engine.tick_kcompactd(NodeId(node)));
        }
    }

    fn run_daemons_until(&mut self, time: u64, engine: &Engine<'_>) {
        for node in (0..engine.nodes()).map(NodeId) {
            let cpu = engine.cpu_ids().find(|&cpu| engine.node_of(cpu) == node);
            engine.platform().run_on(cpu.unwrap_or(CpuId(0)));
            self.kswapd.run_until(time, node, engine);
            self.kcompactd.run_until(time, node, engine);
        }
    }
}

impl Daemon {
    fn run_until(&mut self, time: u64, node: NodeId, engine: &Engine<'_>) {
        let woken = (self.woken)(engine.platform());
        let bit = 1_u64 << node.0;
        let at = usize::from(node.0);
        if woken.get() & bit == 0 {
            return;
        }
        let mut now = self.next[at].take().unwrap_or(time);
        while now <= time {
            if let Some(until) = self.wait_at(at, now) {
                now = until;
                continue;
            }
            let before = (self.looked_at)(&engine.platform().probe_counts());
            if (self.pass)(engine, node) == Background::Asleep {
                woken.set(woken.get() & !bit);
                return;
            }
            let pages = (self.looked_at)(&engine.platform().probe_counts()) - before;
            now += (pages * self.ns_per_page).max(PASS_MIN);
        }
        self.next[at] = Some(now);
    }

    /// Until when a node's task waits, if it does so now.
    fn wait_at(&self, node: usize, now: u64) -> Option<u64> {
        let waits = self.waits.get(node)?;
        let next = waits.partition_point(|&(_, until)| until <= now);
        waits.get(next).filter(|&&(from, _)| from <= now).map(|&(_, until)| until)
    }
}
