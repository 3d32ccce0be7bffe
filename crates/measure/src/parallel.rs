//! Independent jobs on a pool of threads, as many at a time as this machine has CPUs.
//!
//! Each worker takes the next job when it is through with one. What a job brought is kept where it belongs, so the
//! results are the same whatever finished first. After a job has failed, none is begun.

use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Does the jobs that `order` numbers, beginning with the first there, and returns what they brought in the order of
/// their numbers. `order` holds each number from 0 up once.
///
/// # Errors
/// That of the job with the smallest number, of those that failed.
pub fn run_jobs<T, E>(order: &[usize], job: impl Fn(usize) -> Result<T, E> + Sync) -> Result<Vec<T>, E>
where
    T: Send + Sync,
    E: Send + Sync,
{
    let workers = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    run_jobs_with(workers, order, job)
}

fn run_jobs_with<T, E>(workers: usize, order: &[usize], job: impl Fn(usize) -> Result<T, E> + Sync) -> Result<Vec<T>, E>
where
    T: Send + Sync,
    E: Send + Sync,
{
    let results: Vec<OnceLock<Result<T, E>>> = order.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(&number) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = job(number);
            if result.is_err() {
                next.store(order.len(), Ordering::Relaxed);
            }
            assert!(results[number].set(result).is_ok(), "each job is done once");
        }
    };
    thread::scope(|scope| (0..workers.min(order.len())).for_each(|_| drop(scope.spawn(work))));
    results.into_iter().filter_map(OnceLock::into_inner).collect()
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
    fn a_failure_ends_the_work_and_is_handed_back() {
        let done = AtomicUsize::new(0);
        let order: Vec<usize> = (0..100).collect();
        let job = |number| if number == 3 { Err(number) } else { Ok(done.fetch_add(1, Ordering::Relaxed)) };
        assert_eq!(run_jobs_with(1, &order, job), Err(3));
        assert_eq!(done.load(Ordering::Relaxed), 3);
    }
}
