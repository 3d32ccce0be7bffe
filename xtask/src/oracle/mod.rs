//! The oracle: the pinned kernel itself, asked what it does.
//!
//! [`run`] boots Debian's Linux 6.12 in QEMU under software emulation, at any CPU count and memory size,
//! runs a workload under `freehold record` inside, and brings the recording out. Emulated time means
//! nothing; order, counts and states are exactly the pinned kernel's. In the order of execution:
//!
//! 1. [`kernel`] finds the kernel, its modules, QEMU and busybox, or says which packages are missing;
//! 2. [`guest`] builds the recorder statically and packs it into an initramfs with the workloads;
//! 3. [`machine`] boots, follows the console, and stops QEMU whatever happens;
//! 4. [`recording`] checks that what came out is whole, and only then gives it its name.
//!
//! A boot to the end of the `calm` workload takes about a minute; most of a first run is the build of
//! the recorder.

mod console;
mod guest;
mod kernel;
mod machine;
mod recording;
mod size;
mod workload;

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args as ClapArgs;

use crate::error::{Error, on_file};
use crate::workspace;
use machine::{Delivery, Machine, Outcome};
use size::Mebibytes;
use workload::Workload;

/// How often the emulator may slip before that is a failure (seen: about one boot in ten with 8 CPUs).
const BOOTS: usize = 4;

/// What to boot and what to run in it.
#[derive(ClapArgs, Clone, Debug)]
pub struct Args {
    /// CPUs of the guest.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub cpus: u16,
    /// Memory of the guest: 512M, 1G, 2G, ...
    #[arg(long, default_value = "1G")]
    pub memory: Mebibytes,
    /// Workload to record; `--list` shows them.
    #[arg(long, default_value = "calm")]
    pub workload: String,
    /// Where to put the recording [default: oracle-WORKLOAD-CPUScpu-MEMORY.parquet in the build folder].
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Seconds after which the guest is stopped and the boot has failed.
    #[arg(long, default_value_t = 900)]
    pub timeout: u64,
    /// List the workloads and leave.
    #[arg(long)]
    pub list: bool,
    /// Download and unpack the kernel package below the build folder, and leave.
    #[arg(long)]
    pub fetch: bool,
}

impl Args {
    /// What a run of this shape is called.
    fn name(&self) -> String {
        format!("oracle-{}-{}cpu-{}", self.workload, self.cpus, self.memory)
    }

    /// The smallest boot that shows everything works, for automatic runs.
    pub fn small(out: PathBuf) -> Args {
        let memory = Mebibytes::SMALL;
        let workload = "calm".to_owned();
        Args { cpus: 2, memory, workload, out: Some(out), timeout: 900, list: false, fetch: false }
    }
}

/// Does what `args` ask for.
///
/// # Errors
/// [`Error::Missing`] when QEMU, busybox or the kernel is not here; [`Error::Failed`] with the end of the
/// console when the guest fails, or takes longer than `args.timeout`.
pub fn run(args: &Args) -> Result<(), Error> {
    if args.list {
        return list();
    }
    if args.fetch {
        return kernel::fetch();
    }
    let workload = Workload::find(&args.workload)?;
    let tools = kernel::find()?;
    let folder = workspace::target().join("oracle").join(args.name());
    let out = args.out.clone().unwrap_or_else(|| folder.with_extension("parquet"));
    let _lock = reserve(&folder)?;
    recording::check_place(&out)?;

    let programs = guest::build()?;
    let initramfs = guest::pack(&tools, &programs, &workload, &folder)?;
    println!(
        "oracle: booting Linux {} with {} CPUs and {}, workload {}",
        tools.release, args.cpus, args.memory, workload.name
    );
    let machine = Machine {
        tools: &tools,
        initramfs: &initramfs,
        cpus: args.cpus,
        memory: args.memory,
        workload: &workload.name,
        timeout: Duration::from_secs(args.timeout),
        folder: &folder,
    };
    let delivery = boot(&machine)?;
    let bytes = recording::accept(&delivery, &out)?;
    println!("oracle: {} ({bytes} bytes)", out.display());
    Ok(())
}

/// Makes `folder` and keeps other runs out of it for as long as the file lives.
fn reserve(folder: &Path) -> Result<File, Error> {
    fs::create_dir_all(folder).map_err(on_file("create", folder))?;
    let path = folder.join("lock");
    let lock = File::create(&path).map_err(on_file("create", &path))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(Error::Usage(format!(
            "another oracle of the same shape runs in {}; wait for it, or stop it",
            folder.display()
        ))),
        Err(TryLockError::Error(source)) => Err(on_file("lock", &path)(source)),
    }
}

/// Boots until a run ends that the emulator did not spoil.
fn boot(machine: &Machine<'_>) -> Result<Delivery, Error> {
    for _ in 0..BOOTS {
        match machine.run()? {
            Outcome::Delivered(delivery) => return Ok(delivery),
            Outcome::Slipped => println!("oracle: the emulator slipped on a patched instruction; booting again"),
        }
    }
    Err(Error::Failed(format!("the emulator slipped {BOOTS} times in a row; try fewer CPUs")))
}

fn list() -> Result<(), Error> {
    for workload in Workload::all()? {
        println!("{:<10} {}", workload.name, workload.summary);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_of_one_shape_keep_apart() {
        let folder = tempfile::tempdir().unwrap();
        let first = reserve(folder.path()).unwrap();
        assert!(reserve(folder.path()).is_err());
        drop(first);
        assert!(reserve(folder.path()).is_ok());
    }

    #[test]
    fn a_run_is_named_after_its_shape() {
        assert_eq!(Args::small(PathBuf::new()).name(), "oracle-calm-2cpu-512M");
    }
}
