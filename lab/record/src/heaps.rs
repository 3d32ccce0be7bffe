//! Heaps of the command and its child processes, as seen from outside. The [`Watch`](crate::Watch) provides the
//! readings.

use std::time::Duration;

use freehold_trace::facts::{HeapFacts, HeapMoment};

use crate::clock::nanoseconds;

/// Largest number of moments that are kept for a process. Beyond it, every second one is removed.
const MOMENTS: usize = 512;

/// One reading of a heap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapReading {
    /// Time since the reading was made.
    pub age: Duration,
    /// Process id.
    pub pid: u32,
    /// Start time of the process, since process ids are reused.
    pub started: u64,
    /// Name of the process.
    pub name: String,
    /// Ids of its threads.
    pub threads: Vec<u32>,
    /// Contents of the heap. The time is not used.
    pub moment: HeapMoment,
}

/// Heaps that were seen, with times of the clock. If a process executes another program, it gets another heap.
#[derive(Debug, Default)]
pub(crate) struct Heaps(Vec<Heap>);

/// One heap, and the start time of its process.
#[derive(Debug)]
struct Heap {
    started: u64,
    facts: HeapFacts,
}

impl Heaps {
    /// Adds readings that were made before `now`.
    pub(crate) fn note(&mut self, now: u64, seen: Vec<HeapReading>) {
        for HeapReading { age, pid, started, name, threads, moment } in seen {
            let heap = self.find_or_add(started, pid, name);
            heap.threads.extend(threads);
            heap.threads.sort_unstable();
            heap.threads.dedup();
            heap.moments.push(HeapMoment { time: now.saturating_sub(nanoseconds(age)), ..moment });
            if heap.moments.len() > MOMENTS {
                let mut keeps = false;
                heap.moments.retain(|_| {
                    keeps = !keeps;
                    keeps
                });
            }
        }
    }

    /// Returns the heap of the process that began at `started`, and adds it if it is new.
    fn find_or_add(&mut self, started: u64, pid: u32, name: String) -> &mut HeapFacts {
        let known =
            self.0.iter().position(|heap| (heap.started, heap.facts.pid, &heap.facts.name) == (started, pid, &name));
        let index = known.unwrap_or(self.0.len());
        if known.is_none() {
            self.0.push(Heap { started, facts: HeapFacts { pid, name, ..HeapFacts::default() } });
        }
        &mut self.0[index].facts
    }

    /// Returns all heaps, with times since `start`.
    pub(crate) fn since(&self, start: u64) -> Vec<HeapFacts> {
        let mut heaps: Vec<_> = self.0.iter().map(|heap| heap.facts.clone()).collect();
        for moment in heaps.iter_mut().flat_map(|heap| &mut heap.moments) {
            moment.time = moment.time.saturating_sub(start);
        }
        heaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(pid: u32, started: u64, name: &str, threads: &[u32]) -> HeapReading {
        let (name, threads) = (name.to_owned(), threads.to_vec());
        HeapReading { age: Duration::from_nanos(5), pid, started, name, threads, ..HeapReading::default() }
    }

    #[test]
    fn program_threads_share_a_heap_with_bounded_moments() {
        let mut heaps = Heaps::default();
        for time in 100..2100 {
            heaps.note(time, vec![reading(7, 1, "sh", &[7, 9]), reading(8, 1, "sh", &[8])]);
            heaps.note(time, vec![reading(7, 1, "sh", &[8, 7])]);
        }
        let heaps = heaps.since(50);
        assert_eq!(heaps.len(), 2);
        assert_eq!(heaps[0].threads, [7, 8, 9]);
        assert!(heaps.iter().all(|heap| (MOMENTS / 2..=MOMENTS).contains(&heap.moments.len())));
        assert!(heaps[1].moments.is_sorted_by_key(|moment| moment.time));
        assert_eq!(heaps[1].moments[0].time, 45, "5 before it was told, and 50 after the start");
    }

    #[test]
    fn reused_pid_and_exec_start_another_heap() {
        let mut heaps = Heaps::default();
        heaps.note(9, vec![reading(7, 1, "sh", &[7]), reading(7, 1, "make", &[7]), reading(7, 2, "make", &[7])]);
        assert_eq!(heaps.since(0).len(), 3);
    }
}
