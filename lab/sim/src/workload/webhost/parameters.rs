//! Parameters of `webhost`, and which of them fit together.

use serde::{Deserialize, Serialize};

use super::atomic::Atomic;
use super::kernel::Kernel;
use crate::memory::Parameters;
use crate::random::LogUniform;

/// The slowest turnover: a day.
const TURNOVER_MAX_S: u32 = 86_400;

/// The largest task, in ranges: 128 GiB.
const TASK_RANGES_MAX: u32 = 1 << 16;

/// Most of memory that tasks and the kernel may be given to hold, in percent; page cache has the rest.
const HELD_MAX_PERCENT: u32 = 80;

/// What `webhost` can be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Webhost {
    /// Seconds in which as many pages are asked for as the machine has.
    pub turnover_s: u32,
    /// Of a hundred pages of memory, tasks hold so many.
    pub anon_percent: u32,
    /// Of a hundred pages turned over, so many are touched by tasks; the others are read from files.
    pub anon_turnover_percent: u32,
    /// Of a hundred reads of a page, so many find it in the page cache.
    pub reuse_percent: u32,
    /// Pages of files that are read without a pause.
    pub read_pages: LogUniform,
    /// How long reading a page takes, in ns.
    pub read_ns: u64,
    /// Pages that a task touches without a pause.
    pub touch_pages: LogUniform,
    /// How long a fault takes with what it brings, in ns.
    pub fault_ns: u64,
    /// The same for a huge page, in ns.
    pub huge_fault_ns: u64,
    /// Ranges of the size of a huge page that a task maps, and touches one after the other.
    pub task_ranges: LogUniform,
    /// Atomic requests of the network.
    pub network: Atomic,
    /// Atomic requests of the file system, as btrfs makes them.
    pub filesystem: Atomic,
    /// Kernel objects.
    pub kernel: Kernel,
    /// Huge pages, pinned and dirty pages.
    pub memory: Parameters,
}

impl Default for Webhost {
    fn default() -> Webhost {
        Webhost {
            turnover_s: 75,
            anon_percent: 34,
            anon_turnover_percent: 57,
            reuse_percent: 20,
            read_pages: LogUniform::new(1, 2047),
            read_ns: 741,
            touch_pages: LogUniform::new(1, 2047),
            fault_ns: 2133,
            huge_fault_ns: 485_131,
            task_ranges: LogUniform::new(1, 16),
            network: Atomic::default(),
            filesystem: Atomic::default(),
            kernel: Kernel::default(),
            memory: Parameters::default(),
        }
    }
}

/// A parameter that makes no sense: its key below `workload`, and a sentence that follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The key.
    pub key: &'static str,
    /// What is wrong with it, and what to write.
    pub sentence: String,
}

impl Webhost {
    /// Whether the parameters can be had together.
    ///
    /// # Errors
    /// Names the key that cannot.
    pub fn check(&self) -> Result<(), Unfit> {
        if !(1..=TURNOVER_MAX_S).contains(&self.turnover_s) {
            let sentence = format!("is {}; give seconds from 1 to {TURNOVER_MAX_S}", self.turnover_s);
            return Err(Unfit { key: "turnover_s", sentence });
        }
        let most = self.task_ranges.most;
        if most > TASK_RANGES_MAX {
            let sentence = format!("goes up to {most}; give at most {TASK_RANGES_MAX}");
            return Err(Unfit { key: "task_ranges", sentence });
        }
        let (touched, reused) = (self.anon_turnover_percent, self.reuse_percent);
        for (key, percent) in [("anon_turnover_percent", touched), ("reuse_percent", reused)] {
            if percent > 99 {
                return Err(Unfit { key, sentence: format!("is {percent}; give a share from 0 to 99") });
            }
        }
        let held = self.anon_percent.saturating_add(self.kernel.unmovable_permille.div_ceil(10));
        if held > HELD_MAX_PERCENT {
            let sentence = format!(
                "makes {held} % with `kernel.unmovable_permille`; give both together at most {HELD_MAX_PERCENT} %"
            );
            return Err(Unfit { key: "anon_percent", sentence });
        }
        for (key, atomic) in [("network", &self.network), ("filesystem", &self.filesystem)] {
            let larger = atomic.larger_percent();
            if larger > 100 {
                let sentence = format!("wants {larger} % of its requests of orders 1 to 3; give at most 100 in all");
                return Err(Unfit { key, sentence });
            }
        }
        Ok(())
    }
}
