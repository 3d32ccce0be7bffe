//! Course of a replay: the state of the engine and of the recorded kernel over time, stalls, failures, and the first
//! decisions that differ.

use freehold_report::report::map::{Side, Stretch};
use serde::Serialize;

use super::compaction::CompactionDecisions;
use super::uncompared::UncomparedRow;

/// The whole course.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Course {
    /// The engine at evenly spaced moments, or at the one moment that was requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<Moment>,
    /// The engine's memory at each of these moments, if a map was requested.
    #[serde(skip)]
    pub watched: Option<WatchedMemory>,
    /// The engine and the recorded kernel at the times of the recorded samples.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub divergence: Vec<Divergence>,
    /// Stall times of requests; `None` if requests take no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
    /// The first decisions that differ from the recorded kernel's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<Decision>,
    /// Decisions about compaction beside the recorded kernel's; `None` if the recording has no events of them, or if
    /// compaction is played as recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<CompactionDecisions>,
    /// Failed requests by task and order, without repeats.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailureCount>,
    /// Failed requests by tenths of a second, without repeats.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures_over_time: Vec<FailuresInTenth>,
    /// The first request for which no page was left, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_of_memory: Option<OutOfMemory>,
    /// Measures by mechanism that cannot be compared with the recorded kernel.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uncompared: Vec<UncomparedRow>,
}

/// The engine at one moment: free memory, and the counts since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// Nanoseconds since the recording started.
    pub time: u64,
    /// Free blocks of each order, in all zones.
    pub free_blocks: Vec<u64>,
    /// Acquisitions of zone locks.
    pub zone_lock_acquisitions: u64,
    /// Requests that failed.
    pub failed_allocations: u64,
    /// Requests for huge pages that were served.
    pub huge_pages_served: u64,
    /// Direct reclaims.
    pub allocstall: u64,
    /// Direct compactions.
    pub compact_stall: u64,
    /// Pages that reclaim scanned.
    pub pgscan: u64,
    /// Pages that reclaim freed.
    pub pgsteal: u64,
}

/// A map of the engine's memory at each moment, under one policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WatchedMemory {
    /// Frames of a pageblock.
    pub block_pages: u16,
    /// Ranges of pageblocks, each in one zone.
    pub stretches: Vec<Stretch>,
    /// Contents of the pageblocks. The name of the policy and the command are not set yet.
    pub side: Side,
}

impl Course {
    /// Sets the command that shows more of the map ([`Side::command`]), if there is a map.
    pub fn set_command(&mut self, command: impl FnOnce() -> String) {
        if let Some(watched) = &mut self.watched {
            watched.side.command = command();
        }
    }
}

/// The first request for which no page was left, not even below the watermarks and after reclaim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutOfMemory {
    /// Nanoseconds since the recording started.
    pub time: u64,
    /// Name of the requesting task.
    pub task: String,
    /// Pages that could not be allocated from then on.
    pub pages: u64,
}

impl OutOfMemory {
    /// Returns a sentence about this event under `policy`.
    pub fn sentence(&self, policy: &str) -> String {
        let OutOfMemory { time, task, pages } = self;
        let request =
            if task.is_empty() { "a request without a task".to_owned() } else { format!("a request of `{task}`") };
        format!(
            "Under {policy} the machine runs out of memory: {request} fails after {:.3} s, and {pages} pages cannot be \
             allocated from then on.",
            *time as f64 / 1e9
        )
    }
}

/// Failed requests of a task's name at one order. Repeats of a failed request count once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailureCount {
    /// Name of the task. Several tasks may share it.
    pub task: String,
    /// Order of the blocks.
    pub order: u8,
    /// Number in the recording.
    pub recorded: u64,
    /// Number in the engine.
    pub replayed: u64,
}

/// Failed requests in a tenth of a second, by the time at which they were made. Repeats are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailuresInTenth {
    /// Index of the tenth of a second since the recording started.
    pub tenth: u64,
    /// Number in the recording.
    pub recorded: u64,
    /// Number in the engine.
    pub replayed: u64,
}

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "fate")]
pub enum Fate {
    /// Served at once.
    Served,
    /// Served after reclaim or compaction.
    Stalled {
        /// Stall time in nanoseconds.
        ns: u64,
    },
    /// Refused.
    Refused,
}

/// A request with another result in the engine than in the recorded kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// Nanoseconds since the recording started.
    pub time: u64,
    /// Name of the task.
    pub task: String,
    /// Order of the requested block.
    pub order: u8,
    /// Result in the recorded kernel.
    pub recorded: Fate,
    /// Result in the engine.
    pub replayed: Fate,
}

/// Stall times of requests, in the recording and in the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stalls {
    /// Stall times in the recorded kernel.
    pub recorded: StallTimes,
    /// Stall times in the engine.
    pub replayed: StallTimes,
    /// Largest delay of a task at the answer to its last request that stalled, in nanoseconds. This is a lower bound of
    /// the delay of the whole work, since the recording does not show which tasks wait for each other.
    pub later_at_least: u64,
    /// Delay of the whole work if every stall delays all tasks, in nanoseconds. This is an upper bound; a negative
    /// number means that the work is done earlier.
    pub later_at_most: i64,
}

/// Summary of the stall times of requests, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StallTimes {
    /// Number of requests that stalled.
    pub requests: u64,
    /// Sum of all stalls.
    pub total: u64,
    /// Median stall.
    pub median: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Longest stall.
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

/// A count of the recorded kernel and of the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// Count of the recorded kernel.
    pub recorded: u64,
    /// Count of the engine.
    pub replayed: u64,
}

impl Pair {
    /// Creates a pair from the kernel's count and the engine's.
    pub fn new(recorded: u64, replayed: u64) -> Pair {
        Pair { recorded, replayed }
    }
}

/// The engine and the recorded kernel at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// Nanoseconds since the recording started.
    pub time: u64,
    /// Free pages.
    pub free_pages: Pair,
    /// Free huge pages: free memory in blocks of order 9 and above, in blocks of order 9.
    pub free_pageblocks: Pair,
    /// Direct reclaims so far.
    pub stalls: Pair,
    /// Pages that kswapd has scanned so far.
    pub scanned_by_kswapd: Pair,
    /// Pages that direct reclaim has scanned so far.
    pub scanned_by_requests: Pair,
    /// Direct compactions so far.
    pub compact_stalls: Pair,
}
