//! Flight recorder: the last minute of a machine's page events, kept in memory until a trigger fires.
//!
//! Without a trigger no event is read. The kernel writes events into the rings of an instance ([`recorder`]) and
//! overwrites the oldest ones. A quiet minute therefore costs only the tracepoints, and one read of the kernel's
//! counters per second ([`SAMPLE_INTERVAL`]). Most triggers are detected from these counters ([`trigger`]), and
//! failures from the kernel's log ([`klog`]). SIGUSR1 requests a recording.
//!
//! When a trigger fires:
//!
//! 1. The recorder waits for a short tail, and reads the page flags while tracing continues.
//! 2. It stops tracing, empties the rings into a spool, and starts tracing again.
//! 3. It decodes the recording and writes it ([`files`]). The start state was not scanned, and is rebuilt from the
//!    state at the end ([`rebuild`](crate::rebuild)).
//!
//! If a recording cannot be written, the caller receives [`FlightEvent::Failed`], and the recorder continues.
//!
//! # Design
//!
//! The rings are in overwrite mode, so the kernel itself keeps the last events. A reader would copy each event in order
//! to keep more of them in less memory; that costs more than the whole budget of the recorder. Failures are detected in
//! the kernel's log, because a filter on the tracepoint would run for every allocation. A window begins with a reading
//! of the counters, so that the zones of that moment are known, and the rebuilt free blocks can be compared with the
//! kernel's own count.

mod files;
mod klog;
mod plan;
mod recorder;
mod trigger;

use std::path::Path;
use std::process::ExitStatus;

pub use files::Files;
pub use plan::FlightPlan;
pub use trigger::{Trigger, TriggerError};

use crate::clock::{self, nanoseconds};
use crate::command::{Program, Running};
use crate::error::CaptureError;
use crate::interrupt::{Interrupts, Requests};
use crate::machine::{Machine, expect_root};
use crate::plan::Summary;
use crate::wait;
use plan::SAMPLE_INTERVAL;
use recorder::Recorder;

/// Largest number of triggers in a recording that fire while it waits for its tail.
const TRIGGERS_MAX: usize = 64;

/// An event of the flight recorder, which is passed to its caller.
#[derive(Debug)]
pub enum FlightEvent<'a> {
    /// The recorder keeps events from now on.
    Started {
        /// KiB of ring for each CPU.
        ring_kib: u64,
        /// Number of CPUs with a ring.
        cpus: usize,
    },
    /// A trigger fired, and a recording will be written.
    Triggered(Trigger),
    /// A recording is complete.
    Written {
        /// Path of the file.
        path: &'a Path,
        /// Summary of the recording.
        summary: &'a Summary,
        /// Triggers that fired too soon after the previous recording.
        passed_over: u64,
    },
    /// An older recording was removed, since there were too many.
    Removed(&'a Path),
    /// Tracing had been switched off from outside. Events are kept from now on.
    Resumed,
    /// A recording could not be written. The recorder continues.
    Failed(&'a CaptureError),
}

/// The callback that receives the events of a flight recorder.
pub type FlightListener<'a> = dyn FnMut(&FlightEvent<'_>) + 'a;

/// Keeps events, and writes a recording whenever a trigger fires, until the time is over, the command ends or a signal
/// arrives. Returns the exit status of the command if the command ended by itself.
///
/// # Errors
/// See [`CaptureError`]. Only complete recordings remain.
pub fn fly(plan: &FlightPlan, tell: &mut FlightListener<'_>) -> Result<Option<ExitStatus>, CaptureError> {
    expect_root()?;
    plan.files.expect_folder()?;
    let program = Program::find(&plan.command)?;
    let machine = Machine::look()?;
    let interrupts = Interrupts::listen().map_err(CaptureError::system("register signal handlers"))?;
    let requests = Requests::listen().map_err(CaptureError::system("register signal handlers"))?;
    let mut recorder = Recorder::prepare(plan, &machine)?;
    recorder.start()?;
    let command = program.as_ref().map(Program::start).transpose()?;
    recorder.command =
        command.as_ref().map(|command| (command.pid(), program.as_ref().map_or_else(String::new, Program::name)));
    tell(&FlightEvent::Started { ring_kib: recorder.ring_kib, cpus: machine.cpus.len() });
    let flight = Flight { plan, interrupts: &interrupts, requests: &requests, command: command.as_ref() };
    let flown = flight.watch_over(&mut recorder, tell);
    drop(recorder);
    interrupts.obey();
    let status = command.map(|command| command.end(&interrupts)).transpose()?.flatten();
    let ended_by_itself = flown?;
    Ok(status.filter(|_| ended_by_itself))
}

