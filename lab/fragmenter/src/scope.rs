//! What this process sets about itself while it works: it stays on one CPU, since pages of one CPU follow each other in
//! memory; it may open as many files as its limit can be raised to; and if memory runs out, it is the first to go. A
//! command is started with everything as it was.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// How likely the kernel ends this process when memory runs out.
const OOM_SCORE: &str = "/proc/self/oom_score_adj";
/// Whoever wants the CPU goes first.
const NICEST: i32 = 19;
/// More likely than any other.
const OOM_FIRST: &str = "1000";

/// How things were.
#[derive(Debug)]
pub(crate) struct Scope {
    cpus: Option<CpuSet>,
    files: Rlimit,
    oom_score: Option<String>,
}

impl Scope {
    /// Sets what is set. What the system refuses stays as it is: none of it is needed, all of it helps.
    pub(crate) fn enter() -> Scope {
        let scope = Scope {
            cpus: sched_getaffinity(None).ok(),
            files: getrlimit(Resource::Nofile),
            oom_score: fs::read_to_string(OOM_SCORE).ok(),
        };
        scope.set();
        scope
    }

    /// From now on this process runs on any CPU, when nobody else wants it.
    pub(crate) fn stand_back(&self) {
        self.roam();
        let _ = setpriority_process(None, NICEST);
    }

    /// Files that may be open; nothing where there is no limit.
    pub(crate) fn files_most(&self) -> Option<u64> {
        self.files.maximum
    }

    /// The limits of open files, as they were.
    pub(crate) fn files(&self) -> Rlimit {
        self.files
    }

    /// Does something as if nothing had been set, but for open files, of which there may be many already.
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
