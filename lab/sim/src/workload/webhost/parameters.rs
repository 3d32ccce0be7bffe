//! Parameters of `webhost`, and checks of their consistency.

use serde::{Deserialize, Serialize};

use super::atomic::Atomic;
use super::kernel::Kernel;
use crate::memory::Parameters;
use crate::random::LogUniform;

/// Maximum turnover time: a day.
const TURNOVER_MAX_S: u32 = 86_400;

/// Maximum size of a task, in ranges: 128 GiB.
const TASK_RANGES_MAX: u32 = 1 << 16;

/// Maximum share of memory for tasks and unmovable kernel objects, in percent; the rest is left to the page cache.
const HELD_MAX_PERCENT: u32 = 80;

/// Parameters of `webhost`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Webhost {
    /// Seconds in which as many pages are requested as the machine has.
    pub turnover_s: u32,
    /// Percentage of memory that tasks hold.
    pub anon_percent: u32,
    /// Percentage of pages turned over that tasks touch; the others are read from files.
    pub anon_turnover_percent: u32,
    /// Percentage of page reads that hit the page cache.
    pub reuse_percent: u32,
    /// Pages of files that are read in a run.
    pub read_pages: LogUniform,
    /// Time to read a page, in ns.
    pub read_ns: u64,
    /// Pages that a task touches in a run.
    pub touch_pages: LogUniform,
    /// Time of a fault and of the work with its page, in ns.
    pub fault_ns: u64,
    /// Time of a huge-page fault and of the work with its pages, in ns.
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

/// An invalid parameter: its key below `workload`, and a sentence that follows the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// Name of the key.
    pub key: &'static str,
    /// Sentence that names the error and valid values.
    pub sentence: String,
}

impl Webhost {
    /// Checks that the parameters are valid and consistent.
    ///
    /// # Errors
    /// Returns the first invalid key.
    pub fn check(&self) -> Result<(), Unfit> {
        if !(1..=TURNOVER_MAX_S).contains(&self.turnover_s) {
            let sentence = format!("is {}; give seconds from 1 to {TURNOVER_MAX_S}", self.turnover_s);
            return Err(Unfit { key: "turnover_s", sentence });
        }
        let most = self.task_ranges.most;
        if most > TASK_RANGES_MAX {
            let sentence = format!("is up to {most}; give at most {TASK_RANGES_MAX}");
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
                "adds up to {held} % with `kernel.unmovable_permille`; give at most {HELD_MAX_PERCENT} % for both"
            );
            return Err(Unfit { key: "anon_percent", sentence });
        }
        for (key, atomic) in [("network", &self.network), ("filesystem", &self.filesystem)] {
            let larger = atomic.larger_percent();
            if larger > 100 {
                let sentence = format!("has {larger} % of its requests at orders 1 to 3; give at most 100 % in all");
                return Err(Unfit { key, sentence });
            }
        }
        Ok(())
    }
}
