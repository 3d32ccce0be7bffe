//! Whoever looks at work from outside: is told how far it is, and may end it.
//!
//! A person at a terminal sees lines move, and has Ctrl-C. A program that asks for an answer gets neither: it hands over
//! an [`Observer`], does the work [under it](Observer::watch), and looks at it from another thread. Lines of
//! [`Progress`](crate::progress::Progress) are then the observer's and not the terminal's, and jobs that the work does
//! on other threads ([`crate::parallel`]) are under the same observer.
//!
//! **How work ends early.** [`Observer::stop`] sets a flag. Work looks at it where it counts something as done and
//! where a job begins, and unwinds from there with a payload that only [`Observer::watch`] catches. That is sound for the
//! reason that an early return is: what the work owned is dropped, so part files go, threads of a scope are joined, and
//! suspended fibers are unwound. What outlives it are caches of whole values, since no place that looks at the flag is
//! in the middle of changing one; and the observer itself, whose lock is not held then.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::ProgressBar;

thread_local! {
    /// Whoever looks at what this thread does.
    static CURRENT: RefCell<Option<Arc<Observer>>> = const { RefCell::new(None) };
}

/// Looks at work from outside.
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
    /// Returns how far this part of the work is.
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

/// How far a part of the work is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Its number, which no other part of the work has.
    pub number: u64,
    /// What is going on, in a few words.
    pub what: String,
    /// What was done.
    pub done: u64,
    /// What there is to do.
    pub total: u64,
    /// What is counted; nothing where it is weighed.
    pub unit: Option<&'static str>,
}

/// The work was ended before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ended before it was done")]
pub struct Cancellation;

impl Observer {
    /// Does the work under this observer.
    ///
    /// # Errors
    /// [`Cancellation`], if it was [ended](Observer::stop) before it was done. A panic of the work's comes out as it was.
    pub fn watch<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> Result<T, Cancellation> {
        // What the work had in hand is dropped, and not looked at any more.
        let worked = catch_unwind(AssertUnwindSafe(|| under(Some(self), work)));
        worked.or_else(|panic: Box<dyn Any + Send>| match panic.downcast::<Cancellation>() {
            Ok(stopped) => Err(*stopped),
            Err(panic) => resume_unwind(panic),
        })
    }

    /// Ends the work, soon: where it next counts something as done, or begins a job.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// How far the parts of the work are that are under way, the oldest first.
    pub fn stages(&self) -> Vec<Stage> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).open.iter().map(Line::stage).collect()
    }

    /// Whoever looks at what this thread does.
    pub(crate) fn current() -> Option<Arc<Observer>> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Shows a line; its number.
    pub(crate) fn show(&self, bar: &ProgressBar, unit: Option<&'static str>) -> u64 {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.begun += 1;
        let number = lines.begun;
        lines.open.push(Line { number, bar: bar.clone(), unit });
        number
    }

    /// Shows the line with this number no more.
    pub(crate) fn wipe(&self, number: u64) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).open.retain(|line| line.number != number);
    }

    /// Unwinds if the work is to end. Without the message of a panic, since it is none.
    pub(crate) fn go_on(&self) {
        if self.is_stopped.load(Ordering::Relaxed) {
            resume_unwind(Box::new(Cancellation));
        }
    }
}

/// Whether somebody looks at what this thread does, who wants no lines on stderr.
pub fn is_watched() -> bool {
    CURRENT.with_borrow(Option::is_some)
}

/// Does work of this thread under the observer, if there is one.
pub(crate) fn under<T>(observer: Option<&Arc<Observer>>, work: impl FnOnce() -> T) -> T {
    let _before = Before(CURRENT.replace(observer.cloned()));
    go_on();
    work()
}

/// Goes on with the work unless it is to end: for work that takes long before it counts anything as done.
pub fn go_on() {
    if let Some(observer) = Observer::current() {
        observer.go_on();
    }
}

/// Whoever looked before, and does again however the work ends.
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
    fn work_tells_its_observer_how_far_it_is() {
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
    fn work_that_is_ended_unwinds_and_drops_what_it_had() {
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
    fn jobs_on_other_threads_end_too() {
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
    fn a_panic_is_no_end() {
        let observer = Arc::new(Observer::default());
        let panicked = catch_unwind(AssertUnwindSafe(|| observer.watch(|| resume_unwind(Box::new("planted")))));
        assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"planted"));
    }
}
