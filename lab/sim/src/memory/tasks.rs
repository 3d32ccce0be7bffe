//! kswapd, kcompactd and khugepaged: code that runs beside the CPUs.
//!
//! Each node has a kswapd and a kcompactd, the machine one khugepaged. A task has a clock of its own, as if a processor
//! were always free for it, and uses the per-CPU lists of the last CPU of its node: so that CPU finds its list locked
//! now and then. What tasks spend is not the CPUs' time; it is counted apart. The first two do what the engine's state
//! machines say, until these say that they sleep.
//!
//! linux: mm/vmscan.c:kswapd, mm/compaction.c:kcompactd, mm/khugepaged.c:khugepaged

use freehold::PageAllocator;
use freehold::base::NodeId;
use freehold::page::Background;

use super::Model;
use super::khugepaged::Khugepaged;
use crate::executor::{Executor, Step};
use crate::virtual_time::VirtualTime;

/// Picoseconds in a millisecond.
const PS_PER_MS: u64 = 1_000_000_000;
/// How often kcompactd looks unasked. linux: mm/compaction.c:HPAGE_FRAG_CHECK_INTERVAL_MSEC
const KCOMPACTD_TICK: u64 = 500 * PS_PER_MS;
/// Tasks of a node.
const PER_NODE: u16 = 2;

/// A task beside the CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Reclaims for a node.
    Kswapd(NodeId),
    /// Compacts a node.
    Kcompactd(NodeId),
    /// Makes huge pages.
    Khugepaged,
}

impl Task {
    /// How many there are on a machine with so many nodes.
    pub const fn count(nodes: u8) -> u16 {
        nodes as u16 * PER_NODE + 1
    }

    /// The task with this number, of a machine with so many nodes.
    pub fn from_number(number: u16, nodes: u8) -> Task {
        let node = NodeId((number / PER_NODE) as u8);
        match number % PER_NODE {
            _ if node.0 >= nodes => Task::Khugepaged,
            0 => Task::Kswapd(node),
            _ => Task::Kcompactd(node),
        }
    }

    /// Its number.
    pub fn number(self, nodes: u8) -> u16 {
        match self {
            Task::Kswapd(node) => u16::from(node.0) * PER_NODE,
            Task::Kcompactd(node) => u16::from(node.0) * PER_NODE + 1,
            Task::Khugepaged => u16::from(nodes) * PER_NODE,
        }
    }

    /// The node on which it runs.
    pub fn node(self) -> NodeId {
        match self {
            Task::Kswapd(node) | Task::Kcompactd(node) => node,
            Task::Khugepaged => NodeId(0),
        }
    }

    /// What it does until the run is over.
    pub fn run(self, allocator: &PageAllocator<'_, VirtualTime>) {
        match self {
            Task::Kswapd(node) => run_kswapd(allocator, node),
            Task::Kcompactd(node) => run_kcompactd(allocator, node),
            Task::Khugepaged => run_khugepaged(allocator, allocator.platform().model()),
        }
    }
}

fn run_kswapd(allocator: &PageAllocator<'_, VirtualTime>, node: NodeId) {
    let time = allocator.platform();
    while !time.is_over() {
        work(time, || allocator.run_kswapd(node));
        time.wait();
    }
}

fn run_kcompactd(allocator: &PageAllocator<'_, VirtualTime>, node: NodeId) {
    let time = allocator.platform();
    let mut tick = KCOMPACTD_TICK;
    while !time.is_over() {
        work(time, || allocator.run_kcompactd(node));
        if time.now() >= tick {
            allocator.tick_kcompactd(node);
            tick = time.now() + KCOMPACTD_TICK;
        }
        time.wait_until(tick);
    }
}

fn run_khugepaged(allocator: &PageAllocator<'_, VirtualTime>, model: &Model) {
    let (time, thp) = (allocator.platform(), model.thp());
    if thp.pages_to_scan == 0 {
        return;
    }
    let sleep = |ms: u64| time.wait_until(time.now() + ms * PS_PER_MS);
    let mut khugepaged = Khugepaged::new(allocator, model);
    while !time.is_over() {
        sleep(thp.scan_sleep_ms);
        khugepaged.scan(sleep);
    }
}

/// Calls a state machine until it sleeps. Each call takes a little time, so that one that never sleeps ends with the
/// run.
fn work(time: &VirtualTime, mut step: impl FnMut() -> Background) {
    while !time.is_over() && step() == Background::Working {
        time.charge(Step::Scan);
        time.take_turn();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_numbered_one_after_the_other() {
        for nodes in [1, 2, 8] {
            let tasks: Vec<Task> = (0..Task::count(nodes)).map(|number| Task::from_number(number, nodes)).collect();
            assert!(tasks.iter().enumerate().all(|(number, task)| usize::from(task.number(nodes)) == number));
            assert_eq!(tasks.iter().filter(|&&task| task == Task::Khugepaged).count(), 1);
        }
    }
}
