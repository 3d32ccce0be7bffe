//! Test whether KVM works on this machine.
//!
//! The presence of the device proves nothing, and neither does a boot sector that runs. Under nested and foreign
//! hypervisors both can succeed, and KVM then fails at the first instruction that it cannot emulate. So a kernel is
//! booted as the test.

use std::fs::File;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use crate::accelerator::Accelerator;
use crate::console::Message;
use crate::emulator::{self, Emulator, Line};
use crate::error::Error;
use crate::kernel::Kernel;
use crate::tools::Tools;

/// Maximum time until a kernel panics for lack of a root. It takes a second where KVM uses the processor directly.
const PATIENCE: Duration = Duration::from_secs(30);
/// Panic message of a kernel that reached that point. linux: init/do_mounts.c:mount_root_generic
const NO_ROOT: &str = "VFS: Unable to mount root fs";

impl Tools {
    /// Returns the accelerator for guests of these kernels: the wanted one. If none is wanted, returns KVM where it
    /// works with all of them, and otherwise emulation.
    ///
    /// # Errors
    /// [`Error::Missing`] where KVM is wanted and does not work.
    pub fn accelerator(&self, wanted: Option<Accelerator>, kernels: &[&Kernel]) -> Result<Accelerator, Error> {
        match wanted {
            None if works_with_all(self, kernels) => Ok(Accelerator::Kvm),
            None => Ok(Accelerator::Emulation),
            Some(Accelerator::Kvm) if !works_with_all(self, kernels) => Err(Error::Missing(
                "the kernel does not boot under KVM on this machine; boot without --accel kvm".to_owned(),
            )),
            Some(accelerator) => Ok(accelerator),
        }
    }
}

/// Returns whether KVM works with each kernel; each image is tried once.
fn works_with_all(tools: &Tools, kernels: &[&Kernel]) -> bool {
    for (number, kernel) in kernels.iter().enumerate() {
        let is_tried = kernels[..number].iter().any(|tried| tried.image == kernel.image);
        if !is_tried && !works(tools, kernel) {
            return false;
        }
    }
    true
}

/// Boots `kernel` under KVM without a root, and returns whether it panics for lack of one.
fn works(tools: &Tools, kernel: &Kernel) -> bool {
    if File::options().read(true).write(true).open("/dev/kvm").is_err() {
        return false;
    }
    let mut command = emulator::command(tools, Accelerator::Kvm, kernel, "");
    command.args(["-m", "256M"]);
    Emulator::start(command).is_ok_and(|(_emulator, lines)| misses_its_root(&lines, Instant::now() + PATIENCE))
}

/// Returns whether the guest panics for lack of a root before `end`.
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

    /// Returns the result of `misses_its_root` for these lines of the guest and of QEMU.
    fn misses_root(lines: impl IntoIterator<Item = Line>) -> bool {
        let (sender, received) = mpsc::channel();
        lines.into_iter().for_each(|line| sender.send(line).unwrap());
        drop(sender);
        misses_its_root(&received, Instant::now() + PATIENCE)
    }

    fn early() -> Line {
        Line::Console("[    0.1] Linux version 6.12".to_owned())
    }

    fn missing_root() -> Line {
        panic("VFS: Unable to mount root fs on unknown-block(0,0)")
    }

    fn panic(reason: &str) -> Line {
        Line::Console(format!("[    0.9] Kernel panic - not syncing: {reason}"))
    }

    #[test]
    fn missing_root_means_the_kernel_has_run() {
        let warning = Line::Emulator("warning: a feature is missing".to_owned());
        assert!(misses_root([early(), warning, missing_root()]));
        assert!(!misses_root([early(), panic("Fatal exception"), missing_root()]), "it died of something else");
        assert!(!misses_root([early()]), "QEMU ended");
    }

    #[test]
    fn hypervisor_error_means_kvm_does_not_work() {
        let words = ["KVM internal error. Suberror: 1", "error: kvm run failed Bad address"];
        for given_up in words.into_iter().chain(["KVM: entry failed, hardware error 0x80000021"]) {
            assert!(!misses_root([Line::Emulator(given_up.to_owned()), missing_root()]), "{given_up}");
        }
    }
}
