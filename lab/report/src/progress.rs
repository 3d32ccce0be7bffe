//! Progress lines of long commands.
//!
//! On a terminal, a bar moves on stderr. If stderr is a log or a pipe, a line is written every ten seconds instead.
//! Under an [observer](crate::observer), nothing is written, and the observer reads the progress. With
//! [suppressed](crate::notes) notes, no progress is shown. The remaining time is extrapolated from the rate so far. This
//! holds only if all counted steps take about the same time, so work whose parts differ is
//! [weighed](Progress::weighing) instead of counted.

use std::cell::Cell;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::notes;
use crate::number;
use crate::observer::Observer;
use crate::terminal::printable;

/// All bars of this process, one below the other.
static BARS: LazyLock<MultiProgress> = LazyLock::new(|| {
    let is_shown = io::stderr().is_terminal() && !notes::are_suppressed();
    MultiProgress::with_draw_target(if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() })
});

/// Interval between two lines in a log.
const PAUSE: Duration = Duration::from_secs(10);

/// A progress bar that counts events or other steps. Dropping the bar removes it from the terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    /// Time of the next line in a log; `None` on a terminal, under an observer, or if notes are suppressed.
    due: Option<Mutex<Instant>>,
    /// Unit of the count; `None` if the work is weighed, because weights are not shown.
    unit: Option<&'static str>,
    /// Observer that shows the bar in place of the terminal, and the number of the bar there.
    observer: Option<(Arc<Observer>, u64)>,
}

impl Progress {
    /// Starts a bar for `total` events, labelled with a short description of the work.
    pub fn new(what: impl Into<String>, total: u64) -> Progress {
        Progress::counting(what, total, "events")
    }

    /// Starts a bar for `total` steps that are not events.
    pub fn counting(what: impl Into<String>, total: u64, unit: &'static str) -> Progress {
        Progress::start(what.into(), total, Some(unit))
    }

    /// Starts a bar for work whose parts weigh `total` together. The weight of a part is proportional to the time that
    /// the part takes.
    pub fn weighing(what: impl Into<String>, total: u64) -> Progress {
        Progress::start(what.into(), total, None)
    }

    fn start(what: String, total: u64, unit: Option<&'static str>) -> Progress {
        if let Some(observer) = Observer::current() {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden()).with_message(what);
            let number = observer.show(&bar, unit);
            return Progress { bar, due: None, unit, observer: Some((observer, number)) };
        }
        let count = if unit.is_some() { "  {human_pos} {unit}" } else { "" };
        let template = format!("{{wide_msg}} [{{bar:20}}] {{percent:>3}} %{count}  {{left}}");
        // The callbacks of a bar return nothing, so an error of formatting is ignored.
        let style = ProgressStyle::with_template(&template)
            .expect("the template is a constant")
            .with_key("unit", move |state: &ProgressState, text: &mut dyn fmt::Write| {
                let _ = text.write_str(number::unit(state.pos(), unit.unwrap_or_default()));
            })
            .with_key("left", |state: &ProgressState, text: &mut dyn fmt::Write| {
                let _ = text.write_str(&left_text(time_left(state.elapsed(), state.pos(), state.len().unwrap_or(0))));
            })
            .progress_chars("=> ");
        let bar = BARS.add(ProgressBar::new(total)).with_message(printable(&what).into_owned()).with_style(style);
        let is_log = !io::stderr().is_terminal() && !notes::are_suppressed();
        let due = is_log.then(|| Mutex::new(Instant::now() + PAUSE));
        Progress { bar, due, unit, observer: None }
    }

    /// Adds `done` completed steps. Unwinds if the observer has stopped the work. The call is cheap, but is meant for
    /// batches and not for single events.
    pub fn advance(&self, done: u64) {
        self.bar.inc(done);
        if let Some((observer, _)) = &self.observer {
            observer.go_on();
        }
        if let Some(due) = &self.due {
            let mut due = due.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            if now >= *due {
                *due = now + PAUSE;
                // A write error does not stop the work, since the reader of the log may have exited.
                let _ = writeln!(io::stderr(), "{}", self.line(self.bar.elapsed()));
            }
        }
    }

    /// Formats the progress after this elapsed time as a line for a log.
    fn line(&self, elapsed: Duration) -> String {
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
        let percent = (100 * done).checked_div(all).unwrap_or(0);
        let count = self.unit.map(|unit| format!(", {} {}", number::count(done), number::unit(done, unit)));
        let left = left_text(time_left(elapsed, done, all));
        format!("{}: {percent} %{}, {left}", self.bar.message(), count.unwrap_or_default())
    }
}

/// Returns the remaining time, extrapolated from the rate so far; `None` before the first step is done.
fn time_left(elapsed: Duration, done: u64, all: u64) -> Option<Duration> {
    let rest = all.saturating_sub(done);
    (done > 0).then(|| elapsed.mul_f64(rest as f64 / done as f64))
}

fn left_text(left: Option<Duration>) -> String {
    match left.map(|left| left.as_secs()) {
        None => "time left unknown".to_owned(),
        Some(seconds) if seconds < 120 => format!("about {seconds} s left"),
        Some(seconds) if seconds < 7200 => format!("about {} min left", seconds / 60),
        Some(seconds) => format!("about {} h left", seconds / 3600),
    }
}

/// A part of the work that reports its share of completion instead of its steps.
#[derive(Debug)]
pub struct Part<'b> {
    bar: &'b Progress,
    weight: u64,
    told: Cell<u64>,
}

impl Progress {
    /// Returns a part with this weight, of which nothing is done.
    pub fn part(&self, weight: u64) -> Part<'_> {
        Part { bar: self, weight, told: Cell::new(0) }
    }
}

impl Part<'_> {
    /// Reports that `share` of the part is done, from 0 to 1. A share above 1 counts as 1, and a share below an earlier
    /// one is ignored.
    pub fn reach(&self, share: f64) {
        let reached = (share.min(1.0) * self.weight as f64) as u64;
        self.bar.advance(reached.saturating_sub(self.told.get()));
        self.told.set(reached.max(self.told.get()));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        if let Some((observer, number)) = &self.observer {
            observer.wipe(*number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_line_shows_share_and_remaining_time() {
        let progress = Progress::counting("hosts", 4, "runs");
        assert_eq!(progress.line(Duration::from_secs(9)), "hosts: 0 %, 0 runs, time left unknown");
        progress.advance(1);
        assert_eq!(progress.line(Duration::from_secs(20)), "hosts: 25 %, 1 run, about 60 s left");
    }

    #[test]
    fn weighed_progress_shows_no_count() {
        let progress = Progress::weighing("purge", 1000);
        progress.advance(900);
        assert_eq!(progress.line(Duration::from_secs(2700)), "purge: 90 %, about 5 min left");
    }

    #[test]
    fn partial_progress_is_capped_at_its_weight() {
        let progress = Progress::weighing("flags", 1000);
        let part = progress.part(500);
        for share in [0.2, 0.1, 0.9, 7.0] {
            part.reach(share);
        }
        assert_eq!(progress.line(Duration::from_secs(10)), "flags: 50 %, about 10 s left");
    }
}
