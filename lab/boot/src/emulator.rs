//! A running QEMU: its output lines, its console input, and its end.
//!
//! No QEMU process is left behind: it is killed on drop, and the kernel kills it if this process is killed (`setpriv
//! --pdeathsig`). QEMU has a process group of its own, so that Ctrl-C reaches only this process.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use crate::accelerator::Accelerator;
use crate::error::Error;
use crate::kernel::Kernel;
use crate::tools::Tools;

/// Messages of QEMU when the hypervisor cannot continue a guest. The guest makes no progress after that.
const GIVEN_UP: [&str; 3] = ["KVM internal error", "error: kvm run failed", "KVM: entry failed"];

/// Returns the command for QEMU with a kernel and a console. QEMU is killed when this process dies.
pub(crate) fn command(tools: &Tools, accelerator: Accelerator, kernel: &Kernel, append: &str) -> Command {
    let mut command = Command::new(&tools.setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(&tools.qemu);
    command.args(accelerator.options()).args(["-cpu", "max", "-no-reboot"]);
    command.args(["-nodefaults", "-display", "none", "-serial", "stdio"]);
    command.arg("-kernel").arg(&kernel.image);
    command.arg("-append").arg(format!("console=ttyS0 quiet panic=-1 oops=panic nokaslr {append}"));
    command
}

/// Returns whether this line of QEMU means that the guest makes no further progress.
pub(crate) fn has_given_up(line: &str) -> bool {
    GIVEN_UP.iter().any(|given_up| line.starts_with(given_up))
}

/// Line of output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Line of the guest's console.
    Console(String),
    /// Line of QEMU itself.
    Emulator(String),
}

/// A running QEMU; dropping it kills it.
#[derive(Debug)]
pub(crate) struct Emulator {
    child: Child,
    console: Option<ChildStdin>,
}

impl Emulator {
    /// Starts `command`. The channel receives its lines as they are printed, and closes when it ends.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start(mut command: Command) -> Result<(Emulator, Receiver<Line>), Error> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|error| Error::Missing(format!("cannot start QEMU: {error}")))?;
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

    /// Types a line at the guest's console. Errors are ignored, because the guest may have ended.
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
        // Both calls fail only if QEMU has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_emulator_is_terminated() {
        let (emulator, lines) = Emulator::start(Command::new("yes")).unwrap();
        assert_eq!(lines.recv().unwrap(), Line::Console("y".to_owned()));
        drop(emulator);
        // The reader reaches the end of the pipe and drops the sender, so the channel closes and this returns.
        assert!(lines.iter().all(|line| line == Line::Console("y".to_owned())));
    }

    #[test]
    fn typed_line_reaches_the_guest() {
        let (mut emulator, lines) = Emulator::start(Command::new("cat")).unwrap();
        emulator.type_line("stop");
        assert_eq!(lines.recv().unwrap(), Line::Console("stop".to_owned()));
    }

    #[test]
    fn emulator_stderr_is_separate_from_the_console() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo aside >&2"]);
        let (mut emulator, lines) = Emulator::start(command).unwrap();
        assert_eq!(lines.iter().collect::<Vec<_>>(), [Line::Emulator("aside".to_owned())]);
        assert!(emulator.wait().unwrap().success());
    }
}
