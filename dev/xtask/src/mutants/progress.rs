//! Progress of a long run: a bar on a terminal, and otherwise a line for each tenth.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use indicatif::{ProgressBar, ProgressStyle};

/// Counter of completed steps. Dropping it removes the bar from the terminal.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    what: &'static str,
    done: AtomicUsize,
    total: usize,
}

impl Progress {
    /// Creates a progress display for `total` steps, none of them done.
    pub(crate) fn new(what: &'static str, total: usize) -> Progress {
        let template = ProgressStyle::with_template("  {msg} [{bar:30}] {pos}/{len}, {eta} left");
        let style = template.expect("the template is a constant").progress_chars("=> ");
        let is_terminal = io::stderr().is_terminal();
        let bar = is_terminal.then(|| ProgressBar::new(total as u64).with_message(what).with_style(style));
        Progress { bar, what, done: AtomicUsize::new(0), total }
    }

    /// Prints a line above the progress bar.
    pub(crate) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| println!("{text}")),
            None => println!("{text}"),
        }
    }

    /// Counts one more step as done.
    pub(crate) fn advance(&self) {
        let done = self.done.fetch_add(1, Relaxed) + 1;
        match &self.bar {
            Some(bar) => bar.inc(1),
            None if is_worth_a_line(done, self.total) => println!("  {}: {done} of {}", self.what, self.total),
            None => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Returns whether this step completed another tenth.
fn is_worth_a_line(done: usize, total: usize) -> bool {
    done * 10 / total.max(1) != (done - 1) * 10 / total.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_prints_at_most_ten_lines() {
        assert_eq!((1..=408).filter(|done| is_worth_a_line(*done, 408)).count(), 10);
        assert_eq!((1..=3).filter(|done| is_worth_a_line(*done, 3)).count(), 3);
    }
}
