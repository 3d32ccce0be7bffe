//! The period in which memory stays fragmented: while a command runs, for some seconds, or until a signal.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use freehold_record::{Interrupts, Program};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::error::Error;
use super::scope::Scope;

/// Reason why the period ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// No period was requested.
    AtOnce,
    /// The command ended by itself, with this status.
    Command(Option<ExitStatus>),
    /// The requested time has elapsed.
    InTime,
    /// A signal of the user ended it.
    BySignal,
}

/// Work that is done during the period.
pub(crate) trait Meanwhile {
    /// Returns the time until the next step; `None` if there is none.
    fn pause(&self) -> Option<Duration>;
    /// Does a step.
    fn step(&mut self) -> Result<(), Error>;
}

impl<M: Meanwhile> Meanwhile for Option<M> {
    fn pause(&self) -> Option<Duration> {
        self.as_ref()?.pause()
    }

    fn step(&mut self) -> Result<(), Error> {
        self.as_mut().map_or(Ok(()), M::step)
    }
}

/// Waits until the period ends, and does the work meanwhile.
pub(crate) fn hold(
    program: Option<&Program>,
    duration: Option<Duration>,
    interrupts: &Interrupts,
    scope: &Scope,
    meanwhile: &mut dyn Meanwhile,
) -> Result<EndReason, Error> {
    let running = program.map(|program| scope.outside(|| program.start_bound(scope.files()))).transpose()?;
    scope.stand_back();
    let end = duration.map(|duration| Instant::now() + duration);
    let ended = loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            break EndReason::InTime;
        }
        let pause = [left, meanwhile.pause()].into_iter().flatten().min();
        let timeout =
            pause.map(|pause| Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: pause.subsec_nanos().into() });
        let readable = interrupts.readable();
        let mut fds = vec![PollFd::from_borrowed_fd(readable, PollFlags::IN)];
        fds.extend(running.as_ref().map(|running| PollFd::from_borrowed_fd(running.ended(), PollFlags::IN)));
        // A signal that interrupts the call has written a byte, which the next call sees.
        let woken = poll(&mut fds, timeout.as_ref()).unwrap_or(1);
        let has_ended = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
        if interrupts.count() > 0 {
            break EndReason::BySignal;
        }
        if has_ended {
            break EndReason::Command(None);
        }
        if woken == 0 && meanwhile.pause().is_some() {
            meanwhile.step()?;
        }
    };
    interrupts.obey();
    let status = running.map(|running| running.end(interrupts)).transpose()?.flatten();
    Ok(match ended {
        EndReason::Command(_) => EndReason::Command(status),
        other => other,
    })
}
