//! Independent jobs, run in parallel on as many threads as the machine has CPUs.
//!
//! Each result is stored by the number of its job, so the order of results does not depend on the order of completion.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver};

use rayon::prelude::*;

use crate::observer::{Observer, under};

/// Stack size of a worker thread in bytes, the usual size of a main thread's stack.
const STACK: usize = 8 << 20;

/// Runs the jobs numbered by `order`, roughly in that order, and returns their results sorted by job number. `order`
/// contains each number from 0 up exactly once.
///
/// # Errors
/// The error of a job that failed. After a failure, no more jobs are started.
pub fn run_jobs<T: Send, E: Send>(order: &[usize], job: impl Fn(usize) -> Result<T, E> + Sync) -> Result<Vec<T>, E> {
    let observer = Observer::current();
    let jobs = order.par_iter().with_max_len(1);
    let results = jobs.map(|&number| Ok((number, under(observer.as_ref(), || job(number))?)));
    let mut numbered = results.collect::<Result<Vec<_>, E>>()?;
    numbered.sort_by_key(|&(number, _)| number);
    Ok(numbered.into_iter().map(|(_, result)| result).collect())
}

/// Runs `jobs` jobs in any order and returns their results sorted by job number.
///
/// # Errors
/// As for [`run_jobs`].
pub fn run_all<T: Send, E: Send>(jobs: usize, job: impl Fn(usize) -> Result<T, E> + Sync) -> Result<Vec<T>, E> {
    run_jobs(&(0..jobs).collect::<Vec<_>>(), job)
}

/// Starts work on a thread pool of its own, which ends with the work. The result is received from the channel; if the
/// work panics, the channel closes without a result.
///
/// A process that forks between calls needs this function. Threads of a shared pool do not exist in the child, so the
/// child would wait for them forever.
///
/// # Errors
/// If the system cannot create the threads.
pub fn begin<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<Receiver<T>> {
    let (sender, receiver) = mpsc::channel();
    let pool = rayon::ThreadPoolBuilder::new().stack_size(STACK).build().map_err(io::Error::other)?;
    // The caller may have dropped the receiver, so an error of `send` is ignored. A panic has already printed its
    // message.
    pool.spawn(move || drop(catch_unwind(AssertUnwindSafe(|| sender.send(work())))));
    Ok(receiver)
}

/// Returns the number of jobs that run at the same time.
pub fn at_once() -> usize {
    rayon::current_num_threads()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_ordered_by_job_number() {
        let results: Result<Vec<usize>, ()> = run_jobs(&[2, 0, 1, 3], |number| Ok(10 * number));
        assert_eq!(results, Ok(vec![0, 10, 20, 30]));
        assert_eq!(run_jobs(&[], |_| Err::<(), _>(())), Ok(vec![]));
    }

    #[test]
    fn work_may_use_an_additional_thread_pool() {
        let receiver = begin(|| run_all(4, |number| Ok::<_, ()>((number, rayon::current_thread_index().is_some()))));
        let brought = receiver.unwrap().recv().unwrap().unwrap();
        assert_eq!(brought, [0, 1, 2, 3].map(|number| (number, true)));
        assert!(
            begin(|| std::panic::resume_unwind(Box::new(())))
                .map(|receiver: Receiver<()>| receiver.recv())
                .unwrap()
                .is_err()
        );
    }

    #[test]
    fn failed_job_returns_its_error() {
        assert_eq!(run_all(100, |number| if number == 3 { Err(number) } else { Ok(()) }), Err(3));
    }
}
