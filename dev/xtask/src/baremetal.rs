//! `cargo xtask boot`: builds the small kernel of `engine/baremetal` and boots it several times in an emulator.
//!
//! The kernel is a workspace of its own, for a processor without an operating system. The lints and the formatter of
//! the gate do not cover that workspace, so this module runs both first. A boot prints the findings of the kernel and
//! ends with the kernel's exit code.
//!
//! Each processor boots with the checks of debug builds, and then as shipped with more CPUs. A third boot has a clock
//! that counts instructions, so that the kernel can count them and be interrupted after each. A PC boots once more with
//! an interrupt possible between any two instructions; by default, the emulator delivers interrupts only between
//! translated blocks of instructions.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::ValueEnum;

use crate::command;
use crate::error::Error;
use crate::stage::Outcome;
use crate::workspace::{cargo, root, target};

/// Seconds after which a boot counts as hung.
const SECONDS_MAX: &str = "300";
/// Line that a kernel prints if it should have counted instructions and could not.
const UNCOUNTED: &str = "the clock does not count instructions";
/// Exit code of the emulator if the kernel reports success.
const PASSED: i32 = 33;

/// Arguments of `cargo xtask boot`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Processor to boot; all of them if none is given
    #[arg(long, value_enum)]
    arch: Vec<Arch>,
}

/// Processor for which the kernel can be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Arch {
    /// PC, booted by PVH.
    #[value(name = "x86-64")]
    X86_64,
    /// ARM board of the emulator.
    #[value(name = "aarch64")]
    Aarch64,
    /// RISC-V board of the emulator.
    #[value(name = "riscv64")]
    Riscv64,
}

impl Arch {
    /// Returns the Rust target triple of this processor without an operating system.
    fn target(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64-unknown-none",
            Arch::Aarch64 => "aarch64-unknown-none-softfloat",
            Arch::Riscv64 => "riscv64imac-unknown-none-elf",
        }
    }

    /// Returns the emulator of this processor, and the options that choose its machine.
    fn emulator(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Arch::X86_64 => ("qemu-system-x86_64", &["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]),
            Arch::Aarch64 => {
                ("qemu-system-aarch64", &["-machine", "virt,gic-version=2", "-cpu", "max", "-semihosting"])
            }
            Arch::Riscv64 => ("qemu-system-riscv64", &["-machine", "virt", "-bios", "none"]),
        }
    }

    /// Returns all boots of this processor, in their order.
    fn boots(self) -> &'static [Boot] {
        match self {
            Arch::X86_64 => &BOOTS,
            Arch::Aarch64 | Arch::Riscv64 => &BOOTS[..3],
        }
    }

    /// Returns the boots that the gate has time for: on every processor the boot with the checks of debug builds, and
    /// on x86-64 also the boot as shipped and the boot with counted instructions.
    fn gate_boots(self) -> &'static [Boot] {
        match self {
            Arch::X86_64 => &BOOTS[..3],
            Arch::Aarch64 | Arch::Riscv64 => &BOOTS[..1],
        }
    }

    /// Returns the settings of a clock that counts instructions: the `-icount` option and the number of CPUs.
    ///
    /// The option sets the time of an instruction as a power of two of nanoseconds, which is about the smallest delay
    /// of the timer. An emulator that counts instructions runs its CPUs in turn. On ARM and RISC-V, a CPU that waits
    /// for another CPU to start never ends its turn, so these boot with one CPU.
    fn instruction_clock(self) -> (&'static str, &'static str) {
        match self {
            Arch::X86_64 => ("shift=0", "2"),
            Arch::Aarch64 => ("shift=4", "1"),
            Arch::Riscv64 => ("shift=7", "1"),
        }
    }
}

/// One boot: a build profile, a number of CPUs, and the points at which interrupts can arrive.
struct Boot {
    profile: &'static str,
    cpus: &'static str,
    steps: Steps,
}

