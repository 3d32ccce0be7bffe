//! One run of a guest: starts it, follows its console, and ends it.
//!
//! The guest sends messages over its serial console, one per line (see [`Message`]). All other lines there are the
//! kernel's, and are kept for the error report. The recording is transferred through a virtio serial port straight into
//! a file, so no byte of it passes the console. Disks and archives are files without a name, which QEMU opens through
//! `/proc`. The system deletes them when this process ends.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::accelerator::Accelerator;
use crate::console::{Console, Message};
use crate::emulator::{self, Emulator, Line};
use crate::error::Error;
use crate::guest::Guest;
use crate::interrupt::Interrupts;
use crate::outcome::RecordingEnd;
use crate::tools::Tools;

/// Interval of the checks for Ctrl-C and for the time limit.
const LOOK: Duration = Duration::from_millis(200);
/// Maximum time in which a guest must end its recording after the request to end.
const GRACE: Duration = Duration::from_secs(90);

/// A guest to be booted once.
#[derive(Debug)]
pub(crate) struct Machine<'a> {
    /// Programs of the host.
    pub tools: &'a Tools,
    /// Guest to boot.
    pub guest: &'a Guest,
    /// Way to execute its instructions.
    pub accelerator: Accelerator,
    /// Archive from [`crate::initramfs::pack`].
    pub initramfs: &'a File,
    /// Scratch disk, and the disk of the root folder if there is one.
    pub disks: Vec<&'a File>,
    /// File for the recording.
    pub delivery: &'a File,
}

/// End of a run that did not fail.
#[derive(Debug)]
pub(crate) enum RunOutcome {
    /// The guest delivered this number of bytes.
    Delivered(u64, RecordingEnd),
    /// The kernel died of the emulator and should be booted again.
    Slipped,
}

impl Machine<'_> {
    /// Boots the guest and follows it to its end. Its progress messages are passed to `say`.
    ///
    /// # Errors
    /// [`Error::Guest`], after the last lines of the console were passed to `say`; [`Error::Interrupted`];
    /// [`Error::Missing`] if QEMU cannot be started.
    pub(crate) fn run(&self, interrupts: &Interrupts, say: &mut dyn FnMut(&str)) -> Result<RunOutcome, Error> {
        let (emulator, lines) = Emulator::start(self.command())?;
        let mut run = Run {
            machine: self,
            emulator,
            console: Console::default(),
            started: Instant::now(),
            is_recording: false,
            last_message: String::new(),
            early: None,
        };
        let outcome = run.follow(&lines, interrupts, say);
        if !matches!(outcome, Err(Error::Guest(_))) {
            return outcome;
        }
        if run.early.is_some_and(|(_, why)| why == RecordingEnd::Interrupted) {
            return Err(Error::Interrupted);
        }
        if run.console.shows_slip(self.accelerator) && !run.is_recording {
            return Ok(RunOutcome::Slipped);
        }
        run.console.tail().for_each(|line| say(&format!("console: {line}")));
        outcome
    }

    fn command(&self) -> Command {
        let guest = self.guest;
        let mut command = emulator::command(self.tools, self.accelerator, &guest.kernel, &guest.append);
        command.args(["-smp", &guest.cpus.to_string(), "-m", &format!("{}M", guest.memory.get())]);
        command.arg("-initrd").arg(nameless(self.initramfs));
        command.args(["-device", "virtio-serial-pci"]);
        command.arg("-chardev").arg(format!("file,id=delivery,path={}", nameless(self.delivery)));
        command.args(["-device", "virtserialport,chardev=delivery,name=freehold.delivery"]);
        for (number, disk) in self.disks.iter().enumerate() {
            let file = nameless(disk);
            command.arg("-drive");
            command.arg(format!(
                "file={file},format=raw,if=none,id=disk{number},cache=unsafe,discard=unmap,werror=report,rerror=report"
            ));
            command.args(["-device", &format!("virtio-blk-pci,drive=disk{number}")]);
        }
        command
    }
}

