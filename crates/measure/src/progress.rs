//! The line that moves while a long command works.
//!
//! It goes to stderr, and only when stderr is a terminal, so that pipes and logs stay clean.

use std::fmt::Write;
use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::number;

/// A bar that counts events, or what else is done one by one. Dropping it wipes it off the terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for `total` events, opened by a few words that say what is going on.
    pub fn new(what: impl Into<String>, total: u64) -> Progress {
        Progress::counting(what, total, "events")
    }

    /// A bar for `total` of something else than events.
    pub fn counting(what: impl Into<String>, total: u64, unit: &'static str) -> Progress {
        let template = "{msg} [{bar:30}] {percent:>3} %  {human_pos} {unit}  {eta} left";
        let write_unit = move |state: &ProgressState, text: &mut dyn Write| {
            // A bar has no way to say that its line could not be made.
            let _ = text.write_str(number::unit(state.pos(), unit));
        };
        let target =
            if io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total), target).with_message(what.into()).with_style(
            ProgressStyle::with_template(template)
                .expect("the template is a constant")
                .with_key("unit", write_unit)
                .progress_chars("=> "),
        );
        Progress { bar }
    }

    /// Counts so many more as done. Cheap, but call it per batch, not per event.
    pub fn advance(&self, done: u64) {
        self.bar.inc(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
