//! A running QEMU: its lines, its one word from us, and its end.
//!
//! It leaves no process, however it ends: dropped, it is killed; and when we are killed ourselves, the kernel kills it
//! for us (`setpriv --pdeathsig`). It has a process group of its own, so that Ctrl-C reaches us alone.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use crate::accelerator::Accelerator;
use crate::error::Error;
use crate::kernel::Kernel;
use crate::tools::Tools;

/// What QEMU says when the hypervisor cannot go on with a guest, which stands still from then on.
const GIVEN_UP: [&str; 3] = ["KVM internal error", "error: kvm run failed", "KVM: entry failed"];

/// QEMU with a kernel and a console, killed when we are.
pub(crate) fn command(tools: &Tools, accelerator: Accelerator, kernel: &Kernel, append: &str) -> Command {
    let mut command = Command::new(&tools.setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(&tools.qemu);
    command.args(accelerator.options()).args(["-cpu", "max", "-no-reboot"]);
    command.args(["-nodefaults", "-display", "none", "-serial", "stdio"]);
    command.arg("-kernel").arg(&kernel.image);
    command.arg("-append").arg(format!("console=ttyS0 quiet panic=-1 oops=panic nokaslr {append}"));
    command
}

/// Whether QEMU says by this line that the guest stands still from now on.
pub(crate) fn has_given_up(line: &str) -> bool {
    GIVEN_UP.iter().any(|given_up| line.starts_with(given_up))
}

/// A line that came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// From the guest's console.
    Console(String),
    /// From QEMU itself.
    Emulator(String),
}

/// A running QEMU; dropping it kills it.
#[derive(Debug)]
pub(crate) struct Emulator {
    child: Child,
    console: Option<ChildStdin>,
}

impl Emulator {
    /// Starts `command`. The channel has its lines as they come, and closes when it ends.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start(mut command: Command) -> Result<(Emulator, Receiver<Line>), Error> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child =
            command.spawn().map_err(|error| Error::Missing(format!("QEMU could not be started: {error}")))?;
        let (sender, lines) = mpsc::channel();
        if let Some(console) = child.stdout.take() {
            forward(console, sender.clone(), Line::Console);
        }
        if let Some(stderr) = child.stderr.take() {
            forward(stderr, sender, Line::Emulator);
        }
        let console = child.stdin.take();
        Ok((Emulator { child, console }, lines))
    }

    /// Types a line at the guest's console. A guest that is gone hears nothing.
    pub(crate) fn type_line(&mut self, line: &str) {
        if let Some(console) = &mut self.console {
            let _ = writeln!(console, "{line}").and_then(|()| console.flush());
        }
    }

    /// Waits for the end of QEMU, and returns its status.
    pub(crate) fn wait(&mut self) -> Option<ExitStatus> {
        self.child.wait().ok()
    }
}

fn forward(from: impl Read + Send + 'static, sender: Sender<Line>, as_line: fn(String) -> Line) {
    thread::spawn(move || {
        let mut reader = BufReader::new(from);
        let mut bytes = Vec::new();
        while matches!(reader.read_until(b'\n', &mut bytes), Ok(count) if count > 0) {
            let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            if sender.send(as_line(text)).is_err() {
                break;
            }
            bytes.clear();
        }
    });
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // Both fail only when QEMU has ended already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_emulator_is_gone() {
        let (emulator, lines) = Emulator::start(Command::new("yes")).unwrap();
        assert_eq!(lines.recv().unwrap(), Line::Console("y".to_owned()));
        drop(emulator);
        // The reader meets the end of the pipe, drops the sender, and the channel closes: this returns.
        assert!(lines.iter().all(|line| line == Line::Console("y".to_owned())));
    }

    #[test]
    fn what_is_typed_arrives() {
        let (mut emulator, lines) = Emulator::start(Command::new("cat")).unwrap();
        emulator.type_line("stop");
        assert_eq!(lines.recv().unwrap(), Line::Console("stop".to_owned()));
    }

    #[test]
    fn its_own_words_are_kept_apart() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo aside >&2"]);
        let (mut emulator, lines) = Emulator::start(command).unwrap();
        assert_eq!(lines.iter().collect::<Vec<_>>(), [Line::Emulator("aside".to_owned())]);
        assert!(emulator.wait().unwrap().success());
    }
}