/// Returns a path to a file that has no name.
fn nameless(file: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

/// A running guest.
struct Run<'a> {
    machine: &'a Machine<'a>,
    emulator: Emulator,
    console: Console,
    started: Instant,
    is_recording: bool,
    /// Last message of QEMU itself.
    last_message: String,
    /// Time and reason of the request to end early.
    early: Option<(Instant, RecordingEnd)>,
}

impl Run<'_> {
    /// Reads the console until the guest is done, fails, ends, or runs out of time.
    fn follow(
        &mut self,
        lines: &Receiver<Line>,
        interrupts: &Interrupts,
        say: &mut dyn FnMut(&str),
    ) -> Result<RunOutcome, Error> {
        loop {
            self.look_at_time(interrupts)?;
            let line = match lines.recv_timeout(LOOK) {
                Ok(Line::Console(line)) => line,
                Ok(Line::Emulator(line)) if emulator::has_given_up(&line) => {
                    return Err(guest(format!(
                        "QEMU stopped because of a KVM error ({line}); boot with --accel emulated"
                    )));
                }
                Ok(Line::Emulator(line)) => {
                    self.last_message = line;
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Err(self.end_error()),
            };
            self.console.keep(&line);
            match Message::parse(&line) {
                Message::Progress(sentence) => {
                    self.is_recording |= sentence == "recording";
                    say(sentence);
                }
                Message::Done(bytes, status) => return Ok(RunOutcome::Delivered(bytes, self.end(status))),
                Message::Failed(sentence) => return Err(guest(sentence)),
                Message::Panic(reason) => {
                    let release = &self.machine.guest.kernel.release;
                    return Err(guest(format!("Linux {release} panicked: {reason}")));
                }
                Message::Noise => {}
            }
        }
    }

    /// Tells the guest to end its recording if it is interrupted or out of time. Fails if the guest does not do so in
    /// time.
    fn look_at_time(&mut self, interrupts: &Interrupts) -> Result<(), Error> {
        let limit = self.machine.guest.timeout;
        match (self.early, interrupts.count()) {
            (None, 0) if self.started.elapsed() <= limit => Ok(()),
            (None, 0) if !self.is_recording => Err(guest(format!(
                "the guest was not ready to record after {} s; give a longer --timeout",
                limit.as_secs()
            ))),
            (None, 0) => self.end_early(RecordingEnd::OutOfTime),
            (None, 1) if self.is_recording => self.end_early(RecordingEnd::Interrupted),
            (None, _) => Err(Error::Interrupted),
            (Some((since, why)), count) => {
                let is_impatient = count > usize::from(why == RecordingEnd::Interrupted);
                if is_impatient { Err(Error::Interrupted) } else { self.wait_for_the_end(since) }
            }
        }
    }

    fn end_early(&mut self, why: RecordingEnd) -> Result<(), Error> {
        self.emulator.type_line("stop");
        self.early = Some((Instant::now(), why));
        Ok(())
    }

    fn wait_for_the_end(&self, since: Instant) -> Result<(), Error> {
        if since.elapsed() <= GRACE {
            return Ok(());
        }
        Err(guest("the guest hangs: it did not end its recording when requested"))
    }

    /// Returns the end of the recording, with the status of the workload.
    fn end(&self, status: Option<i32>) -> RecordingEnd {
        match (self.early, status) {
            (Some((_, why)), _) => why,
            (None, Some(0)) => RecordingEnd::Whole,
            (None, status) => RecordingEnd::Failed(status.unwrap_or(-1)),
        }
    }

    /// Returns the error for a QEMU that ended without a request.
    fn end_error(&mut self) -> Error {
        match self.emulator.wait() {
            Some(status) if !status.success() => guest(format!("QEMU ended with {status}: {}", self.last_message)),
            _ => guest("the guest ended before its recording was transferred"),
        }
    }
}

fn guest(sentence: impl Into<String>) -> Error {
    Error::Guest(sentence.into())
}
