//! The guest's console: messages of the guest's init among the kernel's own lines.

use std::collections::VecDeque;

use crate::accelerator::Accelerator;

/// Number of last console lines that are shown when the guest fails.
const TAIL: usize = 15;
/// Output of a kernel when a CPU hits a breakpoint that was already removed: an error of emulation with a thread per
/// CPU.
const STALE: &str = "Oops: int3";
/// Output of a kernel that receives no interrupt of an emulated timer, as on a busy host.
const TIMER: &str = "IO-APIC + timer doesn't work";
/// Beginning of every kernel's last message.
const PANIC: &str = "Kernel panic - not syncing: ";

/// Parsed line of the console.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// `freehold: SENTENCE`: progress for the user.
    Progress(&'a str),
    /// `freehold-done: BYTES STATUS`: the recording was delivered; the exit status of the workload, if it ended.
    Done(u64, Option<i32>),
    /// `freehold-failed: SENTENCE`: the guest gave up.
    Failed(&'a str),
    /// The kernel panicked for this reason.
    Panic(&'a str),
    /// Any other line.
    Noise,
}

impl Message<'_> {
    /// Parses one line of the console.
    pub(crate) fn parse(line: &str) -> Message<'_> {
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

/// State of the console so far.
#[derive(Debug, Default)]
pub(crate) struct Console {
    tail: VecDeque<String>,
    is_stale: bool,
    lacks_timer: bool,
}

impl Console {
    /// Appends a line to the last lines.
    pub(crate) fn keep(&mut self, line: &str) {
        self.is_stale |= is_kernels(line) && line.contains(STALE);
        self.lacks_timer |= is_kernels(line) && line.contains(TIMER);
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(line.to_owned());
    }

    /// Returns whether the console shows a known fault of the accelerator, of which the kernel dies. No such fault of
    /// KVM is known.
    pub(crate) fn shows_slip(&self, accelerator: Accelerator) -> bool {
        match accelerator {
            Accelerator::Kvm => false,
            Accelerator::Emulation => self.lacks_timer,
            Accelerator::Threads => self.lacks_timer || self.is_stale,
        }
    }

    /// Returns the last lines.
    pub(crate) fn tail(&self) -> impl Iterator<Item = &str> {
        self.tail.iter().map(String::as_str)
    }
}

/// Returns whether a line is the kernel's own: these begin with a timestamp in brackets.
fn is_kernels(line: &str) -> bool {
    line.starts_with('[')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn console_messages_are_parsed() {
        assert_eq!(Message::parse("freehold: recording"), Message::Progress("recording"));
        assert_eq!(Message::parse("freehold-done: 123 1"), Message::Done(123, Some(1)));
        assert_eq!(Message::parse("freehold-done: 123 -"), Message::Done(123, None));
        assert_eq!(Message::parse("freehold-done: many 0"), Message::Noise);
        assert_eq!(Message::parse("freehold-failed: no disk"), Message::Failed("no disk"));
        assert_eq!(Message::parse("[    0.0] Kernel panic - not syncing: no init"), Message::Panic("no init"));
        assert_eq!(Message::parse("[    0.0] Linux version"), Message::Noise);
    }

    /// Returns whether this line shows a slip of KVM, of emulation, and of emulation with threads.
    fn slips(line: &str) -> [bool; 3] {
        let mut console = Console::default();
        console.keep(line);
        [Accelerator::Kvm, Accelerator::Emulation, Accelerator::Threads].map(|by| console.shows_slip(by))
    }

    #[test]
    fn emulator_faults_are_distinguished_from_kernel_faults() {
        assert_eq!(slips("[    2.302332] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI"), [false, false, true]);
        assert_eq!(slips("[    0.1] Kernel panic - not syncing: IO-APIC + timer doesn't work!"), [false, true, true]);
        assert_eq!(slips("[    2.3] Oops: general protection fault"), [false; 3]);
        assert_eq!(slips("Oops: int3"), [false; 3], "a workload's own words");
    }

    #[test]
    fn console_keeps_only_the_last_lines() {
        let mut console = Console::default();
        (0..100).for_each(|number| console.keep(&format!("line {number}")));
        assert_eq!((console.tail().count(), console.tail().last()), (TAIL, Some("line 99")));
    }
}
