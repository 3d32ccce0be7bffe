//! What is said when the program ends, if the options ask for it.

use freehold_malloc::os::platform::StandardError;
use freehold_malloc::process::options;
use freehold_malloc::process::options::Stats;

use crate::introspect::{say_all, say_summary};

/// Called by the loader when the program returns from main or calls exit.
extern "C" fn at_exit() {
    match options::current().map(|options| options.stats) {
        None | Some(Stats::Off) => {}
        Some(Stats::AtExit) => say_summary(&mut StandardError),
        Some(Stats::OfSizes) => say_all(&mut StandardError),
    }
}

// SAFETY: the loader takes what lies there for functions like this one.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
