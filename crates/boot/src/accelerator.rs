//! What executes the guest's instructions.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use wait_timeout::ChildExt;

/// How long a boot sector may take: a BIOS needs a second.
const PATIENCE: Duration = Duration::from_secs(15);
/// What the boot sector says, and what QEMU makes of that.
const WORD: u8 = 0x2a;
const EXIT: i32 = (WORD as i32) << 1 | 1;

/// What executes the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// The processor, through KVM.
    Kvm,
    /// QEMU, one CPU of the guest after the other in one thread. The guest's clock counts instructions: how long
    /// something takes repeats within some per cent, however busy the host is.
    Emulation,
    /// QEMU, each CPU of the guest in a thread of its own, by the host's clock. Faster where the host has CPUs to
    /// spare; and now and then a CPU still executes an instruction that the kernel has already patched, and the kernel
    /// dies of it.
    Threads,
}

impl Accelerator {
    /// Options of QEMU's.
    pub(crate) fn options(self) -> &'static [&'static str] {
        match self {
            Accelerator::Kvm => &["-accel", "kvm"],
            // Eight nanoseconds an instruction; a guest that waits does not wait for the host's clock.
            Accelerator::Emulation => {
                &["-accel", "tcg,thread=single", "-icount", "shift=3,sleep=off", "-rtc", "clock=vm"]
            }
            Accelerator::Threads => &["-accel", "tcg,thread=multi"],
        }
    }

    /// How many guests with so many CPUs run at once without waiting for CPUs of this machine.
    pub fn guests_at_once(self, cpus: u16) -> usize {
        let busy = if self == Accelerator::Emulation { 1 } else { usize::from(cpus.max(1)) };
        (thread::available_parallelism().map_or(1, usize::from) / busy).max(1)
    }
}

/// Whether KVM works here: QEMU under it reads a boot sector and does what that says. A device that is there is no
/// proof, since nested and foreign hypervisors have one that dies of the first unusual instruction.
pub(crate) fn has_kvm(qemu: &Path) -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| {
        File::options().read(true).write(true).open("/dev/kvm").is_ok() && probe(qemu, Accelerator::Kvm).is_some()
    })
}

/// Has QEMU execute a boot sector that ends it.
fn probe(qemu: &Path, accelerator: Accelerator) -> Option<()> {
    let mut sector = tempfile::NamedTempFile::new().ok()?;
    sector.write_all(&boot_sector()).ok()?;
    let mut command = Command::new(qemu);
    command.args(accelerator.options()).args(["-cpu", "max", "-m", "64M"]);
    command.args(["-nodefaults", "-display", "none", "-no-reboot"]);
    command.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=1"]);
    command.arg("-drive").arg(format!("file={},format=raw,if=floppy,readonly=on", sector.path().display()));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    let status = child.wait_timeout(PATIENCE).ok()?;
    if status.is_none() {
        // Both fail only when it has ended after all.
        let _ = child.kill();
        let _ = child.wait();
    }
    (status?.code() == Some(EXIT)).then_some(())
}

/// `mov al, WORD; out 0xf4, al; hlt` and the signature of a boot sector.
fn boot_sector() -> [u8; 512] {
    let mut sector = [0; 512];
    sector[..6].copy_from_slice(&[0xb0, WORD, 0xe6, 0xf4, 0xf4, 0xf4]);
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sector itself is right where QEMU emulates, if there is a QEMU.
    #[test]
    fn the_boot_sector_is_executed() {
        let Ok(qemu) = which::which("qemu-system-x86_64") else { return };
        assert!(probe(&qemu, Accelerator::Threads).is_some());
        assert!(probe(Path::new("false"), Accelerator::Threads).is_none());
    }
}
