//! Packs the plotting library for pages: Apache ECharts, taken from the package `charming` where cargo has it, squeezed,
//! and written as text that a page can hold.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use cargo_metadata::MetadataCommand;
use flate2::Compression;
use flate2::write::GzEncoder;

/// The package that brings the library, and where it is in there.
const PACKAGE: &str = "charming";
const FOLDER: &str = "src/asset";
const NAME: &str = "echarts-";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=Cargo.toml");
    let library = fs::read(library_in(&folder_of_package()?)?)?;
    let mut squeezed = GzEncoder::new(Vec::new(), Compression::best());
    squeezed.write_all(&library)?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    fs::write(out.join("echarts.gz.base64"), BASE64_STANDARD.encode(squeezed.finish()?))?;
    Ok(())
}

/// Where cargo has the package: it is among the dependencies of this one, so it is there.
fn folder_of_package() -> Result<PathBuf, Box<dyn Error>> {
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").ok_or("cargo sets CARGO_MANIFEST_DIR")?);
    // What only other platforms need is not here, and nobody waits for it to be fetched.
    let platform = format!("--filter-platform={}", std::env::var("HOST")?);
    let options = vec![platform];
    let metadata = MetadataCommand::new().manifest_path(manifest.join("Cargo.toml")).other_options(options).exec()?;
    let package = metadata.packages.iter().find(|package| package.name.as_str() == PACKAGE);
    let package = package.ok_or_else(|| format!("{PACKAGE} is not among the dependencies"))?;
    let folder = package.manifest_path.parent().ok_or("a manifest lies in a folder")?;
    Ok(folder.join(FOLDER).into())
}

/// The one file in there that is the library.
fn library_in(folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let files = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let is_library = |file: &fs::DirEntry| file.file_name().to_string_lossy().starts_with(NAME);
    let library = files.iter().find(|file| is_library(file));
    Ok(library.ok_or_else(|| format!("{PACKAGE} brings no {NAME}* any more"))?.path())
}
