//! All CPUs at once: the first one says what is to be done, and the others wait for it with interrupts on.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32};

use crate::arch;

/// CPUs that run.
static RUNNING: AtomicU32 = AtomicU32::new(1);
/// What is done now, and how often something was.
static JOB: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
static JOBS: AtomicU32 = AtomicU32::new(0);
/// CPUs that have done it.
static DONE: AtomicU32 = AtomicU32::new(0);

/// Starts the other CPUs, as many as there are; says how many run. Each waits for work from then on.
pub fn start_cpus() -> u32 {
    arch::start_cpus(&RUNNING);
    arch::irqs_on();
    cpus()
}

/// CPUs that run.
pub fn cpus() -> u32 {
    RUNNING.load(Acquire)
}

/// A CPU that was started: does what the first one says, for ever.
pub fn serve() -> ! {
    let mut seen = JOBS.load(Acquire);
    RUNNING.fetch_add(1, AcqRel);
    arch::irqs_on();
    loop {
        while JOBS.load(Acquire) == seen {
            arch::idle();
        }
        seen += 1;
        // SAFETY: what is stored there, before the count, are such functions.
        let job: fn(u32) = unsafe { core::mem::transmute(JOB.load(Relaxed)) };
        job(arch::cpu().into());
        DONE.fetch_add(1, Release);
    }
}

/// Has every CPU do this, and waits for all of them.
pub fn on_all_cpus(job: fn(u32)) {
    DONE.store(0, Relaxed);
    JOB.store(job as *mut (), Relaxed);
    JOBS.fetch_add(1, Release);
    job(0);
    while DONE.load(Acquire) + 1 < cpus() {
        arch::idle();
    }
}
