//! The course of a replay: where it and the recorded kernel were at each moment, who waited, who was refused, and what
//! differed first.

use freehold_report::report::map::{Side, Stretch};
use serde::Serialize;

/// The whole course.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Course {
    /// The engine at evenly spaced moments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<Moment>,
    /// Its memory at each of these, if somebody wanted a map.
    #[serde(skip)]
    pub watched: Option<WatchedMemory>,
    /// The engine and the recorded kernel at the moments of the recorded samples.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub divergence: Vec<Divergence>,
    /// How long requests stalled; none where they take no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
    /// The first decisions that differ from the recorded kernel's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<Decision>,
    /// Requests that failed, by task and order; repeats are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailureCount>,
    /// The same by tenths of a second.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures_over_time: Vec<FailuresInTenth>,
    /// Whether the machine would run out of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_of_memory: Option<OutOfMemory>,
}

/// The engine at one moment: what is free, and what it has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// Nanoseconds since the recording started.
    pub time: u64,
    /// Free blocks of each order, in all zones.
    pub free_blocks: Vec<u64>,
    /// Holds of zone locks.
    pub zone_lock_acquisitions: u64,
    /// Requests that failed.
    pub failed_allocations: u64,
    /// Requests for huge pages that were served.
    pub huge_pages_served: u64,
    /// Requests that reclaimed for themselves.
    pub allocstall: u64,
    /// Requests that compacted for themselves.
    pub compact_stall: u64,
    /// Pages that reclaim looked at.
    pub pgscan: u64,
    /// Pages that it took.
    pub pgsteal: u64,
}

/// A map of the engine's memory at each moment, under one policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WatchedMemory {
    /// Frames of a pageblock.
    pub block_pages: u16,
    /// Where pageblocks lie.
    pub stretches: Vec<Stretch>,
    /// What they held; whose it is, and how more of it is had, nobody has said yet.
    pub side: Side,
}

impl Course {
    /// Says by which command more of the map is had, if there is one: [`Side::command`].
    pub fn set_command(&mut self, command: impl FnOnce() -> String) {
        if let Some(watched) = &mut self.watched {
            watched.side.command = command();
        }
    }
}

/// When nothing was left, not even below the watermarks and after reclaim, and for whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutOfMemory {
    /// Nanoseconds since the recording started.
    pub time: u64,
    /// Name of the task that asked first.
    pub task: String,
    /// Pages that could not be had from then on.
    pub pages: u64,
}

impl OutOfMemory {
    /// What happens under this policy, as a sentence.
    pub fn sentence(&self, policy: &str) -> String {
        let OutOfMemory { time, task, pages } = self;
        let asked = if task.is_empty() { "a request of no task".to_owned() } else { format!("`{task}`") };
        format!(
            "Under {policy} the machine runs out of memory: after {:.3} s nothing is left for {asked}, and from then on \
             {pages} pages cannot be had.",
            *time as f64 / 1e9
        )
    }
}

/// Requests of a task's name that failed at one order; what is asked again in vain counts once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailureCount {
    /// Name of the task, or of several.
    pub task: String,
    /// Order of the blocks.
    pub order: u8,
    /// In the recording.
    pub recorded: u64,
    /// In the engine.
    pub replayed: u64,
}

/// Requests that failed in a tenth of a second, by the moment at which they were asked; repeats are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailuresInTenth {
    /// Which tenth of a second since the recording started.
    pub tenth: u64,
    /// In the recording.
    pub recorded: u64,
    /// In the engine.
    pub replayed: u64,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "fate")]
pub enum Fate {
    /// It was served at once.
    Served,
    /// It was served after it had reclaimed or compacted.
    Stalled {
        /// Nanoseconds that this took.
        ns: u64,
    },
    /// It was refused.
    Refused,
}

/// A request of which the engine made something else than the recorded kernel did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// Nanoseconds since the recording started.
    pub time: u64,
    /// Name of the task.
    pub task: String,
    /// Order of the block that it asked for.
    pub order: u8,
    /// What the recorded kernel made of it.
    pub recorded: Fate,
    /// What the engine made of it.
    pub replayed: Fate,
}

/// How long requests stalled, in the recording and in the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stalls {
    /// Of the recorded kernel.
    pub recorded: StallTimes,
    /// Of the engine.
    pub replayed: StallTimes,
    /// By how much later the work of the task that is latest at the end is done, in nanoseconds: what tasks wait for
    /// each other is not known, so this is the least.
    pub later_at_least: u64,
    /// By how much later, or sooner, all of it is done if every stall delays all: the most.
    pub later_at_most: i64,
}

/// Nanoseconds that requests stalled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StallTimes {
    /// Requests that stalled.
    pub requests: u64,
    /// All together.
    pub total: u64,
    /// Half of them took no longer.
    pub median: u64,
    /// Nine of ten took no longer.
    pub p90: u64,
    /// Ninety-nine of a hundred took no longer.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

impl StallTimes {
    /// Summarizes the stalls of all requests, in any order.
    pub fn from_stalls(mut stalls: Vec<u64>) -> StallTimes {
        stalls.sort_unstable();
        StallTimes {
            requests: stalls.len() as u64,
            total: stalls.iter().sum(),
            median: percentile(&stalls, 50),
            p90: percentile(&stalls, 90),
            p99: percentile(&stalls, 99),
            max: percentile(&stalls, 100),
        }
    }
}

/// Returns a percentile of sorted values; zero if there are none.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or(0)
}

/// A count of the recorded kernel, and the engine's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// Of the recorded kernel.
    pub recorded: u64,
    /// Of the engine.
    pub replayed: u64,
}

impl Pair {
    /// The kernel's, then the engine's.
    pub fn new(recorded: u64, replayed: u64) -> Pair {
        Pair { recorded, replayed }
    }
}

/// Where the engine and the recorded kernel were at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// Nanoseconds since the recording started.
    pub time: u64,
    /// Free pages.
    pub free_pages: Pair,
    /// Whole pageblocks that are free.
    pub free_pageblocks: Pair,
    /// Requests that have reclaimed for themselves so far.
    pub stalls: Pair,
    /// Pages that kswapd has looked at so far.
    pub scanned_by_kswapd: Pair,
    /// Pages that requests have looked at so far.
    pub scanned_by_requests: Pair,
    /// Requests that have compacted for themselves so far.
    pub compact_stalls: Pair,
}
