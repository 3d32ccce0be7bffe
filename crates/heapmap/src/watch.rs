//! A process and all that it started, looked at again and again: for whoever records what happens meanwhile.
//!
//! Who looks takes a hundredth of a CPU at most: after a look that took long, the next one comes later.

use std::time::{Duration, Instant};

use crate::map::{HeapMap, MemoryRow, Shown};
use crate::slabs::Caches;
use crate::target::{Files, Target};

/// Times that a look took, which pass before the next one.
const REST: u32 = 100;
/// Processes that are looked at, at most: those that were started first.
const PROCESSES: usize = 256;

/// Looks at heaps, and remembers what does not change.
#[derive(Debug, Default)]
pub struct Watcher {
    files: Files,
    caches: Option<Caches>,
    resting: Option<(Instant, Duration)>,
}

/// A heap that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Number of the process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Numbers of its threads.
    pub threads: Vec<u32>,
    /// Bytes of memory that the process has in all.
    pub resident: u64,
    /// What its heap has.
    pub memory: MemoryRow,
}

impl Watcher {
    /// Looks at a process and at what it started, as far as these have Freehold's malloc and may be read; at none of
    /// them if the last look was too expensive for another one so soon.
    pub fn look(&mut self, root: u32) -> Vec<Seen> {
        if self.resting.is_some_and(|(since, rest)| since.elapsed() < rest) {
            return Vec::new();
        }
        let start = Instant::now();
        let mut seen = Vec::new();
        let mut family = vec![root];
        let mut at = 0;
        while let Some(&pid) = family.get(at) {
            at += 1;
            let Ok(mut target) = Target::open(pid) else { continue };
            family.extend(target.children());
            family.truncate(PROCESSES);
            seen.extend(self.look_at(&mut target));
        }
        self.resting = Some((Instant::now(), start.elapsed() * REST));
        seen
    }

    fn look_at(&mut self, target: &mut Target) -> Option<Seen> {
        // Without it no table is read, which others would be told why.
        target.outline(&mut self.files).ok()?;
        if self.caches.is_none() {
            self.caches = Caches::of_this_version(target).ok();
        }
        let map = HeapMap::with(target, &mut self.files, self.caches.as_ref()?, Shown { blocks: 0 }).ok()?;
        Some(Seen {
            pid: map.process.pid,
            name: map.process.name,
            threads: target.threads(),
            resident: map.process.resident,
            memory: map.memory,
        })
    }
}