/// Sources of events for the recorder while it runs.
struct Flight<'a> {
    plan: &'a FlightPlan,
    interrupts: &'a Interrupts,
    requests: &'a Requests,
    command: Option<&'a Running>,
}

/// A recording that waits for its tail.
struct Pending {
    triggers: Vec<(Trigger, u64)>,
    /// Time of the clock at which it is written.
    due: u64,
}

impl Flight<'_> {
    /// Watches for triggers until the recorder is ended. Returns whether the command ended by itself.
    fn watch_over(&self, recorder: &mut Recorder<'_>, tell: &mut FlightListener<'_>) -> Result<bool, CaptureError> {
        let end = self.plan.duration.map_or(u64::MAX, |duration| clock::now().saturating_add(nanoseconds(duration)));
        let (mut next, mut quiet_until, mut passed_over) = (clock::now(), 0, 0);
        let mut pending: Option<Pending> = None;
        loop {
            let until = end.min(next).min(pending.as_ref().map_or(u64::MAX, |pending| pending.due));
            let fds =
                [Some(self.interrupts.readable()), Some(self.requests.readable()), self.command.map(Running::ended)];
            let [is_interrupted, _, has_ended] = wait::until(until, fds)?;
            let now = clock::now();
            let is_over = has_ended || now >= end || self.interrupts.is_waiting();
            let mut fired = Vec::new();
            if self.requests.take() {
                fired.push(Trigger::Asked);
            }
            if now >= next {
                if recorder.resume()? {
                    tell(&FlightEvent::Resumed);
                }
                fired.extend(recorder.look()?);
                next = (next + SAMPLE_INTERVAL).max(now);
            }
            for trigger in fired {
                match &mut pending {
                    Some(pending) if pending.triggers.len() < TRIGGERS_MAX => pending.triggers.push((trigger, now)),
                    Some(_) => {}
                    None if trigger == Trigger::Asked || now >= quiet_until => {
                        tell(&FlightEvent::Triggered(trigger));
                        let due = now.saturating_add(nanoseconds(self.plan.tail));
                        pending = Some(Pending { triggers: vec![(trigger, now)], due });
                    }
                    None => passed_over += 1,
                }
            }
            if let Some(pending) = pending.take_if(|pending| is_over || clock::now() >= pending.due) {
                // A recording that failed is tried again sooner, but with a pause, since there may be no space for a
                // long time.
                let every = nanoseconds(self.plan.every);
                let quiet = match self.keep(recorder, &pending, std::mem::take(&mut passed_over), tell)? {
                    true => every,
                    false => every / 10,
                };
                quiet_until = clock::now().saturating_add(quiet);
                next = clock::now();
            }
            if is_over || self.interrupts.is_waiting() {
                return Ok(has_ended && !is_interrupted);
            }
        }
    }

    /// Writes a recording. Returns `false` if it could not be written, after passing the reason to `tell`.
    ///
    /// # Errors
    /// If the recorder cannot continue.
    fn keep(
        &self,
        recorder: &mut Recorder<'_>,
        pending: &Pending,
        passed_over: u64,
        tell: &mut FlightListener<'_>,
    ) -> Result<bool, CaptureError> {
        // A signal to end the recorder waits until the recording is written, unless it is repeated.
        self.interrupts.postpone();
        let path = self.plan.files.next(pending.triggers[0].0);
        let written = recorder.write(&path, &pending.triggers, self.interrupts);
        match &written {
            Ok(summary) => tell(&FlightEvent::Written { path: &path, summary, passed_over }),
            Err(CaptureError::Aborted) => return written.map(|_| false),
            Err(error) => tell(&FlightEvent::Failed(error)),
        }
        for removed in self.plan.files.prune() {
            tell(&FlightEvent::Removed(&removed));
        }
        Ok(written.is_ok())
    }
}
