//! The line that moves while a long command works.
//!
//! It goes to stderr. Where that is no terminal, but a log or a pipe, it is a line every ten seconds instead.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::number;

/// All bars of this process, one below the other.
static BARS: LazyLock<MultiProgress> = LazyLock::new(|| {
    let is_terminal = io::stderr().is_terminal();
    MultiProgress::with_draw_target(if is_terminal {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    })
});

/// Between two lines in a log.
const PAUSE: Duration = Duration::from_secs(10);

/// A bar that counts events, or what else is done one by one. Dropping it wipes it off the terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    /// When a line is due in a log; nothing on a terminal.
    due: Option<Mutex<Instant>>,
    unit: &'static str,
}

impl Progress {
    /// A bar for `total` events, opened by a few words that say what is going on.
    pub fn new(what: impl Into<String>, total: u64) -> Progress {
        Progress::counting(what, total, "events")
    }

    /// A bar for `total` of something else than events.
    pub fn counting(what: impl Into<String>, total: u64, unit: &'static str) -> Progress {
        let template = "{msg} [{bar:30}] {percent:>3} %  {human_pos} {unit}  {eta} left";
        let write_unit = move |state: &ProgressState, text: &mut dyn fmt::Write| {
            // A bar has no way to say that its line could not be made.
            let _ = text.write_str(number::unit(state.pos(), unit));
        };
        let style = ProgressStyle::with_template(template)
            .expect("the template is a constant")
            .with_key("unit", write_unit)
            .progress_chars("=> ");
        let bar = BARS.add(ProgressBar::new(total)).with_message(what.into()).with_style(style);
        let due = (!io::stderr().is_terminal()).then(|| Mutex::new(Instant::now() + PAUSE));
        Progress { bar, due, unit }
    }

    /// Counts so many more as done. Cheap, but call it per batch, not per event.
    pub fn advance(&self, done: u64) {
        self.bar.inc(done);
        if let Some(due) = &self.due {
            let mut due = due.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            if now >= *due {
                *due = now + PAUSE;
                // A log that nobody reads any more is no reason to stop.
                let _ = writeln!(io::stderr(), "{}", self.line());
            }
        }
    }

    /// How far it is, as a line for a log.
    fn line(&self) -> String {
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
        let percent = (100 * done).checked_div(all).unwrap_or(0);
        let left = self.bar.eta().as_secs();
        let what = self.bar.message();
        format!("{what}: {percent} %, {} {}, about {left} s left", number::count(done), number::unit(done, self.unit))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_told_how_far_it_is() {
        let progress = Progress::counting("hosts", 4, "runs");
        progress.advance(1);
        let line = progress.line();
        assert!(line.starts_with("hosts: 25 %, 1 run, about ") && line.ends_with(" s left"), "{line}");
    }
}
