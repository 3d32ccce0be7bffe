//! Boots a guest, and writes the recording that was made in it to a file.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use crate::accelerator::Accelerator;
use crate::error::{Error, on_file};
use crate::guest::Guest;
use crate::interrupt::Interrupts;
use crate::machine::{Machine, RunOutcome};
use crate::outcome::BootOutcome;
use crate::tools::Tools;
use crate::{delivery, host, initramfs, module};

/// Number of boots that may die of the emulator before the boot fails (seen: about one boot in ten with 8 CPUs).
const BOOTS: u32 = 4;

/// Size of the guest's scratch disk per memory size. The disk is sparse, and has room for swap and for files of several
/// times the guest's memory, plus [`SCRATCH_SPARE`] bytes.
const SCRATCH_PER_MEMORY: u64 = 4;

const SCRATCH_SPARE: u64 = 2 << 30;

/// Free space on the disk of a root folder, in bytes.
const ROOT_SPARE: u64 = 256 << 20;

/// Checks that a recording can be written to `out`. Callers use this before a kernel is fetched, so that an invalid
/// path is reported early.
///
/// # Errors
/// [`Error::Input`] if `out` is a folder, or its folder does not exist.
pub fn try_out(out: &Path) -> Result<(), Error> {
    delivery::folder_of(out).map(drop)
}

/// Finds or builds the prerequisites of a boot of `guest` on this machine, so that missing ones are reported before
/// anything boots.
///
/// # Errors
/// [`Error::Missing`] when the workload needs a program that is not installed, or a module that cannot be built.
pub fn prepare(guest: &Guest, say: &mut dyn FnMut(&str)) -> Result<(), Error> {
    guest.workload.programs()?;
    if guest.workload.needs_module {
        module::obtain(&guest.kernel, say)?;
    }
    Ok(())
}

/// Boots `guest`, and writes its recording to `out`. Progress is reported to `say`.
///
/// # Errors
/// See [`Error`]. After an error no temporary files remain, and `out` is unchanged.
pub fn boot(
    tools: &Tools,
    guest: &Guest,
    accelerator: Accelerator,
    out: &Path,
    interrupts: &Interrupts,
    say: &mut dyn FnMut(&str),
) -> Result<BootOutcome, Error> {
    let folder = delivery::folder_of(out)?;
    let (initramfs, root) =
        (unnamed_file(folder)?, guest.root.as_deref().map(|from| root_disk(from, folder)).transpose()?);
    let module = guest.workload.needs_module.then(|| module::obtain(&guest.kernel, say)).transpose()?;
    initramfs::pack(tools, guest, module.as_deref(), &initramfs)?;
    let mut slips = 0;
    while slips < BOOTS {
        let (scratch, mut delivery) = (scratch_disk(guest, folder)?, unnamed_file(folder)?);
        let disks = std::iter::once(&scratch).chain(&root).collect();
        let machine = Machine { tools, guest, accelerator, initramfs: &initramfs, disks, delivery: &delivery };
        match machine.run(interrupts, say)? {
            RunOutcome::Delivered(bytes, end) => {
                delivery::accept(&mut delivery, bytes, out)?;
                return Ok(BootOutcome { bytes, end, slips, accelerator });
            }
            RunOutcome::Slipped => {
                slips += 1;
                say("the kernel failed because of an error of the emulator; booting again");
            }
        }
    }
    Err(Error::Guest(format!(
        "the kernel failed {BOOTS} times in a row because of an error of the emulator; try fewer CPUs"
    )))
}

/// Creates a temporary file without a name.
fn unnamed_file(folder: &Path) -> Result<File, Error> {
    tempfile::tempfile_in(folder).map_err(on_file("create", folder))
}

/// Creates a sparse disk without a name.
fn scratch_disk(guest: &Guest, folder: &Path) -> Result<File, Error> {
    let bytes = SCRATCH_SPARE + SCRATCH_PER_MEMORY * (u64::from(guest.memory.get()) << 20);
    let disk = unnamed_file(folder)?;
    disk.set_len(bytes).map_err(on_file("write", folder))?;
    Ok(disk)
}

/// Creates a disk with the contents of the folder `from`.
fn root_disk(from: &Path, folder: &Path) -> Result<File, Error> {
    if !from.is_dir() {
        return Err(Error::Input(format!("the root {} is not a folder", from.display())));
    }
    let mke2fs = host::find("mke2fs", "e2fsprogs")?;
    let summary = host::text(Command::new("du").args(["--summarize", "--bytes"]).arg(from))?;
    let used: u64 = summary.split_whitespace().next().and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
    let disk = tempfile::NamedTempFile::new_in(folder).map_err(on_file("create", folder))?;
    disk.as_file().set_len(used + used / 4 + ROOT_SPARE).map_err(on_file("write", disk.path()))?;
    host::output(Command::new(mke2fs).args(["-q", "-F", "-t", "ext4", "-d"]).arg(from).arg(disk.path()))?;
    Ok(disk.into_file())
}
