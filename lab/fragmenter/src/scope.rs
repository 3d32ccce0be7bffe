//! Attributes of this process while it works. It stays on one CPU, since consecutive allocations of one CPU are
//! adjacent in memory. Its limit of open files is raised to the hard limit. If memory runs out, it is killed first. A
//! command is started with the original attributes.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// File of the process's priority for the OOM killer.
const OOM_SCORE: &str = "/proc/self/oom_score_adj";
/// Lowest scheduling priority, so that all other programs run first.
const NICEST: i32 = 19;
/// Highest priority for the OOM killer.
const OOM_FIRST: &str = "1000";

/// Original attributes.
#[derive(Debug)]
pub(crate) struct Scope {
    cpus: Option<CpuSet>,
    files: Rlimit,
    oom_score: Option<String>,
}

impl Scope {
    /// Sets all attributes. Failures are ignored: every attribute is useful, and none is required.
    pub(crate) fn enter() -> Scope {
        let scope = Scope {
            cpus: sched_getaffinity(None).ok(),
            files: getrlimit(Resource::Nofile),
            oom_score: fs::read_to_string(OOM_SCORE).ok(),
        };
        scope.set();
        scope
    }

    /// Lets this process run on all its original CPUs from now on, with the lowest scheduling priority.
    pub(crate) fn stand_back(&self) {
        self.roam();
        let _ = setpriority_process(None, NICEST);
    }

    /// Returns the maximum number of open files; `None` if there is no limit.
    pub(crate) fn files_most(&self) -> Option<u64> {
        self.files.maximum
    }

    /// Returns the original limits of open files.
    pub(crate) fn files(&self) -> Rlimit {
        self.files
    }

    /// Calls a function with the original attributes, except for the limit of open files, since more files than the
    /// original limit may be open already.
    pub(crate) fn outside<T>(&self, what: impl FnOnce() -> T) -> T {
        self.unset();
        let done = what();
        self.set();
        done
    }

    fn set(&self) {
        let mut here = CpuSet::new();
        here.set(sched_getcpu());
        let _ = sched_setaffinity(None, &here);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: self.files.maximum, ..self.files });
        let _ = fs::write(OOM_SCORE, OOM_FIRST);
    }

    fn roam(&self) {
        if let Some(cpus) = &self.cpus {
            let _ = sched_setaffinity(None, cpus);
        }
    }

    fn unset(&self) {
        self.roam();
        if let Some(score) = &self.oom_score {
            let _ = fs::write(OOM_SCORE, score.trim());
        }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        self.unset();
        let _ = setrlimit(Resource::Nofile, self.files);
    }
}
