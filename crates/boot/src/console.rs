//! The guest's console: messages to us among the kernel's own lines.

use std::collections::VecDeque;

/// Lines of the console that are shown when the guest fails.
const TAIL: usize = 15;
/// What kernels print when the emulator lets them down: a CPU meets a breakpoint that was patched away again, or no
/// interrupt of the timer comes on a busy host.
const SLIPS: [&str; 2] = ["Oops: int3", "IO-APIC + timer doesn't work"];
/// What every kernel says last.
const PANIC: &str = "Kernel panic - not syncing: ";

/// One line of the console, understood.
#[derive(Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// `freehold: SENTENCE`: for the person who waits.
    Progress(&'a str),
    /// `freehold-done: BYTES STATUS`: the recording is out; so the workload ended, if it did.
    Done(u64, Option<i32>),
    /// `freehold-failed: SENTENCE`: the guest gave up.
    Failed(&'a str),
    /// The kernel died of this.
    Panic(&'a str),
    /// A line that is not for us.
    Noise,
}

impl Message<'_> {
    /// What one line of the console says.
    pub fn parse(line: &str) -> Message<'_> {
        if let Some(sentence) = line.strip_prefix("freehold: ") {
            Message::Progress(sentence)
        } else if let Some(sentence) = line.strip_prefix("freehold-failed: ") {
            Message::Failed(sentence)
        } else if let Some((bytes, status)) = line.strip_prefix("freehold-done: ").and_then(|text| text.split_once(' '))
        {
            bytes.parse().map_or(Message::Noise, |bytes| Message::Done(bytes, status.parse().ok()))
        } else if let Some(at) = line.find(PANIC) {
            Message::Panic(&line[at + PANIC.len()..])
        } else {
            Message::Noise
        }
    }
}

/// The console so far.
#[derive(Debug, Default)]
pub struct Console {
    tail: VecDeque<String>,
    slipped: bool,
}

impl Console {
    /// Keeps a line among the last ones.
    pub fn keep(&mut self, line: &str) {
        self.slipped |= SLIPS.iter().any(|slip| line.contains(slip));
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(line.to_owned());
    }

    /// Whether the kernel died of the emulator.
    pub fn shows_slip(&self) -> bool {
        self.slipped
    }

    /// The last lines.
    pub fn tail(&self) -> impl Iterator<Item = &str> {
        self.tail.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn console_lines_are_understood() {
        assert_eq!(Message::parse("freehold: recording"), Message::Progress("recording"));
        assert_eq!(Message::parse("freehold-done: 123 1"), Message::Done(123, Some(1)));
        assert_eq!(Message::parse("freehold-done: 123 -"), Message::Done(123, None));
        assert_eq!(Message::parse("freehold-done: many 0"), Message::Noise);
        assert_eq!(Message::parse("freehold-failed: no disk"), Message::Failed("no disk"));
        assert_eq!(Message::parse("[    0.0] Kernel panic - not syncing: no init"), Message::Panic("no init"));
        assert_eq!(Message::parse("[    0.0] Linux version"), Message::Noise);
    }

    #[test]
    fn the_emulators_faults_are_told_from_the_kernels() {
        let mut console = Console::default();
        console.keep("Oops: general protection fault");
        assert!(!console.shows_slip());
        console.keep("[    2.302332] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI");
        assert!(console.shows_slip());
    }

    #[test]
    fn only_the_end_is_kept() {
        let mut console = Console::default();
        (0..100).for_each(|number| console.keep(&format!("line {number}")));
        assert_eq!((console.tail().count(), console.tail().last()), (TAIL, Some("line 99")));
    }
}
