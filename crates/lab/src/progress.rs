//! The line that moves while a long command works.
//!
//! It goes to stderr, and only when stderr is a terminal, so that pipes and logs stay clean.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

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
    pub fn counting(what: impl Into<String>, total: u64, unit: &str) -> Progress {
        let template = format!("{{msg}} [{{bar:30}}] {{percent:>3}} %  {{human_pos}} {unit}  {{eta}} left");
        let target =
            if io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total), target).with_message(what.into()).with_style(
            ProgressStyle::with_template(&template)
                .expect("the template is a constant but for a word")
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
