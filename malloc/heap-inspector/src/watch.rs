//! A process and those below it, looked at again and again by a thread of its own: for whoever records what happens
//! meanwhile, and waits for nobody.
//!
//! The thread takes a hundredth of a CPU at most: after a look that took long, the next one comes later. A process that
//! cannot be read in time is not told of.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::map::{HeapMap, MemoryRow, Shown};
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
pub struct Watcher(Receiver<Seen>);

/// A heap that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
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
    pub fn of(root: u32) -> Watcher {
        let (tell, seen) = mpsc::channel();
        let look = move || {
            if let Ok(caches) = Caches::of_this_version() {
                look_again_and_again(&caches, root, &tell);
            }
        };
        let _started = thread::Builder::new().name("heaps".to_owned()).spawn(look);
        Watcher(seen)
    }

    /// What was seen since the last call.
    pub fn seen(&self) -> impl Iterator<Item = Seen> + '_ {
        self.0.try_iter()
    }
}

/// Until nobody listens.
fn look_again_and_again(caches: &Caches, root: u32, tell: &Sender<Seen>) {
    let (mut least, mut rest) = (FIRST, FIRST);
    loop {
        thread::sleep(rest);
        let start = Instant::now();
        for pid in family(root) {
            if let Ok(seen) = look_at(pid, caches, start + LOOK)
                && tell.send(seen).is_err()
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

fn look_at(pid: u32, caches: &Caches, deadline: Instant) -> Result<Seen, HeapError> {
    let mut target = Target::open(pid)?;
    target.set_deadline(deadline);
    let (started, threads) = (target.started(), target.threads());
    let map = HeapMap::of(&mut target, caches, Shown { blocks: 0 })?;
    let (name, resident) = (map.process.name, map.process.resident);
    Ok(Seen { moment: Instant::now(), pid, started, name, threads, resident, memory: map.memory })
}