/// Points between instructions at which the emulator can deliver interrupts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Steps {
    /// Between translated blocks of instructions.
    Blocks,
    /// After the number of instructions set in the timer: virtual time advances with each instruction.
    Counted,
    /// Between any two instructions.
    Single,
}

const BOOTS: [Boot; 4] = [
    Boot { profile: "checked", cpus: "2", steps: Steps::Blocks },
    Boot { profile: "release", cpus: "4", steps: Steps::Blocks },
    Boot { profile: "release", cpus: "2", steps: Steps::Counted },
    Boot { profile: "release", cpus: "2", steps: Steps::Single },
];

/// Boots the kernels of the processors in `args`.
///
/// # Errors
/// Returns an error if a kernel fails, or if it cannot be built or booted on this machine.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let named = if args.arch.is_empty() { Arch::value_variants() } else { &args.arch };
    named.iter().try_for_each(|&arch| match boot(arch, arch.boots())? {
        Outcome::Passed => Ok(()),
        Outcome::Skipped(reason) => Err(Error::Failed(reason)),
    })
}

/// Runs the boots of the gate, and leaves out processors that this machine cannot boot. The stage counts as skipped if
/// none can be booted.
///
/// # Errors
/// Returns an error if a kernel fails.
pub(crate) fn stage() -> Result<Outcome, Error> {
    boot_all(Arch::gate_boots)
}

/// Runs every boot, and leaves out processors that this machine cannot boot. The stage counts as skipped if none can be
/// booted.
///
/// # Errors
/// Returns an error if a kernel fails.
pub(crate) fn nightly() -> Result<Outcome, Error> {
    boot_all(Arch::boots)
}

fn boot_all(boots: fn(Arch) -> &'static [Boot]) -> Result<Outcome, Error> {
    let mut left_out = Vec::new();
    for &arch in Arch::value_variants() {
        if let Outcome::Skipped(reason) = boot(arch, boots(arch))? {
            println!("skipped: {reason}");
            left_out.push(reason);
        }
    }
    let is_nothing = left_out.len() == Arch::value_variants().len();
    Ok(if is_nothing { Outcome::Skipped(left_out.join("; ")) } else { Outcome::Passed })
}

fn boot(arch: Arch, boots: &[Boot]) -> Result<Outcome, Error> {
    if let Some(reason) = cannot_boot(arch) {
        return Ok(Outcome::Skipped(reason));
    }
    command::run(own_cargo().args(["fmt", "--check"]))?;
    let lints = ["clippy", "--profile", "checked", "--target", arch.target()];
    command::run(own_cargo().args(lints).args(["--", "--deny", "warnings"]))?;
    if arch == Arch::X86_64 {
        let smallest = ["--example", "smallest", "--features", "heap,linux", "--", "--deny", "warnings"];
        command::run(own_cargo().args(lints).args(smallest))?;
    }
    for boot in boots {
        let kernel = build(arch, boot.profile)?;
        start(arch, boot, &kernel)?;
    }
    Ok(Outcome::Passed)
}

/// Returns the reason for which a kernel cannot be built or booted on this machine, or `None`.
fn cannot_boot(arch: Arch) -> Option<String> {
    let folder = Command::new("rustc").args(["--print", "target-libdir", "--target", arch.target()]).output();
    let folder = folder.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    if folder.is_empty() || !Path::new(&folder).is_dir() {
        return Some(format!("the target is missing; run `rustup target add {}`", arch.target()));
    }
    let (program, _) = arch.emulator();
    Command::new(program).arg("--version").output().err().map(|_| format!("`{program}` is not installed"))
}

/// Returns a `cargo` command for the kernel's own workspace. That workspace has its own compiler flags, so the caller's
/// are removed.
pub(crate) fn own_cargo() -> Command {
    let mut command = cargo();
    command.current_dir(root().join("engine/baremetal"));
    command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS").env("CARGO_TARGET_DIR", target());
    command
}

fn build(arch: Arch, profile: &str) -> Result<PathBuf, Error> {
    command::run(own_cargo().args(["build", "--quiet", "--profile", profile, "--target", arch.target()]))?;
    Ok(built(arch.target(), profile).join("baremetal"))
}

