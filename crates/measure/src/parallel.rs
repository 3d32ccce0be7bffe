//! Independent jobs, as many at a time as this machine has CPUs.
//!
//! What a job brought is kept by its number, so the results are the same whatever ended first.

use rayon::prelude::*;

/// Does the jobs that `order` numbers, those early in it early, and returns what they brought in the order of their
/// numbers. `order` holds each number from 0 up once.
///
/// # Errors
/// That of a job that failed; then no more are begun.
pub fn run_jobs<T: Send, E: Send>(order: &[usize], job: impl Fn(usize) -> Result<T, E> + Sync) -> Result<Vec<T>, E> {
    let done = order.par_iter().with_max_len(1).map(|&number| job(number).map(|result| (number, result)));
    let mut done = done.collect::<Result<Vec<_>, E>>()?;
    done.sort_by_key(|&(number, _)| number);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// Does so many jobs, none of which is better begun early, and returns what they brought in the order of their numbers.
///
/// # Errors
/// As [`run_jobs`].
pub fn run_all<T: Send, E: Send>(jobs: usize, job: impl Fn(usize) -> Result<T, E> + Sync) -> Result<Vec<T>, E> {
    run_jobs(&(0..jobs).collect::<Vec<_>>(), job)
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
    fn a_failure_is_handed_back() {
        assert_eq!(run_all(100, |number| if number == 3 { Err(number) } else { Ok(()) }), Err(3));
    }
}
