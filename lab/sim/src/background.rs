//! Background tasks that run beside the CPUs: kswapd, kcompactd and khugepaged.
//!
//! Each node has a kswapd and a kcompactd; the machine has one khugepaged. A task has its own clock, as if a processor
//! were always free for it. It uses the per-CPU lists of the last CPU of its node, so that CPU sometimes finds its list
//! locked. The time of tasks is counted apart from the time of CPUs. kswapd and kcompactd call the engine's state
//! machines until these report that they sleep.
//!
//! linux: mm/vmscan.c:kswapd, mm/compaction.c:kcompactd, mm/khugepaged.c:khugepaged

use freehold::PageAllocator;
use freehold::base::NodeId;
use freehold::page::Background;

use crate::executor::{Executor, Step};
use crate::memory::Model;
use crate::memory::khugepaged::Khugepaged;
use crate::task::Task;
use crate::virtual_time::VirtualTime;

/// Picoseconds in a millisecond.
const PS_PER_MS: u64 = 1_000_000_000;
/// Picoseconds between two proactive checks of kcompactd. linux: mm/compaction.c:HPAGE_FRAG_CHECK_INTERVAL_MSEC
const KCOMPACTD_TICK: u64 = 500 * PS_PER_MS;

/// Runs a task until the run is over. khugepaged returns at once if it is disabled.
pub(crate) fn run_task(task: Task, allocator: &PageAllocator<'_, VirtualTime>) {
    match task {
        Task::Kswapd(node) => run_kswapd(allocator, node),
        Task::Kcompactd(node) => run_kcompactd(allocator, node),
        Task::Khugepaged => run_khugepaged(allocator, allocator.platform().model()),
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
    let mut khugepaged = Khugepaged::new(allocator, model);
    while !time.is_over() {
        sleep(time, thp.scan_sleep_ms);
        khugepaged.scan(|ms| sleep(time, ms));
    }
}

fn sleep(time: &VirtualTime, ms: u64) {
    time.wait_until(time.now() + ms * PS_PER_MS);
}

/// Calls a state machine until it sleeps or the run is over. Each call is charged a little time, so a state machine
/// that never sleeps still stops when the run is over.
fn work(time: &VirtualTime, mut step: impl FnMut() -> Background) {
    while !time.is_over() && step() == Background::Working {
        time.charge(Step::Scan);
        time.take_turn();
    }
}
