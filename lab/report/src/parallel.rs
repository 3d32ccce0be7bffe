//! Independent jobs, as many at a time as this machine has CPUs.
//!
//! What a job brought is kept by its number, so the results are the same whatever ended first.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver};

use rayon::prelude::*;

use crate::observer::{Observer, under};

/// Bytes of a stack, as a process has for what it does first.
const STACK: usize = 8 << 20;

/// Does the jobs that `order` numbers, those early in it early, and returns what they brought in the order of their
/// numbers. `order` holds each number from 0 up once.
///
/// # Errors
/// That of a job that failed; then no more are begun.
pub fn run_jobs<T: Send, E: Send>(order: &[usize], job: impl Fn(usize) -> Result<T, E> + Sync) -> Result<Vec<T>, E> {
    let observer = Observer::current();
    let jobs = order.par_iter().with_max_len(1);
    let results = jobs.map(|&number| Ok((number, under(observer.as_ref(), || job(number))?)));
    let mut numbered = results.collect::<Result<Vec<_>, E>>()?;
    numbered.sort_by_key(|&(number, _)| number);
    Ok(numbered.into_iter().map(|(_, result)| result).collect())
}

/// Does so many jobs, none of which is better begun early, and returns what they brought in the order of their numbers.
///
/// # Errors
/// As [`run_jobs`].
pub fn run_all<T: Send, E: Send>(jobs: usize, job: impl Fn(usize) -> Result<T, E> + Sync) -> Result<Vec<T>, E> {
    run_jobs(&(0..jobs).collect::<Vec<_>>(), job)
}

/// Begins work whose jobs are done by threads of its own, and which end with it; what it brought comes out of the
/// channel, or nothing if it panicked. For processes that fork between calls: of threads that calls share there would
/// be none in the child, and it would wait for them.
///
/// # Errors
/// When the system has no more threads.
pub fn begin<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<Receiver<T>> {
    let (sender, receiver) = mpsc::channel();
    let pool = rayon::ThreadPoolBuilder::new().stack_size(STACK).build().map_err(io::Error::other)?;
    // Who began it may not wait any more; a panic has said why already.
    pool.spawn(move || drop(catch_unwind(AssertUnwindSafe(|| sender.send(work())))));
    Ok(receiver)
}

/// How many jobs are done at a time.
pub fn at_once() -> usize {
    rayon::current_num_threads()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_numbers_whatever_was_first() {
        let results: Result<Vec<usize>, ()> = run_jobs(&[2, 0, 1, 3], |number| Ok(10 * number));
        assert_eq!(results, Ok(vec![0, 10, 20, 30]));
        assert_eq!(run_jobs(&[], |_| Err::<(), _>(())), Ok(vec![]));
    }

    #[test]
    fn work_may_have_threads_of_its_own() {
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
    fn a_failure_is_handed_back() {
        assert_eq!(run_all(100, |number| if number == 3 { Err(number) } else { Ok(()) }), Err(3));
    }
}
