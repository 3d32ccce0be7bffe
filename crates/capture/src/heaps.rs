//! Heaps of the command and of what it started, as somebody else sees them: who that is, the [`Watch`](super::Watch)
//! says.

use freehold_trace::facts::{HeapFacts, HeapMoment};

/// Moments of a process that are kept; of more, every second one goes.
const MOMENTS: usize = 512;

/// What was seen of a heap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenHeap {
    /// Number of the process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Numbers of its threads.
    pub threads: Vec<u32>,
    /// What it has; the time is not looked at.
    pub moment: HeapMoment,
}

/// Adds what was seen at a time to what was seen before.
pub fn note(heaps: &mut Vec<HeapFacts>, time: u64, seen: Vec<SeenHeap>) {
    for SeenHeap { pid, name, threads, moment } in seen {
        let at = heaps.iter().position(|heap| heap.pid == pid).unwrap_or_else(|| {
            heaps.push(HeapFacts { pid, ..HeapFacts::default() });
            heaps.len() - 1
        });
        let heap = &mut heaps[at];
        heap.name = name;
        heap.threads.extend(threads);
        heap.threads.sort_unstable();
        heap.threads.dedup();
        heap.moments.push(HeapMoment { time, ..moment });
        if heap.moments.len() > MOMENTS {
            let mut keeps = false;
            heap.moments.retain(|_| {
                keeps = !keeps;
                keeps
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_one_heap_with_all_its_threads_and_not_too_many_moments() {
        let mut heaps = Vec::new();
        for time in 0..2000 {
            let seen = |pid, threads: &[u32]| SeenHeap {
                pid,
                name: format!("at {time}"),
                threads: threads.to_vec(),
                ..SeenHeap::default()
            };
            note(&mut heaps, time, vec![seen(7, &[7, 9]), seen(8, &[8])]);
            note(&mut heaps, time, vec![seen(7, &[8, 7])]);
        }
        assert_eq!(heaps.len(), 2);
        assert_eq!((heaps[0].name.as_str(), heaps[0].threads.as_slice()), ("at 1999", [7, 8, 9].as_slice()));
        assert!(heaps.iter().all(|heap| (MOMENTS / 2..=MOMENTS).contains(&heap.moments.len())));
        assert!(heaps[1].moments.is_sorted_by_key(|moment| moment.time));
    }
}
