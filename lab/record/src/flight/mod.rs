//! The flight recorder: the last minute of a machine's page events, kept in memory until something happens.
//!
//! Nobody reads while nothing happens. The kernel writes events into the rings of an instance ([`recorder`]) and writes
//! over the oldest ones, so a quiet minute costs the tracepoints alone, and one look at the kernel's counters each
//! second ([`SAMPLE_INTERVAL`]). That look is also what most triggers are told from
//! ([`trigger`]); failures are told by the kernel's log ([`klog`]), and whoever wants a recording sends SIGUSR1.
//!
//! Once a trigger fires, the recorder waits for a short tail, reads the page flags while tracing goes on, stops
//! tracing, empties the rings into a spool, and starts tracing anew. Only then is the recording decoded and written
//! ([`files`]). Its start state, which nobody has looked at, is rebuilt from its end ([`rebuild`](crate::rebuild)). A
//! recording that cannot be written is said, and the recorder goes on.

mod files;
mod klog;
mod plan;
mod recorder;
mod trigger;

use std::path::Path;

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

/// What happens while a recording waits for its tail is told in it, up to this number.
const TRIGGERS_MAX: usize = 64;

/// An event of the flight recorder that its caller is told.
#[derive(Debug)]
pub enum FlightEvent<'a> {
    /// It keeps events from now on.
    Started {
        /// KiB of ring for each CPU.
        ring_kib: u64,
        /// CPUs that have one.
        cpus: usize,
    },
    /// Something happened that makes it write.
    Triggered(Trigger),
    /// A recording is whole.
    Written {
        /// Its file.
        path: &'a Path,
        /// What is in it.
        summary: &'a Summary,
        /// Triggers that came too soon after the recording before.
        passed_over: u64,
    },
    /// An older recording went, so that not too many stay.
    Removed(&'a Path),
    /// Somebody had switched tracing off: what is kept starts now.
    Resumed,
    /// A recording could not be written, and the recorder goes on.
    Failed(&'a CaptureError),
}

/// The callback that receives the events of a flight recorder.
pub type FlightListener<'a> = dyn FnMut(&FlightEvent<'_>) + 'a;

/// Keeps events, and writes a recording whenever something happens, until the time is over, the command ends or a
/// signal comes.
///
/// # Errors
/// See [`CaptureError`]; nothing is left behind but recordings that are whole.
pub fn fly(plan: &FlightPlan, tell: &mut FlightListener<'_>) -> Result<(), CaptureError> {
    expect_root()?;
    plan.files.expect_folder()?;
    let program = Program::find(&plan.command)?;
    let machine = Machine::look()?;
    let interrupts = Interrupts::listen().map_err(CaptureError::system("listen to signals"))?;
    let requests = Requests::listen().map_err(CaptureError::system("listen to signals"))?;
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
    command.map(|command| command.end(&interrupts)).transpose()?;
    flown
}

/// What the recorder listens to while it flies.
struct Flight<'a> {
    plan: &'a FlightPlan,
    interrupts: &'a Interrupts,
    requests: &'a Requests,
    command: Option<&'a Running>,
}

/// A recording that waits for its tail.
struct Pending {
    triggers: Vec<(Trigger, u64)>,
    /// The clock when it is written.
    due: u64,
}

impl Flight<'_> {
    fn watch_over(&self, recorder: &mut Recorder<'_>, tell: &mut FlightListener<'_>) -> Result<(), CaptureError> {
        let end = self.plan.duration.map_or(u64::MAX, |duration| clock::now().saturating_add(nanoseconds(duration)));
        let (mut next, mut quiet_until, mut passed_over) = (clock::now(), 0, 0);
        let mut pending: Option<Pending> = None;
        loop {
            let until = end.min(next).min(pending.as_ref().map_or(u64::MAX, |pending| pending.due));
            let fds =
                [Some(self.interrupts.readable()), Some(self.requests.readable()), self.command.map(Running::ended)];
            let [_, _, has_ended] = wait::until(until, fds)?;
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
                // What could not be written is tried again sooner, but not all the time: there may be no room for long.
                let every = nanoseconds(self.plan.every);
                let quiet = match self.keep(recorder, &pending, std::mem::take(&mut passed_over), tell)? {
                    true => every,
                    false => every / 10,
                };
                quiet_until = clock::now().saturating_add(quiet);
                next = clock::now();
            }
            if is_over || self.interrupts.is_waiting() {
                return Ok(());
            }
        }
    }

    /// Writes what is kept, or says why it cannot: `false` then.
    ///
    /// # Errors
    /// When the recorder cannot go on.
    fn keep(
        &self,
        recorder: &mut Recorder<'_>,
        pending: &Pending,
        passed_over: u64,
        tell: &mut FlightListener<'_>,
    ) -> Result<bool, CaptureError> {
        // Whoever ends the recorder waits for the recording that is being written, unless they say it twice.
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
