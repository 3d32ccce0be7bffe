//! The scheduler of virtual time: the CPU with the smallest clock runs until it is suspended, then the next one.
//!
//! Between two turns an observer may examine the machine, at times that it chooses. Every CPU's clock has then reached
//! that time, and nothing changes during the observation.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::clock::{self, Clock};
use freehold_fiber::Fiber;

/// An observer of the machine. It runs while no CPU does.
pub(crate) trait Observer {
    /// Returns the time of the next observation; `u64::MAX` if there is none.
    fn next(&self) -> u64;
    /// Observes the machine at the time that `next` returned.
    fn observe(&mut self);
    /// Notes that all clocks have reached this time. Called at each turn, so it must be cheap.
    fn pass(&mut self, _time: u64) {}
}

/// Reason why a run stopped before its CPUs had ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// The code of a CPU panicked.
    #[error("simulated CPU {cpu} stopped at {at_ns} ns: {message}; this is a fault of the program, please report it")]
    Panic {
        /// Number of the CPU.
        cpu: u16,
        /// Time of the CPU, in nanoseconds.
        at_ns: u64,
        /// Message of the panic.
        message: String,
    },
    /// All CPUs that have not ended wait for locks.
    #[error("deadlock: {waiting} simulated CPUs wait for each other; this is a fault of the program, please report it")]
    Deadlock {
        /// Number of waiting CPUs.
        waiting: usize,
    },
    /// A stack could not be allocated.
    #[error(
        "there is no memory for the stack of another simulated CPU ({0}); simulate fewer CPUs, or close other programs"
    )]
    Stack(String),
}

/// Runs `code` for every CPU and task, by its number, until all have ended.
///
/// # Errors
/// See [`StopReason`]. The stacks of fibers that have not ended are unwound.
pub(crate) fn run(count: u16, code: impl Fn(u16), observer: &mut impl Observer) -> Result<(), StopReason> {
    let code = &code;
    let mut fibers: Vec<Option<Fiber<'_>>> =
        (0..count).map(|number| fiber(move || code(number)).map(Some)).collect::<Result<_, _>>()?;
    clock::with_clock(|clock| (0..count).for_each(|number| clock.resume_at(number, 0)));
    match catch_unwind(AssertUnwindSafe(|| clock::with_clock(|clock| take_turns(clock, &mut fibers, observer)))) {
        Ok(ended) => ended,
        Err(panic) => Err(clock::with_clock(|clock| stopped_by(clock, panic))),
    }
}

/// Resumes the next CPU until all have ended. A panic of their code propagates from here; the clock is left as it was.
fn take_turns(clock: &Clock, fibers: &mut [Option<Fiber<'_>>], observer: &mut impl Observer) -> Result<(), StopReason> {
    let mut left = fibers.len();
    let mut look = observer.next();
    clock.look_at(look);
    while left > 0 {
        let next = clock.take_next().ok_or(StopReason::Deadlock { waiting: left })?;
        while look <= next.time() {
            observer.observe();
            look = observer.next();
            clock.look_at(look);
        }
        observer.pass(next.time());
        if let Some(Some(fiber)) = clock.after_next().map(|cpu| &fibers[usize::from(cpu)]) {
            fiber.expect();
        }
        let fiber = &mut fibers[usize::from(next.cpu())];
        clock.begin(next);
        let has_ended = fiber.as_mut().expect("a CPU that has ended is never next").resume();
        clock.stop();
        if has_ended {
            *fiber = None;
            left -= 1;
        }
    }
    Ok(())
}

fn fiber<'f>(code: impl FnOnce() + 'f) -> Result<Fiber<'f>, StopReason> {
    Fiber::new(code).map_err(|error| StopReason::Stack(error.to_string()))
}

/// Converts a panic of a CPU's code to a reason. Resumes a panic of the observer.
fn stopped_by(clock: &Clock, panic: Box<dyn Any + Send>) -> StopReason {
    if clock.is_observed() {
        resume_unwind(panic);
    }
    let (cpu, at_ns) = (clock.cpu(), clock.now() / 1000);
    clock.stop();
    StopReason::Panic { cpu, at_ns, message: message(&*panic) }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic without a message".to_owned())
}
