//! The loop of virtual time: the CPU with the smallest clock runs until it parks, then the next.
//!
//! Between two turns the observer may look at the machine, at times it names: then every CPU's clock has reached that
//! time, and nothing moves while it looks.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::clock;
use freehold_fiber::Fiber;

/// Looks at the machine while no CPU runs.
pub trait Observer {
    /// When it wants to look next; `u64::MAX` if it has seen enough.
    fn next(&self) -> u64;
    /// It is that time.
    fn observe(&mut self);
    /// All clocks have reached this time. Called at each turn: cheap.
    fn pass(&mut self, _time: u64) {}
}

/// Why a run stopped before its CPUs had ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// Code of a CPU panicked.
    #[error("simulated CPU {cpu} stopped at {at_ns} ns: {message}; this is a fault of the program, please report it")]
    Panic {
        /// The CPU.
        cpu: u16,
        /// Its time.
        at_ns: u64,
        /// What it said.
        message: String,
    },
    /// All CPUs that have not ended wait for locks.
    #[error("{waiting} simulated CPUs wait for each other for ever; this is a fault of the program, please report it")]
    Deadlock {
        /// How many.
        waiting: usize,
    },
    /// A stack could not be had.
    #[error("there is no memory for the stack of another simulated CPU ({0}); simulate fewer CPUs, or close something")]
    Stack(String),
}

/// Runs `code` for every CPU and task, by its number, until all have ended.
///
/// # Errors
/// See [`Stopped`]. Code that was under way is unwound.
pub fn run(count: u16, code: impl Fn(u16), observer: &mut impl Observer) -> Result<(), Stopped> {
    let code = &code;
    let own = |number| fiber(move || code(number)).map(Some);
    let mut fibers: Vec<Option<Fiber<'_>>> = (0..count).map(own).collect::<Result<_, _>>()?;
    clock::with(|clock| (0..count).for_each(|number| clock.resume_at(number, 0)));
    let mut left = fibers.len();
    while left > 0 {
        let (time, cpu) = clock::with(|clock| clock.next()).ok_or(Stopped::Deadlock { waiting: left })?;
        while observer.next() <= time {
            observer.observe();
        }
        observer.pass(time);
        let fiber = &mut fibers[usize::from(cpu)];
        clock::with(|clock| {
            clock.look_at(observer.next());
            clock.begin(time, cpu);
        });
        let has_ended = step(fiber.as_mut().expect("who has ended is never next"))?;
        clock::with(|clock| clock.stop());
        if has_ended {
            *fiber = None;
            left -= 1;
        }
    }
    Ok(())
}

fn fiber<'f>(code: impl FnOnce() + 'f) -> Result<Fiber<'f>, Stopped> {
    Fiber::new(code).map_err(|error| Stopped::Stack(error.to_string()))
}

/// Resumes a fiber; says whether it has ended. A panic of its code becomes an error.
fn step(fiber: &mut Fiber<'_>) -> Result<bool, Stopped> {
    catch_unwind(AssertUnwindSafe(|| fiber.resume())).map_err(|panic| {
        clock::with(|clock| {
            let (cpu, at_ns) = (clock.cpu(), clock.now() / 1000);
            clock.stop();
            Stopped::Panic { cpu, at_ns, message: message(&*panic) }
        })
    })
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}
