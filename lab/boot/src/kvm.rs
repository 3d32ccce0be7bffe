//! Whether KVM works on this machine.
//!
//! A device that is there is no proof, nor is a boot sector that runs: nested and foreign hypervisors have the one and
//! execute the other, and give up at the first instruction that they cannot emulate. So a kernel is what is tried.

use std::fs::File;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use crate::console::Message;
use crate::emulator::{self, Emulator, Line};
use crate::kernel::Kernel;
use crate::{Accelerator, Tools};

/// How long a kernel may take to find that it has no root: a second, where KVM is the processor's own.
const PATIENCE: Duration = Duration::from_secs(30);
/// What a kernel dies of that has come as far as that. linux: init/do_mounts.c:mount_root_generic
const NO_ROOT: &str = "VFS: Unable to mount root fs";

/// Whether `kernel`, booted under KVM without a root, lives until it misses that.
pub fn works(tools: &Tools, kernel: &Kernel) -> bool {
    if File::options().read(true).write(true).open("/dev/kvm").is_err() {
        return false;
    }
    let mut command = emulator::command(tools, Accelerator::Kvm, kernel, "");
    command.args(["-m", "256M"]);
    Emulator::start(command).is_ok_and(|(_emulator, lines)| misses_its_root(&lines, Instant::now() + PATIENCE))
}

/// Whether a guest comes as far as that by then.
fn misses_its_root(lines: &Receiver<Line>, end: Instant) -> bool {
    while Instant::now() < end {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(Line::Console(line)) => {
                if let Message::Panic(reason) = Message::parse(&line) {
                    return reason.starts_with(NO_ROOT);
                }
            }
            Ok(Line::Emulator(line)) if emulator::has_given_up(&line) => return false,
            Ok(Line::Emulator(_)) => {}
            Err(_) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// What is made of a guest that prints this, and QEMU that.
    fn judged(lines: impl IntoIterator<Item = Line>) -> bool {
        let (sender, received) = mpsc::channel();
        lines.into_iter().for_each(|line| sender.send(line).unwrap());
        drop(sender);
        misses_its_root(&received, Instant::now() + PATIENCE)
    }

    fn panic(reason: &str) -> Line {
        Line::Console(format!("[    0.9] Kernel panic - not syncing: {reason}"))
    }

    #[test]
    fn a_kernel_that_misses_its_root_has_run() {
        let early = || Line::Console("[    0.1] Linux version 6.12".to_owned());
        let missed = || panic("VFS: Unable to mount root fs on unknown-block(0,0)");
        assert!(judged([early(), Line::Emulator("warning: a feature is missing".to_owned()), missed()]));
        assert!(!judged([early(), panic("Fatal exception"), missed()]), "it died of something else");
        assert!(!judged([early()]), "QEMU ended");
    }

    #[test]
    fn a_hypervisor_that_gives_up_does_not_work() {
        let words = ["KVM internal error. Suberror: 1", "error: kvm run failed Bad address"];
        for given_up in words.into_iter().chain(["KVM: entry failed, hardware error 0x80000021"]) {
            let after = panic("VFS: Unable to mount root fs on unknown-block(0,0)");
            assert!(!judged([Line::Emulator(given_up.to_owned()), after]), "{given_up}");
        }
    }
}
