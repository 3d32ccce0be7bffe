//! Observation and cancellation of work from another thread.
//!
//! A user at a terminal has progress lines and Ctrl-C. A program that calls the laboratory has neither: it creates an
//! [`Observer`], runs the work [under it](Observer::watch), and reads the observer from another thread. Lines of
//! [`Progress`](crate::progress::Progress) then go to the observer and not to the terminal. Jobs that the work runs on
//! other threads ([`crate::parallel`]) are under the same observer.
//!
//! **Cancellation.** [`Observer::stop`] sets a flag. The work reads the flag when it reports progress and when a job
//! starts. It then unwinds with a payload that only [`Observer::watch`] catches. Unwinding is safe for the same reason
//! as an early return: the values that the work owns are dropped, so part files are removed, threads of a scope are
//! joined, and suspended fibers are unwound. Two things outlive the work: caches, which hold only complete values
//! because no code reads the flag while it changes one, and the observer itself, whose lock is not held while the flag
//! is read.
//!
//! # Design
//!
//! The work reports its progress at most some thousand events apart, and unwinds from there. Functions in between
//! therefore need no error for a cancellation, and unwinding drops what an error would have dropped. Worker threads
//! belong to one call (`parallel::begin`), because a child of a process that has forked has none of its parent's
//! threads.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::ProgressBar;

thread_local! {
    /// Observer of the work on this thread.
    static CURRENT: RefCell<Option<Arc<Observer>>> = const { RefCell::new(None) };
}

/// Progress of observed work, and the flag that stops it.
#[derive(Debug, Default)]
pub struct Observer {
    is_stopped: AtomicBool,
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    begun: u64,
    open: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    number: u64,
    bar: ProgressBar,
    unit: Option<&'static str>,
}

impl Line {
    /// Returns the progress of this part of the work.
    fn stage(&self) -> Stage {
        Stage {
            number: self.number,
            what: self.bar.message(),
            done: self.bar.position(),
            total: self.bar.length().unwrap_or(0),
            unit: self.unit,
        }
    }
}

/// Progress of a part of the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Number of the part, unique within the observer.
    pub number: u64,
    /// Short description of the part.
    pub what: String,
    /// Completed steps.
    pub done: u64,
    /// Total steps.
    pub total: u64,
    /// Unit of the steps; `None` if the steps are weights, which are proportional to time.
    pub unit: Option<&'static str>,
}

/// The work was stopped before it was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cancelled before the work was complete")]
pub struct Cancellation;

impl Observer {
    /// Runs the work under this observer.
    ///
    /// # Errors
    /// [`Cancellation`] if the work was [stopped](Observer::stop) before it was complete. Any other panic of the work
    /// is resumed.
    pub fn watch<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> Result<T, Cancellation> {
        // `AssertUnwindSafe` is justified: the values of the work are dropped and not used after an unwind.
        let worked = catch_unwind(AssertUnwindSafe(|| under(Some(self), work)));
        worked.or_else(|panic: Box<dyn Any + Send>| match panic.downcast::<Cancellation>() {
            Ok(stopped) => Err(*stopped),
            Err(panic) => resume_unwind(panic),
        })
    }

    /// Stops the work. The work ends when it next reports progress or starts a job.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Returns the progress of the parts that are under way, the oldest first.
    pub fn stages(&self) -> Vec<Stage> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).open.iter().map(Line::stage).collect()
    }

    /// Returns the observer of the work on this thread; `None` if there is none.
    pub(crate) fn current() -> Option<Arc<Observer>> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Adds a line and returns its number.
    pub(crate) fn show(&self, bar: &ProgressBar, unit: Option<&'static str>) -> u64 {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.begun += 1;
        let number = lines.begun;
        lines.open.push(Line { number, bar: bar.clone(), unit });
        number
    }

    /// Removes the line with this number.
    pub(crate) fn wipe(&self, number: u64) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).open.retain(|line| line.number != number);
    }

    /// Unwinds if the work was stopped. No panic message is printed, because a stop is not an error.
    pub(crate) fn go_on(&self) {
        if self.is_stopped.load(Ordering::Relaxed) {
            resume_unwind(Box::new(Cancellation));
        }
    }
}

/// Returns whether the work on this thread is under an observer, so that no lines are written to stderr.
pub fn is_watched() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// Runs work on this thread under the observer, if there is one.
pub(crate) fn under<T>(observer: Option<&Arc<Observer>>, work: impl FnOnce() -> T) -> T {
    let _before = Before(CURRENT.replace(observer.cloned()));
    go_on();
    work()
}

/// Unwinds if the work was stopped. Work that takes long before its first progress report calls this function.
pub fn go_on() {
    if let Some(observer) = Observer::current() {
        observer.go_on();
    }
}

/// Guard that restores the previous observer of the thread, also on unwinding.
struct Before(Option<Arc<Observer>>);

impl Drop for Before {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel;
    use crate::progress::Progress;

    #[test]
    fn observer_sees_the_progress() {
        let observer = Arc::new(Observer::default());
        let stages = observer.watch(|| {
            let progress = Progress::new("reading x", 10);
            progress.advance(4);
            observer.stages()
        });
        let stage = Stage { number: 1, what: "reading x".to_owned(), done: 4, total: 10, unit: Some("events") };
        assert_eq!((stages, observer.stages()), (Ok(vec![stage]), Vec::new()));
    }

    #[test]
    fn stopped_work_unwinds_and_drops_its_values() {
        let (observer, held) = (Arc::new(Observer::default()), Arc::new(()));
        let worked = observer.watch(|| {
            let (_held, progress) = (Arc::clone(&held), Progress::new("counting", u64::MAX));
            for done in 0u64.. {
                progress.advance(1);
                if done == 10 {
                    observer.stop();
                }
                assert!(done <= 10, "it goes on");
            }
        });
        assert_eq!((worked, Arc::strong_count(&held)), (Err(Cancellation), 1));
        assert!(Observer::current().is_none() && observer.stages().is_empty());
    }

    #[test]
    fn stop_ends_jobs_on_other_threads() {
        let observer = Arc::new(Observer::default());
        let worked = observer.watch(|| {
            parallel::run_all(1000, |job| {
                assert!(Observer::current().is_some());
                if job == 500 {
                    observer.stop();
                }
                Progress::new("a job", 1).advance(1);
                Ok::<_, ()>(job)
            })
        });
        assert_eq!(worked, Err(Cancellation));
    }

    #[test]
    fn panic_is_not_a_cancellation() {
        let observer = Arc::new(Observer::default());
        let panicked = catch_unwind(AssertUnwindSafe(|| observer.watch(|| resume_unwind(Box::new("planted")))));
        assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"planted"));
    }
}