/// Returns the folder of the binaries that were built for a target with a profile.
pub(crate) fn built(target_name: &str, profile: &str) -> PathBuf {
    target().join(target_name).join(profile)
}

fn start(arch: Arch, boot: &Boot, kernel: &Path) -> Result<(), Error> {
    let (program, machine) = arch.emulator();
    let mut emulator = Command::new("timeout");
    emulator.args(["--kill-after", "5", SECONDS_MAX, program]).args(machine);
    emulator.args(["-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio", "-m", "256M"]);
    match boot.steps {
        Steps::Blocks => emulator.args(["-smp", boot.cpus]),
        Steps::Counted => {
            let (instruction, cpus) = arch.instruction_clock();
            emulator.args(["-smp", cpus, "-icount", instruction])
        }
        Steps::Single => emulator.args(["-smp", boot.cpus]).args(single_steps(program)?),
    };
    emulator.arg("-kernel").arg(kernel);
    println!("$ {}", command::line(&emulator));
    let mut child = emulator.stdout(Stdio::piped()).spawn().map_err(|error| start_error(program, &error))?;
    let lines = child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok);
    let counts = lines.inspect(|line| println!("{line}")).filter(|line| line.contains(UNCOUNTED)).count() == 0;
    let ended = child.wait().map_err(|error| start_error(program, &error))?;
    match ended.code() {
        Some(PASSED) if boot.steps == Steps::Counted && !counts => {
            Err(Error::Failed("the clock of the kernel does not count instructions".to_owned()))
        }
        Some(PASSED) => Ok(()),
        Some(124) => Err(Error::Failed(format!("the kernel did not finish within {SECONDS_MAX} seconds"))),
        _ => Err(Error::Failed(format!("the kernel failed ({ended}); its last lines above show the reason"))),
    }
}

/// Returns the error of an emulator that could not be started.
fn start_error(program: &str, error: &std::io::Error) -> Error {
    Error::Failed(format!("cannot start `{program}`: {error}"))
}

/// Returns the option that makes the emulator translate one instruction at a time. QEMU 8.1 renamed this option.
fn single_steps(program: &str) -> Result<&'static [&'static str], Error> {
    let help = command::text(Command::new(program).arg("-help"))?;
    Ok(if help.contains("-singlestep") { &["-singlestep"] } else { &["-accel", "tcg,one-insn-per-tb=on"] })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;

    use super::*;
    use crate::Cli;

    /// Returns the commands in the kernel tutorial that readers type.
    fn typed() -> Vec<String> {
        let page = fs::read_to_string(root().join("docs/kernel.md")).expect("the file exists");
        page.lines()
            .filter(|line| ["cargo ", "rustup ", "apt "].iter().any(|tool| line.starts_with(tool)))
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn uncounted_message_matches_the_kernel_source() {
        let clock = fs::read_to_string(root().join("engine/baremetal/src/clock.rs")).expect("the file exists");
        assert!(clock.contains(&format!("\"{UNCOUNTED}\"")));
    }

    #[test]
    fn tutorial_commands_exist() {
        let commands = typed();
        let boot =
            commands.iter().find_map(|line| line.strip_prefix("cargo xtask ")).expect("the page has a boot command");
        Cli::try_parse_from(["xtask"].into_iter().chain(boot.split(' '))).expect("the page has a valid command");
        assert!(boot.contains("--arch x86-64"), "{boot}");
        let rustup = format!("rustup target add {}", Arch::X86_64.target());
        assert!(commands.contains(&rustup), "{commands:?}");
        let gate = fs::read_to_string(root().join(".ci/run")).expect("the file exists");
        let apt =
            commands.iter().find_map(|line| line.strip_prefix("apt install ")).expect("the page installs an emulator");
        assert!(
            apt.split(' ').all(|package| gate.contains(package)),
            "the gate does not install the same packages: {apt}"
        );
    }
}
