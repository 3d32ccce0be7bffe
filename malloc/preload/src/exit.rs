//! Start and end of the program: the profiler is started, and statistics are written at exit if the options enable
//! them. They are written to the standard error of the start, because many programs close standard error before they
//! exit.

use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::Relaxed;

use freehold_malloc::os::platform::Descriptor;
use freehold_malloc::process::options::Stats;
use freehold_malloc::process::usage::{Usage, is_child_of};
use freehold_malloc::process::{self, options, profile, sandbox};

use crate::introspect::{say_all, say_summary, say_usage};

/// Duplicate of the initial standard error, with a number that programs do not use.
static ERRORS: AtomicI32 = AtomicI32::new(libc::STDERR_FILENO);
/// Lowest number of the duplicate.
const OUT_OF_THE_WAY: i32 = 200;

/// Returns the option for statistics.
fn stats() -> Stats {
    options::current().map_or(Stats::Off, |options| options.stats)
}

/// Initialises the library. The loader calls it before `main`.
extern "C" fn at_start() {
    // The first request reads the options.
    let object = process::malloc(1);
    // SAFETY: the object was just allocated and is not used any more.
    unsafe { process::free(object) };
    profile::begin();
    #[cfg(all(feature = "helper", target_env = "gnu"))]
    crate::threads::prepare();
    if stats() != Stats::Off {
        // SAFETY: `F_DUPFD_CLOEXEC` only creates a new descriptor.
        let kept = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, OUT_OF_THE_WAY) };
        if kept >= 0 {
            ERRORS.store(kept, Relaxed);
        }
    }
}

/// Checks held blocks, and writes profiles and statistics unless a filter may forbid it. The loader calls it when
/// `main` returns or the program calls `exit`.
extern "C" fn at_exit() {
    process::check_held();
    if sandbox::is_restricted() {
        return;
    }
    let mut errors = Descriptor(ERRORS.load(Relaxed));
    profile::at_exit(&mut errors);
    match stats() {
        Stats::Off => {}
        Stats::AtExit => say_summary(&mut errors),
        Stats::OfLong => say_unless_brief(&mut errors),
        Stats::OfSizes => say_all(&mut errors),
    }
}

/// Writes the summary, unless the process was brief and is not the child of the process that the options name. A brief
/// process is counted instead.
fn say_unless_brief(errors: &mut Descriptor) {
    let Some(options) = options::current() else { return };
    let usage = Usage::of_process();
    if usage.is_brief() && !is_child_of(options.stats_parent) {
        options.stats_file.count();
    } else {
        say_usage(&usage, errors);
    }
}

// SAFETY: the loader expects addresses of functions of this type in `.init_array`.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

// SAFETY: the loader expects addresses of functions of this type in `.fini_array`.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
