//! `cargo xtask package`: builds the packages that users install. `docs/install.md` describes their use.
//!
//! - [`crates`]: the published libraries, in `target/package`, each built again outside the workspace.
//! - [`archive`]: an archive with a statically linked command, for machines without a toolchain.
//! - [`deb`]: a Debian package.
//! - [`wheel`]: a Python wheel with the module and the command.
//!
//! All but the libraries are in `target/packages`. [`program`] builds the command and the files that packages install
//! with it. [`glibc`] checks that no package needs a newer glibc than the documents name.

pub(crate) mod archive;
pub(crate) mod crates;
pub(crate) mod deb;
pub(crate) mod glibc;
mod program;
pub(crate) mod wheel;

use std::fs;
use std::path::PathBuf;

use clap::ValueEnum;

use crate::error::{Error, on_file};
use crate::workspace;

/// Version of all packages.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Packages to build.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Packages to build [default: all]
    #[arg(value_name = "PACKAGE")]
    packages: Vec<Package>,
}

/// Kind of package.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Package {
    /// The libraries `freehold` and `freehold-malloc`
    Crates,
    /// The statically linked command
    Static,
    /// The Debian package
    Deb,
    /// The Python wheel
    Wheel,
}

/// Builds the packages and prints their paths.
///
/// # Errors
/// Returns the error of the first package that cannot be built.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let packages = if args.packages.is_empty() { Package::value_variants() } else { &args.packages };
    for package in packages {
        for path in package.build()? {
            println!("{}", path.display());
        }
    }
    Ok(())
}

impl Package {
    /// Builds the package and returns its files.
    fn build(self) -> Result<Vec<PathBuf>, Error> {
        match self {
            Package::Crates => crates::build(),
            Package::Static => archive::build().map(|file| vec![file]),
            Package::Deb => deb::build(VERSION).map(|file| vec![file]),
            Package::Wheel => wheel::build().map(|file| vec![file]),
        }
    }
}

/// Fails with the sentence of a requirement that this machine lacks.
fn refuse(missing: Option<String>) -> Result<(), Error> {
    missing.map_or(Ok(()), |sentence| Err(Error::Failed(sentence)))
}

/// Returns the folder of the packages, which is created if it does not exist.
pub(crate) fn folder() -> Result<PathBuf, Error> {
    let folder = workspace::target().join("packages");
    fs::create_dir_all(&folder).map_err(on_file("create", &folder))?;
    Ok(folder)
}
