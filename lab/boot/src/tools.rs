//! Programs of this machine that a boot needs.
//!
//! All programs are searched before anything is fetched or booted, so that one message names everything to install.

use std::borrow::Cow;
use std::path::PathBuf;

use crate::error::Error;
use crate::host;

/// A program, and the Debian package that contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// File name of the program.
    pub name: Cow<'static, str>,
    /// Name of the package.
    pub package: Cow<'static, str>,
}

impl Program {
    const fn new(name: &'static str, package: &'static str) -> Program {
        Program { name: Cow::Borrowed(name), package: Cow::Borrowed(package) }
    }

    /// Programs that fetch a kernel.
    pub const TO_FETCH: [Program; 4] = [
        Program::new("apt-get", "apt"),
        Program::new("apt-cache", "apt"),
        Program::new("dpkg-deb", "dpkg"),
        Program::new("xzcat", "xz-utils"),
    ];
    /// Programs that copy a root folder to a disk.
    pub const FOR_ROOT: [Program; 2] = [Program::new("mke2fs", "e2fsprogs"), Program::new("du", "coreutils")];
    /// Programs that build Freehold's kernel module.
    pub const FOR_MODULE: [Program; 3] =
        [Program::new("gcc", "gcc"), Program::new("make", "make"), Program::new("strip", "binutils")];

    const QEMU: Program = Program::new("qemu-system-x86_64", "qemu-system-x86");
    const BUSYBOX: Program = Program::new("busybox", "busybox-static");
    const SETPRIV: Program = Program::new("setpriv", "util-linux");
    const LDD: Program = Program::new("ldd", "libc-bin");

    fn is_installed(&self) -> bool {
        host::locate(&self.name).is_some()
    }
}

/// Paths of the programs that a boot needs.
#[derive(Clone, Debug)]
pub struct Tools {
    pub(crate) qemu: PathBuf,
    pub(crate) busybox: PathBuf,
    pub(crate) setpriv: PathBuf,
    pub(crate) freehold: PathBuf,
}

impl Tools {
    /// Finds the programs, and checks that the programs in `more` are installed too. `freehold` is the program that
    /// records in the guest.
    ///
    /// # Errors
    /// [`Error::Missing`] with all programs that are not installed, and their Debian packages.
    pub fn find(freehold: PathBuf, more: &[Program]) -> Result<Tools, Error> {
        let [qemu, busybox, setpriv, ldd] = [Program::QEMU, Program::BUSYBOX, Program::SETPRIV, Program::LDD];
        let needed: Vec<&Program> = [&qemu, &busybox, &setpriv, &ldd].into_iter().chain(more).collect();
        expect_programs("booting this kernel", &needed)?;
        Ok(Tools {
            qemu: host::find(&qemu.name, &qemu.package)?,
            busybox: host::find(&busybox.name, &busybox.package)?,
            setpriv: host::find(&setpriv.name, &setpriv.package)?,
            freehold,
        })
    }
}

/// Checks that the programs that fetch a kernel are installed.
///
/// # Errors
/// As [`Tools::find`].
pub(crate) fn expect_to_fetch() -> Result<(), Error> {
    expect_programs("fetching a kernel", &Program::TO_FETCH.each_ref())
}

/// Checks that all of these programs are installed, for this purpose.
fn expect_programs(purpose: &str, needed: &[&Program]) -> Result<(), Error> {
    let mut missing: Vec<&Program> = needed.iter().copied().filter(|program| !program.is_installed()).collect();
    missing.dedup();
    let mut packages: Vec<&str> = Vec::new();
    for program in &missing {
        if !packages.contains(&&*program.package) {
            packages.push(&program.package);
        }
    }
    let names: Vec<String> = missing.iter().map(|program| format!("`{}`", program.name)).collect();
    let plural = if packages.len() == 1 { "package" } else { "packages" };
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Error::Missing(format!(
            "{purpose} needs {}; install the Debian {plural} {}",
            names.join(", "),
            packages.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_missing_programs_are_named_with_their_packages_once() {
        let absent = [("no-such-a", "a"), ("no-such-b", "tools"), ("sh", "dash"), ("no-such-c", "tools")]
            .map(|(name, package)| Program::new(name, package));
        let sentence = expect_programs("booting", &absent.each_ref()).unwrap_err().to_string();
        assert_eq!(
            sentence,
            "booting needs `no-such-a`, `no-such-b`, `no-such-c`; install the Debian packages a, tools"
        );
        assert!(expect_programs("booting", &[&Program::new("sh", "dash")]).is_ok());
    }
}
