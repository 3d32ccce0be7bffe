//! The Python wheel: the module `freehold`, the command `freehold`, and the malloc's library.
//!
//! maturin builds a wheel with the module. The command is added as a script, so that pip installs it into the
//! environment's `bin`; the library goes to the environment's `lib/freehold`, where the command finds it. A separate
//! program is needed beside the module because `boot` and `disasm` read the file of the program that runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{VERSION, folder, glibc, program};
use crate::command;
use crate::error::{Error, on_file};
use crate::workspace;

/// Folder of the Python package.
const CRATE: &str = "lab/python";
/// Programs that build the wheel; `requirements.txt` of the Python package pins their versions.
const TOOLS: [&str; 2] = ["maturin", "wheel"];

/// Builds the wheel with tools that are installed first, and returns its path.
///
/// # Errors
/// Returns the errors of [`install_tools`] and of [`build_with`].
pub(crate) fn build() -> Result<PathBuf, Error> {
    build_with(&install_tools()?)
}

/// Builds the wheel with the programs in the folder `tools`, and returns its path.
///
/// # Errors
/// Returns an error if a part cannot be built, or if a part needs a newer glibc than is supported.
pub(crate) fn build_with(tools: &Path) -> Result<PathBuf, Error> {
    let built = program::build(None)?;
    glibc::check(&built)?;
    let scratch = folder()?.join("wheel");
    if scratch.exists() {
        fs::remove_dir_all(&scratch).map_err(on_file("remove", &scratch))?;
    }
    let module = build_module(tools, &scratch.join("module"))?;
    let content = scratch.join("content");
    command::run(wheel(tools).arg("unpack").arg("--dest").arg(&content).arg(&module))?;
    let content = content.join(format!("freehold-{VERSION}"));
    glibc::check(&content.join("freehold/_freehold.abi3.so"))?;
    let tree = scratch.join("tree");
    program::write_tree(&built, &tree)?;
    add_program(&tree, &content.join(format!("freehold-{VERSION}.data")))?;
    let packages = folder()?;
    command::run(wheel(tools).arg("pack").arg("--dest-dir").arg(&packages).arg(&content))?;
    let name = module.file_name().ok_or_else(|| Error::Failed("maturin built no wheel".to_owned()))?;
    Ok(packages.join(name))
}

/// Creates an environment with the programs that build the wheel, and returns its folder of programs.
///
/// # Errors
/// Returns an error if Python has no module `venv`, or if the package index cannot be reached.
pub(crate) fn install_tools() -> Result<PathBuf, Error> {
    let environment = folder()?.join("wheel-tools");
    command::output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
    let programs = environment.join("bin");
    let pins = workspace::root().join(CRATE).join("requirements.txt");
    let mut pip = Command::new(programs.join("pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", "--constraint"]).arg(pins).args(TOOLS);
    command::output(&mut pip)?;
    Ok(programs)
}

/// Builds the wheel of the module in `folder`, and returns its path.
fn build_module(tools: &Path, folder: &Path) -> Result<PathBuf, Error> {
    let mut build = Command::new(tools.join("maturin"));
    build.args(["build", "--quiet", "--locked", "--profile", "dist", "--manifest-path"]);
    build.arg(workspace::root().join(CRATE).join("Cargo.toml")).arg("--interpreter").arg(tools.join("python"));
    build.arg("--out").arg(folder).current_dir(workspace::root()).env("CARGO_TARGET_DIR", workspace::target());
    command::run(&mut build)?;
    let mut files = fs::read_dir(folder).map_err(on_file("read", folder))?;
    let wheel = files.find_map(|entry| Some(entry.ok()?.path()));
    wheel.ok_or_else(|| Error::Failed("maturin built no wheel".to_owned()))
}

/// Adds the command, the library and the licences to the wheel's folder of installed data. pip makes files in `scripts`
/// executable. pip does not remove empty folders, except the last one of a path, so all other files of the tree are left
/// out.
fn add_program(tree: &Path, data: &Path) -> Result<(), Error> {
    let (scripts, library) = (data.join("scripts"), data.join("data").join(program::LIBRARIES));
    for folder in [&scripts, &library] {
        fs::create_dir_all(folder).map_err(on_file("create", folder))?;
    }
    let moves = [(program::PROGRAMS, &scripts), (program::LIBRARIES, &library), (program::LICENCES, &library)];
    for (from, to) in moves {
        let from = tree.join(from);
        for file in fs::read_dir(&from).map_err(on_file("read", &from))?.flatten() {
            let to = to.join(file.file_name());
            fs::rename(file.path(), &to).map_err(on_file("write", &to))?;
        }
    }
    Ok(())
}

fn wheel(tools: &Path) -> Command {
    let mut command = Command::new(tools.join("python"));
    command.args(["-m", "wheel"]);
    command
}
