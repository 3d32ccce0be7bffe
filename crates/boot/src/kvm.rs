//! Whether KVM works on this machine.
//!
//! A device that is there is no proof, nor is a boot sector that runs: nested and foreign hypervisors have the one and
//! execute the other, and give up at the first instruction that they cannot emulate. So a kernel is what is tried.

use std::fs::File;
use std::time::{Duration, Instant};

use crate::console::Message;
use crate::emulator::{self, Emulator, Line};
use crate::kernel::Kernel;
use crate::{Accelerator, Tools};

/// How long a kernel may take to find that it has no root: a second, where KVM is the processor's own.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether `kernel`, booted under KVM without a root, lives until it misses that.
pub fn works(tools: &Tools, kernel: &Kernel) -> bool {
    File::options().read(true).write(true).open("/dev/kvm").is_ok() && probe(tools, Accelerator::Kvm, kernel)
}

/// Whether `kernel` comes as far as its panic.
fn probe(tools: &Tools, accelerator: Accelerator, kernel: &Kernel) -> bool {
    let mut command = emulator::command(tools, accelerator, kernel, "");
    command.args(["-m", "256M"]);
    let Ok((_emulator, lines)) = Emulator::start(command) else { return false };
    let end = Instant::now() + PATIENCE;
    while let Ok(line) = lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
        match line {
            Line::Console(line) if matches!(Message::parse(&line), Message::Panic(_)) => return true,
            Line::Emulator(line) if emulator::has_given_up(&line) => return false,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::host;
    use crate::kernel::tests::unpacked;

    /// What [`probe`] makes of a QEMU that does this, and then waits to be killed.
    fn probed(does: &str) -> bool {
        let folder = tempfile::tempdir().unwrap();
        unpacked(folder.path(), "6.12.9-cloud", "boot/vmlinuz-6.12.9-cloud");
        let qemu = folder.path().join("qemu");
        fs::write(&qemu, format!("#!/bin/sh\n{does}\ncat\n")).unwrap();
        fs::set_permissions(&qemu, Permissions::from_mode(0o755)).unwrap();
        let setpriv = host::find("setpriv", "util-linux").unwrap();
        let tools = Tools { qemu, busybox: "busybox".into(), setpriv, freehold: "freehold".into() };
        probe(&tools, Accelerator::Kvm, &Kernel::below(folder.path()).unwrap())
    }

    #[test]
    fn a_kernel_that_misses_its_root_has_run() {
        assert!(probed("echo '[ 0.9] Kernel panic - not syncing: VFS: Unable to mount root fs'"));
    }

    #[test]
    fn a_hypervisor_that_gives_up_does_not_work() {
        assert!(!probed("echo 'KVM internal error. Suberror: 1' >&2"));
        assert!(!probed("exit 1"));
    }
}
