//! Finding the pinned kernel and the programs that boot it.
//!
//! The kernel is looked for below the build folder first, where [`fetch`] unpacks Debian's package without
//! touching `/boot`, and then where the package itself would install it. Nothing is downloaded unasked.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::error::{Error, on_file};
use crate::workspace;

/// Debian's name for "the newest cloud build of 6.12".
const PACKAGE: &str = "linux-image-6.12-cloud-amd64";
/// The series the engine is pinned to: what a release name must start with.
const SERIES: &str = "6.12.";
/// Modules that a guest needs, each after those it depends on, as paths below `kernel/`.
pub const MODULES: [&str; 1] = ["drivers/block/virtio_blk.ko.xz"];

/// Files and programs that a boot is made of.
#[derive(Debug)]
pub struct Tools {
    /// The kernel's release, as `uname -r` says.
    pub release: String,
    /// Path of the kernel image.
    pub image: PathBuf,
    /// Its modules: the folder `lib/modules/RELEASE`.
    pub modules: PathBuf,
    /// Path of QEMU for x86-64.
    pub qemu: PathBuf,
    /// A busybox without dynamic libraries.
    pub busybox: PathBuf,
}

/// Finds everything, or says what is missing.
///
/// # Errors
/// [`Error::Missing`] with the packages to install.
pub fn find() -> Result<Tools, Error> {
    let program = |name: &str, package: &str| {
        on_path(name)
            .ok_or_else(|| Error::Missing(format!("the oracle needs `{name}`: install the Debian package {package}")))
    };
    let qemu = program("qemu-system-x86_64", "qemu-system-x86")?;
    let busybox = program("busybox", "busybox-static")?;
    // QEMU is started through setpriv, so that it dies with us even when we are killed.
    program("setpriv", "util-linux")?;
    let (release, image, modules) =
        [cache(), PathBuf::from("/")].iter().find_map(|root| kernel_below(root)).ok_or_else(|| {
            Error::Missing(format!(
                "the oracle needs the kernel of the Debian package {PACKAGE}: run `cargo xtask oracle --fetch`"
            ))
        })?;
    Ok(Tools { release, image, modules, qemu, busybox })
}

/// Downloads the kernel package with apt and unpacks it below the build folder.
///
/// # Errors
/// When apt or dpkg is missing, or knows no such package.
pub fn fetch() -> Result<(), Error> {
    if let Some((release, ..)) = kernel_below(&cache()) {
        println!("oracle: Linux {release} is here already");
        return Ok(());
    }
    let depends = command::text(Command::new("apt-cache").args(["depends", "--important", PACKAGE]))?;
    let package = concrete(&depends).ok_or_else(|| {
        Error::Missing(format!("apt has no version of package {PACKAGE}: run `apt-get update`, on Debian 12"))
    })?;
    let folder = cache();
    fs::create_dir_all(&folder).map_err(on_file("create", &folder))?;
    println!("oracle: downloading {package}");
    let download = tempfile::tempdir_in(&folder).map_err(on_file("create", &folder))?;
    command::output(Command::new("apt-get").args(["download", package]).current_dir(download.path()))?;
    let archive = only_file(download.path())?;
    // Unpacked next door and moved at the end: a folder that exists is whole.
    let unpacked = download.path().join("unpacked");
    command::run(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&unpacked))?;
    for part in ["lib", "boot"] {
        fs::rename(unpacked.join(part), folder.join(part)).map_err(on_file("create", &folder.join(part)))?;
    }
    find().map(|tools| println!("oracle: Linux {} is ready", tools.release))
}

fn cache() -> PathBuf {
    workspace::target().join("oracle/kernel")
}

/// The package that the meta package stands for, from what `apt-cache depends` prints.
fn concrete(depends: &str) -> Option<&str> {
    depends.lines().find_map(|line| {
        let package = line.trim().strip_prefix("Depends: ")?;
        package.starts_with("linux-image-6.12").then_some(package)
    })
}

/// Release, image and modules of the newest pinned kernel below `root`.
fn kernel_below(root: &Path) -> Option<(String, PathBuf, PathBuf)> {
    let boot = fs::read_dir(root.join("boot")).ok()?;
    let mut releases: Vec<String> = boot
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_prefix("vmlinuz-")?.to_owned()))
        .filter(|release| release.starts_with(SERIES) && release.contains("cloud"))
        .collect();
    releases.sort();
    let release = releases.pop()?;
    let modules = root.join("lib/modules").join(&release);
    let image = root.join("boot").join(format!("vmlinuz-{release}"));
    modules.is_dir().then_some((release, image, modules))
}

fn only_file(folder: &Path) -> Result<PathBuf, Error> {
    let mut entries = fs::read_dir(folder).map_err(on_file("read", folder))?.filter_map(Result::ok);
    let file = entries.find(|entry| entry.path().is_file());
    file.map(|entry| entry.path()).ok_or_else(|| Error::Failed("apt-get download left no file".to_owned()))
}

/// Where the program `name` is, if it is in the search path.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_package_resolves_to_its_kernel() {
        let depends = "linux-image-6.12-cloud-amd64\n  Depends: linux-image-6.12.117+deb12-cloud-amd64\n";
        assert_eq!(concrete(depends), Some("linux-image-6.12.117+deb12-cloud-amd64"));
        assert_eq!(concrete("linux-image-6.12-cloud-amd64\n"), None);
    }

    #[test]
    fn kernel_needs_its_modules() {
        let root = tempfile::tempdir().unwrap();
        let boot = root.path().join("boot");
        fs::create_dir(&boot).unwrap();
        for release in ["6.1.0-9-cloud-amd64", "6.12.9-cloud-amd64", "6.12.9-amd64"] {
            fs::write(boot.join(format!("vmlinuz-{release}")), "").unwrap();
        }
        assert!(kernel_below(root.path()).is_none(), "a kernel without modules was accepted");
        fs::create_dir_all(root.path().join("lib/modules/6.12.9-cloud-amd64")).unwrap();
        assert_eq!(kernel_below(root.path()).unwrap().0, "6.12.9-cloud-amd64");
    }
}
