//! Memory of a process and its child processes: shared pages are divided by the number of processes that map them.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// Time between samples. A sample takes about 0.1 ms for each process.
const INTERVAL: Duration = Duration::from_millis(20);

/// Returns the proportional resident memory of a process and its descendants, in KiB. Processes that end meanwhile
/// count as 0.
pub(in crate::malloc) fn tree_kib(process: u32) -> u64 {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    proportional_kib(process) + children.map(tree_kib).sum::<u64>()
}

/// Returns the proportional resident memory of a process, in KiB; 0 if it has ended.
fn proportional_kib(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// Calls `work` and returns its result, and the largest sample of the memory of a process and its descendants, in KiB.
pub(super) fn sample_peak<T>(process: u32, work: impl FnOnce() -> T) -> (T, u64) {
    let (is_over, peak) = (&AtomicBool::new(false), &AtomicU64::new(0));
    let result = thread::scope(|scope| {
        scope.spawn(move || {
            while !is_over.load(Relaxed) {
                peak.fetch_max(tree_kib(process), Relaxed);
                thread::park_timeout(INTERVAL);
            }
        });
        let result = work();
        is_over.store(true, Relaxed);
        result
    });
    (result, peak.load(Relaxed).max(tree_kib(process)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_process_is_sampled() {
        let (result, peak) = sample_peak(std::process::id(), || 5);
        assert!(result == 5 && peak > 500, "{peak}");
        assert_eq!(tree_kib(u32::MAX), 0);
    }
}
