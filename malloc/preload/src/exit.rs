//! What is said when the program ends, if the options ask for it: on what was standard error when it began, since many
//! programs close theirs before the last.

use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::Relaxed;

use freehold_malloc::os::platform::Descriptor;
use freehold_malloc::process::options::Stats;
use freehold_malloc::process::{self, options, profile};

use crate::introspect::{say_all, say_summary};

/// Standard error of the beginning, under a number that programs do not use.
static ERRORS: AtomicI32 = AtomicI32::new(libc::STDERR_FILENO);
/// The least such number.
const OUT_OF_THE_WAY: i32 = 200;

/// What the options say.
fn stats() -> Stats {
    options::current().map_or(Stats::Off, |options| options.stats)
}

/// Called by the loader before the program begins.
extern "C" fn at_start() {
    // The options are read with the first request.
    let object = process::malloc(1);
    // SAFETY: it was just allocated.
    unsafe { process::free(object) };
    profile::begin();
    #[cfg(all(feature = "helper", target_env = "gnu"))]
    crate::threads::prepare();
    if stats() != Stats::Off {
        // SAFETY: makes a number for a file, and takes none away.
        let kept = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, OUT_OF_THE_WAY) };
        if kept >= 0 {
            ERRORS.store(kept, Relaxed);
        }
    }
}

/// Called by the loader when the program returns from main or calls exit.
extern "C" fn at_exit() {
    process::check_held();
    let mut errors = Descriptor(ERRORS.load(Relaxed));
    profile::at_exit(&mut errors);
    match stats() {
        Stats::Off => {}
        Stats::AtExit => say_summary(&mut errors),
        Stats::OfSizes => say_all(&mut errors),
    }
}

// SAFETY: the loader takes what lies there for functions like this one.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

// SAFETY: the loader takes what lies there for functions like this one.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
