//! A thread that executes work on another CPU while the requesting thread waits.

use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::thread::{self, JoinHandle};

use freehold::base::CpuId;

use crate::common::machine::run_on;

/// Handle of the helper thread.
#[derive(Debug)]
pub(crate) struct Helper {
    mailbox: Arc<Mailbox>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Mailbox {
    job: AtomicPtr<Job<'static>>,
    is_over: AtomicBool,
}

/// Work for the helper thread.
struct Job<'a> {
    cpu: CpuId,
    work: &'a dyn Fn(),
    is_done: AtomicBool,
}

impl Helper {
    /// Starts the thread.
    pub(crate) fn start() -> Helper {
        let mailbox = Arc::new(Mailbox::default());
        let its = Arc::clone(&mailbox);
        Helper { mailbox, thread: Some(thread::spawn(move || its.work())) }
    }

    /// Executes `work` on `cpu`, and waits. The caller yields meanwhile, so `cpu` may be its own CPU.
    pub(crate) fn run(&self, cpu: CpuId, work: &dyn Fn()) {
        let job = Job { cpu, work, is_done: AtomicBool::new(false) };
        let shared: *const Job<'_> = &raw const job;
        self.mailbox.job.store(shared.cast_mut().cast(), Ordering::Release);
        while !job.is_done.load(Ordering::Acquire) {
            thread::yield_now();
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.mailbox.is_over.store(true, Ordering::Release);
        let thread = self.thread.take().expect("the thread must be joined only once");
        thread.join().expect("the helper thread must not panic");
    }
}

impl Mailbox {
    fn work(&self) {
        while !self.is_over.load(Ordering::Acquire) {
            let job = self.job.swap(null_mut(), Ordering::AcqRel);
            // SAFETY: `run` keeps the job alive until `is_done` is set, and does not touch the data that the job uses
            // meanwhile.
            let Some(job) = (unsafe { job.as_ref() }) else {
                thread::yield_now();
                continue;
            };
            run_on(job.cpu);
            (job.work)();
            job.is_done.store(true, Ordering::Release);
        }
    }
}
