//! One run of QEMU: start it, follow its console, and always end it.
//!
//! The guest speaks to us over its serial console, one line a message (see [`Message`]); everything else
//! there is the kernel talking, kept for the error if things go wrong. The recording itself comes out
//! through a virtio serial port straight into a file, so no byte of it passes the console.
//!
//! Emulation by several threads has a flaw: now and then a CPU still runs a breakpoint that the kernel has
//! already patched away again, and the kernel dies of it. That says nothing about the kernel or about us, so
//! such a run is reported as [`Outcome::Slipped`] and the caller boots again.
//!
//! QEMU ends in one of four ways, and none leaves a process: the guest powers off; it exceeds its time
//! and is killed; Ctrl-C or an error here drops [`Emulator`], which kills it; or we are killed ourselves
//! and the kernel kills it for us (`setpriv --pdeathsig`).

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::console::{Console, Message};
use super::kernel::Tools;
use super::size::Mebibytes;
use crate::error::{Error, on_file};

/// How often Ctrl-C and the time limit are looked at.
const LOOK: Duration = Duration::from_millis(200);
/// The guest's scratch disk: room for swap and files of several times its memory, and some to spare. Sparse.
const SCRATCH_PER_MEMORY: u64 = 4;
const SCRATCH_SPARE: u64 = 2 << 30;

/// A guest that is to be booted once.
pub struct Machine<'a> {
    /// Kernel, emulator and what the guest needs.
    pub tools: &'a Tools,
    /// What [`super::guest::pack`] made.
    pub initramfs: &'a Path,
    /// Number of CPUs of the guest.
    pub cpus: u16,
    /// Memory of the guest, in MiB.
    pub memory: Mebibytes,
    /// Name of the workload that the guest runs.
    pub workload: &'a str,
    /// Time after which the guest is stopped.
    pub timeout: Duration,
    /// Folder for the console's log and the files in between.
    pub folder: &'a Path,
}

/// How a run ended, unless it failed.
#[derive(Debug)]
pub enum Outcome {
    /// The guest handed something out.
    Delivered(Delivery),
    /// The emulator slipped on a patched instruction; boot again.
    Slipped,
}

/// What a guest delivered over its console.
#[derive(Debug)]
pub struct Delivery {
    /// The file that the guest wrote, not yet checked.
    pub file: PathBuf,
    /// Its length, as the guest said.
    pub bytes: u64,
}

impl Machine<'_> {
    /// Boots, follows the guest to its end, and hands over what it delivered.
    ///
    /// # Errors
    /// [`Error::Failed`] with the end of the console.
    pub fn run(&self) -> Result<Outcome, Error> {
        let file = self.folder.join("delivery.part");
        let disk = self.scratch_disk()?;
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))
                .map_err(|error| Error::Failed(format!("cannot watch for Ctrl-C: {error}")))?;
        }
        let mut emulator = Emulator::start(self.command(&file, disk.path()))?;
        let mut console = Console::create(&self.folder.join("console.txt"))?;
        match self.follow(&emulator.lines(), &mut console, &interrupted) {
            Ok(bytes) => Ok(Outcome::Delivered(Delivery { file, bytes })),
            Err(_) if console.shows_slip() => Ok(Outcome::Slipped),
            Err(error) => Err(error),
        }
    }

    /// Reads the console until the guest is done, fails, ends, or runs out of time.
    fn follow(&self, lines: &Receiver<String>, console: &mut Console, interrupted: &AtomicBool) -> Result<u64, Error> {
        let started = Instant::now();
        loop {
            if interrupted.load(Ordering::Relaxed) {
                return Err(Error::Failed("interrupted; the guest was stopped".to_owned()));
            }
            if started.elapsed() > self.timeout {
                let limit = self.timeout.as_secs();
                return Err(console.failure(&format!("the guest did not finish within {limit} s")));
            }
            let line = match lines.recv_timeout(LOOK) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(console.failure("the guest ended before it delivered its recording"));
                }
            };
            console.keep(&line)?;
            match Message::parse(&line) {
                Message::Progress(sentence) => {
                    println!("oracle: [{:>4} s] {sentence}", started.elapsed().as_secs());
                }
                Message::Done(bytes) => return Ok(bytes),
                Message::Failed(sentence) => return Err(console.failure(sentence)),
                Message::Noise => {}
            }
        }
    }

    /// A sparse disk that vanishes with its handle.
    fn scratch_disk(&self) -> Result<tempfile::NamedTempFile, Error> {
        let disk = tempfile::NamedTempFile::new_in(self.folder).map_err(on_file("create", self.folder))?;
        let bytes = SCRATCH_SPARE + SCRATCH_PER_MEMORY * (u64::from(self.memory.get()) << 20);
        disk.as_file().set_len(bytes).map_err(on_file("write", disk.path()))?;
        Ok(disk)
    }

    fn command(&self, delivery: &Path, disk: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.tools.qemu);
        command.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-no-reboot"]);
        command.args(["-nodefaults", "-display", "none", "-serial", "stdio"]);
        command.args(["-smp", &self.cpus.to_string(), "-m", &format!("{}M", self.memory.get())]);
        command.arg("-kernel").arg(&self.tools.image).arg("-initrd").arg(self.initramfs);
        command.arg("-append").arg(format!(
            "console=ttyS0 quiet panic=-1 oops=panic nokaslr oracle.workload={} oracle.memory={}",
            self.workload,
            self.memory.get()
        ));
        command.args(["-device", "virtio-serial-pci"]);
        command.arg("-chardev").arg(format!("file,id=delivery,path={}", escaped(delivery)));
        command.args(["-device", "virtserialport,chardev=delivery,name=freehold.delivery"]);
        command
            .arg("-drive")
            .arg(format!("file={},format=raw,if=none,id=scratch,cache=unsafe,discard=unmap", escaped(disk)));
        command.args(["-device", "virtio-blk-pci,drive=scratch"]);
        command
    }
}

/// QEMU separates options by commas; a comma in a path is doubled.
fn escaped(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

/// A running QEMU; dropping it kills it.
struct Emulator {
    child: Child,
    console: Option<ChildStdout>,
}

impl Emulator {
    fn start(mut command: Command) -> Result<Emulator, Error> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child =
            command.spawn().map_err(|error| Error::Failed(format!("QEMU could not be started: {error}")))?;
        let console = child.stdout.take();
        Ok(Emulator { child, console })
    }

    /// The console's lines, as they come; the channel closes when QEMU ends.
    fn lines(&mut self) -> Receiver<String> {
        let (sender, receiver) = mpsc::channel();
        let mut console = BufReader::new(self.console.take().expect("the console is read once"));
        thread::spawn(move || {
            let mut line = Vec::new();
            while matches!(console.read_until(b'\n', &mut line), Ok(count) if count > 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                if sender.send(text).is_err() {
                    break;
                }
                line.clear();
            }
        });
        receiver
    }
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
    fn dropped_emulator_is_gone() {
        let mut emulator = Emulator::start(Command::new("yes")).unwrap();
        let lines = emulator.lines();
        assert_eq!(lines.recv().unwrap(), "y");
        drop(emulator);
        // The reader meets the end of the pipe, drops the sender, and the channel closes: this returns.
        assert!(lines.iter().all(|line| line == "y"));
    }
}
