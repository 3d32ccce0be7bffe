//! Heaps of processes that use Freehold's malloc: the use of the pages that the kernel gave them.

use freehold_trace::Facts;
use freehold_trace::facts::HeapMoment;
use serde::Serialize;

use super::census::Census;
use super::machine;

/// Heap of a process at the moment when the process was largest. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeapRow {
    /// Name of the process.
    pub name: String,
    /// Process id.
    pub pid: u32,
    /// Pages that the kernel allocated for the threads of the process during the recording.
    pub pages: u64,
    /// Requests of these threads to the page allocator, including failed ones.
    pub requests: u64,
    /// Time of the largest sample, in seconds since the start of the recording.
    pub seconds: f64,
    /// Resident memory of the process.
    pub resident: u64,
    /// Resident objects that the program had allocated.
    pub objects: u64,
    /// Resident runs of pages that the program had allocated.
    pub runs: u64,
    /// Resident objects cached by CPUs, and the resident rest of slabs.
    pub idle: u64,
    /// Resident free pages and runs.
    pub free: u64,
    /// Free pages and runs that are not resident: returned to the kernel or never written to.
    pub given_back: u64,
    /// Number of samples of the heap.
    pub looks: usize,
}

/// Returns a row for each heap that was sampled, the largest process first.
pub(crate) fn rows(facts: &Facts, census: &Census) -> Vec<HeapRow> {
    let rows = facts.heaps.iter().filter_map(|heap| {
        let &HeapMoment { time, resident, objects, idle, runs, free, given_back } =
            heap.moments.iter().max_by_key(|moment| moment.resident)?;
        let (requests, pages) = census.of_tasks(facts, &heap.threads);
        let (name, pid, looks) = (heap.name.clone(), heap.pid, heap.moments.len());
        let seconds = machine::seconds(time);
        Some(HeapRow { name, pid, pages, requests, seconds, resident, objects, runs, idle, free, given_back, looks })
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.resident));
    rows
}

#[cfg(test)]
mod tests {
    use freehold_trace::facts::{HeapFacts, Task};
    use freehold_trace::{Kind, Row};

    use super::*;

    fn moment_at(time: u64, resident: u64) -> HeapMoment {
        HeapMoment { time, resident, ..HeapMoment::default() }
    }

    fn heap_of(pid: u32, threads: &[u32], moments: &[HeapMoment]) -> HeapFacts {
        HeapFacts { pid, threads: threads.to_vec(), moments: moments.to_vec(), ..HeapFacts::default() }
    }

    #[test]
    fn heap_row_shows_the_peak_and_pages_of_all_threads() {
        let facts = Facts {
            tasks: [0, 7, 8, 9].map(|pid| Task { pid, ..Task::default() }).to_vec(),
            heaps: vec![
                heap_of(9, &[9], &[]),
                heap_of(
                    7,
                    &[7, 8],
                    &[moment_at(1_000_000_000, 5), moment_at(2_000_000_000, 9), moment_at(3_000_000_000, 6)],
                ),
            ],
            ..Facts::default()
        };
        let mut census = Census::new();
        for (task, order) in [(1, 0), (2, 3), (3, 9)] {
            census.observe(&Row { task, order, pfn: 64, ..Row::new(Kind::Alloc) });
        }
        let rows = rows(&facts, &census);
        let [row] = &rows[..] else { panic!("a heap that was never seen has no row") };
        assert_eq!((row.pid, row.requests, row.pages), (7, 2, 9));
        assert_eq!((row.seconds, row.resident, row.looks), (2.0, 9, 3));
    }
}
