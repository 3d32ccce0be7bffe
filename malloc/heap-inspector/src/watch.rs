//! A process and those below it, looked at again and again by a thread of its own: for whoever records what happens
//! meanwhile, and waits for nobody.
//!
//! The thread takes a hundredth of a CPU at most: after a look that took long, the next one comes later. A process that
//! cannot be read in time is not told of.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::map::{HeapMap, MapLimits, MemoryRow};
use crate::slabs::Caches;
use crate::target::{HeapError, Target};

/// To the first look at a process, which may end soon, or become another program. The time to the next one doubles.
const FIRST: Duration = Duration::from_millis(50);
/// Between two looks, then; and if they take long.
const BETWEEN: Duration = Duration::from_secs(1);
const BETWEEN_MOST: Duration = Duration::from_secs(10);
/// What a look takes is this part of the time to the next one at most, as far as that comes in time.
const SHARE: u32 = 100;
/// What a look may take.
const LOOK: Duration = Duration::from_millis(500);
/// Processes that are looked at, at most: those that are nearest to the first.
const PROCESSES: usize = 256;

/// A thread that looks at heaps. It ends after the value.
#[derive(Debug)]
pub struct Watcher(Receiver<HeapSample>);

/// A process's heap at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeapSample {
    /// When.
    pub moment: Instant,
    /// Number of the process.
    pub pid: u32,
    /// When it began, in the kernel's ticks.
    pub started: u64,
    /// Its name.
    pub name: String,
    /// Numbers of its threads.
    pub threads: Vec<u32>,
    /// Bytes that the process has in memory in all.
    pub resident: u64,
    /// What its heap has.
    pub memory: MemoryRow,
}

impl Watcher {
    /// Looks at this process and at those below it from now on, as far as they have Freehold's malloc and may be read.
    /// If there can be no such thread, nothing will be seen.
    pub fn start(root: u32) -> Watcher {
        let (sender, receiver) = mpsc::channel();
        let _started = thread::Builder::new().name("heaps".to_owned()).spawn(move || {
            if let Ok(caches) = Caches::for_this_version() {
                watch(&caches, root, &sender);
            }
        });
        Watcher(receiver)
    }

    /// Returns the samples taken since the last call.
    pub fn samples(&self) -> impl Iterator<Item = HeapSample> + '_ {
        self.0.try_iter()
    }
}

/// Samples the heaps again and again, until the receiver is dropped.
fn watch(caches: &Caches, root: u32, sender: &Sender<HeapSample>) {
    let (mut least, mut rest) = (FIRST, FIRST);
    loop {
        thread::sleep(rest);
        let start = Instant::now();
        for pid in family(root) {
            if let Ok(heap) = sample(pid, caches, start + LOOK)
                && sender.send(heap).is_err()
            {
                return;
            }
        }
        least = (2 * least).min(BETWEEN);
        rest = (start.elapsed() * SHARE).clamp(least, BETWEEN_MOST);
    }
}

/// A process and those below it, the nearest first.
fn family(root: u32) -> Vec<u32> {
    let mut family = vec![root];
    let mut at = 0;
    while let Some(&pid) = family.get(at) {
        at += 1;
        family.extend(Target::open(pid).iter().flat_map(Target::children));
        family.truncate(PROCESSES);
    }
    family
}

fn sample(pid: u32, caches: &Caches, deadline: Instant) -> Result<HeapSample, HeapError> {
    let mut target = Target::open(pid)?;
    target.set_deadline(deadline);
    let (started, threads) = (target.started(), target.threads());
    let map = HeapMap::read(&mut target, caches, MapLimits { blocks: 0 })?;
    let (name, resident) = (map.process.name, map.process.resident);
    Ok(HeapSample { moment: Instant::now(), pid, started, name, threads, resident, memory: map.memory })
}
