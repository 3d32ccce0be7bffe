//! Options that describe a guest, shared by the commands that boot kernels.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use freehold_boot::{
    Accelerator, Error as BootError, Guest, Kernel, Mebibytes, Program, Setting, Store, Tools, Version, Workload,
};

use super::events::EventsArgs;
use crate::error::Error;

/// Description of a guest except its kernel.
#[derive(Clone, Debug, Args)]
pub(crate) struct GuestArgs {
    /// CPUs of the guest (1 to 64)
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub cpus: u16,

    /// Memory of the guest, for example 384M or 2G
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    pub memory: Mebibytes,

    /// Workload of the guest: a bundled workload (see `freehold boot --list`), or the path of a shell script
    #[arg(long, value_name = "NAME|FILE", default_value = "calm")]
    pub workload: String,

    /// Folder that is the root file system of the workload, with the programs that the workload runs; the guest gets a
    /// copy on a disk
    #[arg(long, value_name = "FOLDER")]
    pub root: Option<PathBuf>,

    /// Change a setting in the guest before the workload runs, under its name in recordings: vm.min_free_kbytes=65536,
    /// transparent_hugepage.enabled=always; may be repeated
    #[arg(long = "setting", value_name = "NAME=VALUE")]
    pub settings: Vec<Setting>,

    /// Additional words of the kernel's command line
    #[arg(long, value_name = "WORDS", default_value = "", allow_hyphen_values = true)]
    pub append: String,

    #[command(flatten)]
    pub events: EventsArgs,

    /// Time limit in seconds, from the start of a boot to the end of its recording
    #[arg(long, value_name = "S", default_value_t = 900, value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: u64,

    /// Accelerator: executes the guest's instructions
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    pub accel: Accel,
}

/// Choice of the accelerator, which executes a guest's instructions.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Accel {
    /// KVM if it works, else emulation
    #[default]
    Auto,
    /// The host's processor, by KVM
    Kvm,
    /// QEMU with a clock that counts instructions, so that times are reproducible
    Emulated,
    /// QEMU with a thread for each CPU: faster on a host with idle CPUs, but less reproducible
    Threads,
}

impl Accel {
    /// Returns the requested accelerator; `None` if it is to be chosen automatically.
    pub(crate) fn chosen(self) -> Option<Accelerator> {
        match self {
            Accel::Auto => None,
            Accel::Kvm => Some(Accelerator::Kvm),
            Accel::Emulated => Some(Accelerator::Emulation),
            Accel::Threads => Some(Accelerator::Threads),
        }
    }
}

impl GuestArgs {
    /// Checks the options that do not depend on the kernel.
    ///
    /// # Errors
    /// If there is no such workload, or the root is not a folder.
    pub(crate) fn check(&self) -> Result<(), Error> {
        Workload::find(&self.workload)?;
        match self.root.as_deref().filter(|root| !root.is_dir()) {
            Some(root) => Err(Error::Input(format!("the root {} is not a folder", root.display()))),
            None => Ok(()),
        }
    }

    /// Returns the guest that runs `kernel`.
    ///
    /// # Errors
    /// If there is no such workload.
    pub(crate) fn guest(&self, kernel: Kernel) -> Result<Guest, Error> {
        Ok(Guest {
            kernel,
            cpus: self.cpus,
            memory: self.memory,
            workload: Workload::find(&self.workload)?,
            root: self.root.clone(),
            settings: self.settings.clone(),
            append: self.append.clone(),
            record: self.events.sets().flat_map(|set| ["--events".to_owned(), set.name().to_owned()]).collect(),
            timeout: Duration::from_secs(self.timeout),
        })
    }
}

/// A kernel before it is fetched.
enum KernelSource {
    /// On this machine.
    Here(Kernel),
    /// To be fetched from Debian.
    Debian(Version),
}

impl KernelSource {
    /// Returns the kernel that `text` denotes: the image at this path, or a version.
    ///
    /// # Errors
    /// If `text` is neither, or the image is not usable.
    fn find(text: &str) -> Result<KernelSource, Error> {
        let path = Path::new(text);
        if path.is_file() {
            return Ok(KernelSource::Here(Kernel::open(path)?));
        }
        let Ok(version) = text.parse() else {
            let sentence =
                format!("`{text}` is neither a kernel image nor a version; give a path, or a version such as 6.12");
            return Err(BootError::Input(sentence).into());
        };
        Ok(Store::for_user()?.find(&version).map_or(KernelSource::Debian(version), KernelSource::Here))
    }
}

/// Returns the kernel that `text` denotes: the image at this path, or a version, which is fetched unless it is stored.
///
/// # Errors
/// If `text` is neither, the image is not usable, or the kernel cannot be fetched.
pub(crate) fn kernel(text: &str, say: &mut dyn FnMut(&str)) -> Result<Kernel, Error> {
    match KernelSource::find(text)? {
        KernelSource::Here(kernel) => Ok(kernel),
        KernelSource::Debian(version) => Ok(Store::for_user()?.fetch(&version, say)?),
    }
}

/// Returns the programs that a boot of these kernels needs. This program itself records in the guest.
///
/// # Errors
/// If a kernel is neither an image nor a version, a program is not installed on this machine, or this program cannot find its own file.
pub(crate) fn tools(args: &GuestArgs, kernels: &[&str]) -> Result<Tools, Error> {
    let workload = Workload::find(&args.workload)?;
    let mut more = workload.required();
    more.extend(Program::FOR_ROOT.into_iter().filter(|_| args.root.is_some()));
    let mut is_fetched = workload.needs_module;
    for text in kernels {
        is_fetched |= matches!(KernelSource::find(text)?, KernelSource::Debian(_));
    }
    more.extend(Program::TO_FETCH.into_iter().filter(|_| is_fetched));
    let freehold = env::current_exe().map_err(|error| {
        BootError::Missing(format!("cannot find this program's own file, which records in the guest: {error}"))
    })?;
    Ok(Tools::find(freehold, &more)?)
}
