//! Repeated samples of a process and its descendants, taken by a separate thread. A recorder uses them and never waits.
//!
//! The thread uses at most a hundredth of a CPU, as long as the samples of all processes take at most a tenth of a
//! second: a round of samples that takes long delays the next one. A process that cannot be read in time is left out.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::map::{HeapMap, MapLimits, MemoryRow};
use crate::slabs::Caches;
use crate::target::{HeapError, Target};

/// Delay before the first round of samples. It is short, since the program may end soon or execute another program. The
/// delay doubles with each round, up to [`BETWEEN`].
const FIRST: Duration = Duration::from_millis(50);
/// Delay between rounds after that; `BETWEEN_MOST` bounds the delay if a round takes long.
const BETWEEN: Duration = Duration::from_secs(1);
const BETWEEN_MOST: Duration = Duration::from_secs(10);
/// Divisor of the delay: a round of samples takes at most this part of it, as long as the delay is below its bound.
const SHARE: u32 = 100;
/// Time from the begin of a round after which reads fail, so that the remaining processes are left out.
const LOOK: Duration = Duration::from_millis(500);
/// Most processes that are sampled, in order of their distance from the root.
const PROCESSES: usize = 256;

/// A thread that samples heaps. It ends after the value is dropped.
#[derive(Debug)]
pub struct Watcher(Receiver<HeapSample>);

/// A process's heap at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeapSample {
    /// Time of the sample.
    pub moment: Instant,
    /// Process ID.
    pub pid: u32,
    /// Start time of the process in clock ticks of the kernel.
    pub started: u64,
    /// Name of the process.
    pub name: String,
    /// IDs of its threads.
    pub threads: Vec<u32>,
    /// Resident bytes of the process in total.
    pub resident: u64,
    /// Memory of its heap.
    pub memory: MemoryRow,
}

impl Watcher {
    /// Starts to sample a process and its descendants. Processes without Freehold's malloc, or that may not be read,
    /// are left out. If the thread cannot be created, there will be no samples.
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

/// Returns a process and its descendants in order of their distance.
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
