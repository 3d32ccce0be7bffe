//! Work on all CPUs: the first CPU sets a job, and the others wait for jobs with interrupts on.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32};

use crate::arch;

/// Number of running CPUs.
static RUNNING: AtomicU32 = AtomicU32::new(1);
/// Function pointer of the current job. `JOBS` is the number of jobs so far.
static JOB: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
static JOBS: AtomicU32 = AtomicU32::new(0);
/// Number of CPUs, other than the first, that have finished the current job.
static DONE: AtomicU32 = AtomicU32::new(0);

/// Starts all other CPUs and returns the number of running CPUs. The started CPUs wait for jobs.
pub fn start_cpus() -> u32 {
    arch::start_cpus(&RUNNING);
    arch::irqs_on();
    cpus()
}

/// Returns the number of running CPUs.
pub fn cpus() -> u32 {
    RUNNING.load(Acquire)
}

/// Executes the jobs of the first CPU, forever. Runs on every started CPU.
pub fn serve() -> ! {
    let mut seen = JOBS.load(Acquire);
    RUNNING.fetch_add(1, AcqRel);
    arch::irqs_on();
    loop {
        while JOBS.load(Acquire) == seen {
            arch::idle();
        }
        seen += 1;
        // SAFETY: `on_all_cpus` stored a pointer of type `fn(u32)` before it increased `JOBS`, which was loaded with
        // Acquire.
        let job: fn(u32) = unsafe { core::mem::transmute(JOB.load(Relaxed)) };
        job(arch::cpu().into());
        DONE.fetch_add(1, Release);
    }
}

/// Runs a job on every CPU, and waits until all have finished it.
pub fn on_all_cpus(job: fn(u32)) {
    DONE.store(0, Relaxed);
    JOB.store(job as *mut (), Relaxed);
    JOBS.fetch_add(1, Release);
    job(0);
    while DONE.load(Acquire) + 1 < cpus() {
        arch::idle();
    }
}
