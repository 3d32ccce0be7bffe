//! Boot: a real kernel in QEMU, a workload in it, and the recording of both.
//!
//! In the order of execution: a [`Kernel`] is an [`image`] of somebody's, or one that a [`Store`] has by its
//! [`version`] or fetches from [`debian`]; [`module`] builds ours for it, if the [`Workload`] needs that; [`initramfs`]
//! packs the recorder, the workload and the [`Setting`]s for the guest; [`machine`] boots it in an [`emulator`],
//! follows its [`console`], and stops it whatever happens; [`delivery`] checks that what came out is whole, and only
//! then gives it its name.
//!
//! Where QEMU has to emulate, time in the guest is not that of any machine; order, counts and states are exactly the
//! kernel's.

mod accelerator;
mod console;
mod debian;
mod delivery;
mod emulator;
mod error;
mod fingerprint;
mod host;
mod image;
mod initramfs;
mod interrupt;
mod kernel;
mod kvm;
mod machine;
mod module;
mod series;
mod setting;
mod size;
mod store;
mod version;
mod workload;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub use accelerator::Accelerator;
pub use error::Error;
pub use interrupt::Interrupts;
pub use kernel::Kernel;
pub use series::{Series, Told};
pub use setting::Setting;
pub use size::Mebibytes;
pub use store::Store;
pub use version::Version;
pub use workload::Workload;

use error::on_file;
use machine::{Machine, Outcome};

/// How often a boot may die of the emulator before that is a failure (seen: about one boot in ten with 8 CPUs).
const BOOTS: u32 = 4;
/// The guest's scratch disk: room for swap and files of several times its memory, and some to spare. Sparse.
const SCRATCH_PER_MEMORY: u64 = 4;
const SCRATCH_SPARE: u64 = 2 << 30;
/// Room on the disk of a root folder, beside what it holds.
const ROOT_SPARE: u64 = 256 << 20;

/// What is booted, and what runs in it.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The kernel.
    pub kernel: Kernel,
    /// Number of CPUs.
    pub cpus: u16,
    /// Memory.
    pub memory: Mebibytes,
    /// The script that is recorded.
    pub workload: Workload,
    /// A folder that the workload has as its root.
    pub root: Option<PathBuf>,
    /// Settings, made before the workload prepares and again before it runs.
    pub settings: Vec<Setting>,
    /// More of the kernel's command line.
    pub append: String,
    /// Options for the recorder in the guest.
    pub record: Vec<String>,
    /// Time after which the recording is ended, from the start of the boot.
    pub timeout: Duration,
}

impl Guest {
    /// What it is, in a line.
    pub fn described(&self) -> String {
        let cpus = if self.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", self.cpus) };
        let settings = self.settings.iter().map(|setting| format!(", {setting}")).collect::<String>();
        let append = if self.append.is_empty() { String::new() } else { format!(", booted with {}", self.append) };
        let record = if self.record.is_empty() { String::new() } else { format!(", record {}", self.record.join(" ")) };
        let (release, workload) = (&self.kernel.release, &self.workload.name);
        format!("Linux {release}, {cpus}, {}, workload {workload}{settings}{append}{record}", self.memory)
    }
}

/// How a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With its workload, which succeeded.
    Whole,
    /// With its workload, which failed with this status (-1: unknown).
    Failed(i32),
    /// When the time was over.
    OutOfTime,
    /// By Ctrl-C.
    Interrupted,
}

impl Ended {
    /// What the workload did instead of succeeding within the limit; nothing where it did, or nobody let it.
    pub fn shortfall(self, limit: Duration) -> Option<String> {
        match self {
            Ended::Whole | Ended::Interrupted => None,
            Ended::Failed(status) => Some(format!("the workload failed with status {status}")),
            Ended::OutOfTime => Some(format!("the workload did not end within {} s", limit.as_secs())),
        }
    }
}

/// What came of a boot.
#[derive(Clone, Copy, Debug)]
pub struct Booted {
    /// Bytes of the recording.
    pub bytes: u64,
    /// How it ended.
    pub ended: Ended,
    /// Boots that died of the emulator before this one.
    pub slips: u32,
    /// What executed it.
    pub accelerator: Accelerator,
}

/// Programs of this machine that a boot is made of.
#[derive(Clone, Debug)]
pub struct Tools {
    qemu: PathBuf,
    busybox: PathBuf,
    setpriv: PathBuf,
    freehold: PathBuf,
}

impl Tools {
    /// Finds them. `freehold` is the program that records in the guest.
    ///
    /// # Errors
    /// [`Error::Missing`] with the Debian package to install.
    pub fn find(freehold: PathBuf) -> Result<Tools, Error> {
        Ok(Tools {
            qemu: host::find("qemu-system-x86_64", "qemu-system-x86")?,
            busybox: host::find("busybox", "busybox-static")?,
            setpriv: host::find("setpriv", "util-linux")?,
            freehold,
        })
    }

