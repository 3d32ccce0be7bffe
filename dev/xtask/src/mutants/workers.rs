//! Threads that share work, one piece at a time.

use std::sync::Mutex;
use std::thread;

use crate::error::Error;

/// Calls `work` for each piece, on `jobs` threads.
///
/// # Errors
/// Returns an error if `work` fails for a piece. Pieces that have not been started by then are not started.
pub(crate) fn share<T: Send>(
    jobs: usize,
    pieces: impl Iterator<Item = T> + Send,
    work: impl Fn(T) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let (pieces, outcome) = (Mutex::new(pieces), Mutex::new(Ok(())));
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(piece) = next_piece(&pieces, &outcome) {
                    if let Err(error) = work(piece) {
                        *outcome.lock().expect("no worker panics") = Err(error);
                    }
                }
            });
        }
    });
    outcome.into_inner().expect("no worker panics")
}

/// Takes the next piece, unless a piece has ended with an error.
fn next_piece<T>(pieces: &Mutex<impl Iterator<Item = T>>, outcome: &Mutex<Result<(), Error>>) -> Option<T> {
    let is_well = outcome.lock().expect("no worker panics").is_ok();
    pieces.lock().expect("no worker panics").next().filter(|_| is_well)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;

    fn add(sum: &AtomicU32, number: u32) -> Result<(), Error> {
        sum.fetch_add(number, Relaxed);
        if number == 1000 { Err(Error::Failed("enough".to_owned())) } else { Ok(()) }
    }

    #[test]
    fn each_piece_runs_once_until_a_failure() {
        let sum = AtomicU32::new(0);
        share(3, 1..=10, |number| add(&sum, number)).unwrap();
        assert_eq!(sum.load(Relaxed), 55);
        assert!(share(1, 999..=2000, |number| add(&sum, number)).is_err());
        assert_eq!(sum.load(Relaxed), 55 + 999 + 1000);
    }
}
