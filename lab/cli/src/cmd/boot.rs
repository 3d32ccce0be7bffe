//! `freehold boot`: boots a kernel in QEMU and records a workload in it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use freehold_boot::{Accelerator, BootOutcome, Interrupts, RecordingEnd, Store, Workload, config};

use super::guest::{GuestArgs, kernel, tools};
use super::replace::ReplaceArgs;
use crate::error::Error;

/// Arguments of `freehold boot`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    freehold boot --kernel 6.12              record the workload `calm` on Debian's newest kernel 6.12\n  \
    freehold boot --kernel arch/x86/boot/bzImage --workload pressure --out patched.parquet\n  \
    freehold boot --config-fragment > fragment   options that a kernel of your own needs\n  \
    freehold boot --kernel 7.3 --workload ./mine.sh --root ./rootfs --setting vm.swappiness=10\n\n\
    A workload is a shell script. It is called with `prepare`, and then with `run`, which is recorded. Its environment \
    has CPUS and MEMORY (MiB), and a disk is mounted at /scratch. If KVM does not work, QEMU emulates the processor: \
    counts, orders and states are then valid, but times are not those of a real machine.\n\n\
    Exit status: 1 if the guest failed. Also 1 if the workload failed or exceeded --timeout; the recording is then \
    kept.")]
pub struct BootArgs {
    /// Kernel: path of an image (bzImage, vmlinuz), or a version that Debian packages (6.12, 7.3.4)
    #[arg(long, short, value_name = "IMAGE|VERSION", default_value = "6.12")]
    kernel: String,

    /// Recording to write; a file of this name is replaced only with --force
    #[arg(long, short, value_name = "FILE", default_value = "recording.parquet")]
    out: PathBuf,

    #[command(flatten)]
    replace: ReplaceArgs,

    #[command(flatten)]
    guest: GuestArgs,

    /// Print only the result
    #[arg(long, short)]
    quiet: bool,

    /// List the bundled workloads and exit
    #[arg(long)]
    list: bool,

    /// Print the options that a kernel needs for `freehold boot`, as a fragment of a kernel configuration, and exit. The
    /// configuration of an image, if it is known, is checked before each boot
    #[arg(long)]
    config_fragment: bool,

    /// Fetch the newest kernel of this version from Debian, even if one is stored, and exit
    #[arg(long)]
    fetch: bool,
}

/// Boots and records, and reports progress on stderr; or lists the workloads, or fetches a kernel.
pub(crate) fn run(args: BootArgs) -> Result<(), Error> {
    let started = Instant::now();
    let mut say = |sentence: &str| {
        if !args.quiet {
            eprintln!("freehold: [{:>3} s] {sentence}", started.elapsed().as_secs());
        }
    };
    if args.list {
        return list();
    }
    if args.config_fragment {
        return Ok(freehold_report::output::print(config::fragment().as_bytes())?);
    }
    if args.fetch {
        return fetch(&args.kernel, &mut say);
    }
    args.replace.check(&args.out)?;
    freehold_boot::try_out(&args.out)?;
    args.guest.check()?;
    let tools = tools(&args.guest, &[&args.kernel])?;
    let guest = args.guest.guest(kernel(&args.kernel, &mut say)?)?;
    config::check(&guest.kernel, &mut say)?;
    let accelerator = tools.accelerator(args.guest.accel.chosen(), &[&guest.kernel])?;
    let interrupts = Interrupts::listen()?;
    say(&format!("booting {}", guest.describe()));
    let outcome = freehold_boot::boot(&tools, &guest, accelerator, &args.out, &interrupts, &mut say)?;
    report_end(outcome, &args)
}

/// Reports the end of the recording. Returns an error if the boot was interrupted, or if the workload failed or did not
/// end in time.
fn report_end(outcome: BootOutcome, args: &BootArgs) -> Result<(), Error> {
    let out = args.out.display();
    if outcome.end == RecordingEnd::Interrupted {
        return Err(Error::Kept(args.out.clone()));
    }
    if let Some(shortfall) = outcome.end.shortfall(Duration::from_secs(args.guest.timeout)) {
        return Err(Error::Short(format!("{shortfall}; the recording until then is in {out}")));
    }
    let how = match outcome.accelerator {
        Accelerator::Kvm => "",
        Accelerator::Emulation => "; emulated guest: times are counts of instructions",
        Accelerator::Threads => "; emulated guest: times are not meaningful",
    };
    let slips = match outcome.slips {
        0 => String::new(),
        slips => format!("; boots repeated after errors of the emulator: {slips}"),
    };
    eprintln!("freehold: {out} ({} bytes){how}{slips}", outcome.bytes);
    Ok(())
}

fn list() -> Result<(), Error> {
    let workloads = Workload::bundled();
    let lines = workloads.iter().map(|workload| format!("{:<10} {}\n", workload.name, workload.summary));
    Ok(freehold_report::output::print(lines.collect::<String>().as_bytes())?)
}

fn fetch(kernel: &str, say: &mut dyn FnMut(&str)) -> Result<(), Error> {
    let version = kernel
        .parse()
        .map_err(|()| Error::Input(format!("`{kernel}` is not a version; give a version such as 6.12 or 7.3")))?;
    let kernel = Store::for_user()?.fetch(&version, say)?;
    say(&format!("Linux {}: {}", kernel.release, kernel.image.display()));
    Ok(())
}