    /// What executes guests of these kernels here: what is wanted, or else KVM where it works with all of them.
    ///
    /// # Errors
    /// [`Error::Missing`] where KVM is wanted, and does not work.
    pub fn accelerator(&self, wanted: Option<Accelerator>, kernels: &[&Kernel]) -> Result<Accelerator, Error> {
        let is_tried = |at: usize| kernels[..at].iter().any(|tried| tried.image == kernels[at].image);
        let works = || (0..kernels.len()).all(|at| is_tried(at) || kvm::works(self, kernels[at]));
        match wanted {
            None if works() => Ok(Accelerator::Kvm),
            None => Ok(Accelerator::Emulation),
            Some(Accelerator::Kvm) if !works() => {
                Err(Error::Missing("the kernel does not come up under KVM here; boot without --accel kvm".to_owned()))
            }
            Some(wanted) => Ok(wanted),
        }
    }
}

/// Whether a recording can be left at `out`: before a kernel is fetched, because afterwards is late to hear that it
/// cannot.
///
/// # Errors
/// [`Error::Input`] if that is a folder, or in none.
pub fn try_out(out: &Path) -> Result<(), Error> {
    delivery::folder_of(out).map(drop)
}

/// Finds and makes what a boot of `guest` needs of this machine, so that what is missing is said before anything boots.
///
/// # Errors
/// [`Error::Missing`] when its workload needs a program that is not there, or a module that cannot be built.
pub fn prepare(guest: &Guest, say: &mut dyn FnMut(&str)) -> Result<(), Error> {
    guest.workload.programs()?;
    if guest.workload.needs_module {
        module::of(&guest.kernel, say)?;
    }
    Ok(())
}

/// Boots `guest`, and leaves what was recorded in it at `out`. `say` hears how it goes on.
///
/// # Errors
/// See [`Error`]; nothing is left behind then, and nothing stands at `out` that was not there before.
pub fn boot(
    tools: &Tools,
    guest: &Guest,
    accelerator: Accelerator,
    out: &Path,
    interrupts: &Interrupts,
    say: &mut dyn FnMut(&str),
) -> Result<Booted, Error> {
    let folder = delivery::folder_of(out)?;
    let nameless = || tempfile::tempfile_in(folder).map_err(on_file("create", folder));
    let (initramfs, root) = (nameless()?, guest.root.as_deref().map(|from| root_disk(from, folder)).transpose()?);
    let module = guest.workload.needs_module.then(|| module::of(&guest.kernel, say)).transpose()?;
    initramfs::pack(tools, guest, module.as_deref(), &initramfs)?;
    let mut slips = 0;
    while slips < BOOTS {
        let (scratch, mut delivery) = (scratch_disk(guest, folder)?, nameless()?);
        let disks = std::iter::once(&scratch).chain(&root).collect();
        let machine = Machine { tools, guest, accelerator, initramfs: &initramfs, disks, delivery: &delivery };
        match machine.run(interrupts, say)? {
            Outcome::Delivered(bytes, ended) => {
                delivery::accept(&mut delivery, bytes, out)?;
                return Ok(Booted { bytes, ended, slips, accelerator });
            }
            Outcome::Slipped => {
                slips += 1;
                say("the kernel died of the emulator; booting again");
            }
        }
    }
    Err(Error::Guest(format!("the kernel died of the emulator {BOOTS} times in a row; try fewer CPUs")))
}

/// A sparse disk without a name.
fn scratch_disk(guest: &Guest, folder: &Path) -> Result<File, Error> {
    let bytes = SCRATCH_SPARE + SCRATCH_PER_MEMORY * (u64::from(guest.memory.get()) << 20);
    let disk = tempfile::tempfile_in(folder).map_err(on_file("create", folder))?;
    disk.set_len(bytes).map_err(on_file("write", folder))?;
    Ok(disk)
}

/// A disk that holds the folder `from`.
fn root_disk(from: &Path, folder: &Path) -> Result<File, Error> {
    if !from.is_dir() {
        return Err(Error::Input(format!("the root {} is no folder", from.display())));
    }
    let mke2fs = host::find("mke2fs", "e2fsprogs")?;
    let used = host::text(Command::new("du").args(["--summarize", "--bytes"]).arg(from))?;
    let used: u64 = used.split_whitespace().next().and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
    let disk = tempfile::NamedTempFile::new_in(folder).map_err(on_file("create", folder))?;
    disk.as_file().set_len(used + used / 4 + ROOT_SPARE).map_err(on_file("write", disk.path()))?;
    host::output(Command::new(mke2fs).args(["-q", "-F", "-t", "ext4", "-d"]).arg(from).arg(disk.path()))?;
    Ok(disk.into_file())
}
