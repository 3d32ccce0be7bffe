//! The initial file system of the guest: one archive in the format that the kernel unpacks.
//!
//! ```text
//! /init                 guest/init.sh
//! /plan                 parameters of init, as shell assignments
//! /settings             one file of the guest and its value per line
//! /workload             the workload's script
//! /bin/busybox          and links to its applets, made by init
//! /bin/freehold         this program: the recorder, and the load (/bin/load)
//! /modules/*.ko         kernel modules
//! /lib...               libraries that these programs load
//! ```
//!
//! The archive is not compressed: decompression under emulation would cost more than the copy.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use cpio::newc;

use crate::error::{Error, on_file};
use crate::guest::Guest;
use crate::tools::Tools;
use crate::{host, module};

/// Modules that a guest needs unless they are built in, each after the modules it depends on.
const MODULES: [&str; 1] = ["virtio_blk"];
/// Folders of the archive.
const FOLDERS: [&str; 9] = ["bin", "modules", "proc", "sys", "dev", "tmp", "scratch", "mnt", "run"];
/// Modes of a folder, and of an executable file.
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// Script that runs the load command of this program.
const LOAD: &str = "#!/bin/busybox sh\nexec /bin/freehold load \"$@\"\n";

/// Packs the archive of `guest` into `file`, with the module `load` if the workload needs it.
///
/// # Errors
/// [`Error::Missing`] when the workload needs a program that this machine does not have.
pub(crate) fn pack(tools: &Tools, guest: &Guest, load: Option<&[u8]>, file: &File) -> Result<(), Error> {
    let mut archive = Archive { file, names: BTreeSet::new() };
    for folder in FOLDERS {
        archive.folder(folder)?;
    }
    archive.file("init", include_bytes!("../guest/init.sh"))?;
    archive.file("plan", plan(guest).as_bytes())?;
    archive.file("settings", settings(guest).as_bytes())?;
    archive.file("workload", guest.workload.script.as_bytes())?;
    archive.program(&tools.busybox, "busybox")?;
    archive.program(&tools.freehold, "freehold")?;
    archive.file("bin/load", LOAD.as_bytes())?;
    for name in MODULES {
        if let Some(module) = guest.kernel.module(name)? {
            archive.file(&format!("modules/{name}.ko"), &module)?;
        }
    }
    if let Some(module) = load {
        archive.file(&format!("modules/{}.ko", module::NAME), module)?;
    }
    for (name, program) in guest.workload.programs()? {
        archive.program(&program, name)?;
    }
    newc::trailer(file).map_err(write_error)?;
    Ok(())
}

fn write_error(error: io::Error) -> Error {
    on_file("write", Path::new("the guest's initramfs"))(error)
}

/// Returns the parameters of init, as shell assignments.
fn plan(guest: &Guest) -> String {
    let memory = guest.memory.get();
    let events = guest.record.join(" ");
    let has_root = if guest.root.is_some() { "yes" } else { "" };
    format!("MEMORY={memory}\nRECORD='{events}'\nHAS_ROOT={has_root}\n")
}

fn settings(guest: &Guest) -> String {
    guest.settings.iter().fold(String::new(), |mut text, setting| {
        let _ = writeln!(text, "{} {}", setting.path(), setting.value());
        text
    })
}

/// Archive being written.
struct Archive<'a> {
    file: &'a File,
    names: BTreeSet<String>,
}

impl Archive<'_> {
    fn entry(&mut self, name: &str, mode: u32, bytes: &[u8]) -> Result<(), Error> {
        if !self.names.insert(name.to_owned()) {
            return Ok(());
        }
        let size =
            u32::try_from(bytes.len()).map_err(|_| write_error(io::Error::other("a file is larger than 4 GiB")))?;
        let ino = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        let mut writer = newc::Builder::new(name).ino(ino).mode(mode).nlink(1).write(self.file, size);
        writer.write_all(bytes).map_err(write_error)?;
        writer.finish().map(drop).map_err(write_error)
    }

    /// Adds the folder `name` and its parent folders.
    fn folder(&mut self, name: &str) -> Result<(), Error> {
        let ends = name.match_indices('/').map(|(at, _)| at).chain([name.len()]);
        for end in ends.filter(|&end| end > 0) {
            self.entry(&name[..end], FOLDER, &[])?;
        }
        Ok(())
    }

    fn file(&mut self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        if let Some((folder, _)) = name.rsplit_once('/') {
            self.folder(folder)?;
        }
        self.entry(name, PROGRAM, bytes)
    }

    /// Adds a program of this machine as `/bin/NAME`, with the libraries that it loads.
    fn program(&mut self, path: &Path, name: &str) -> Result<(), Error> {
        self.file(&format!("bin/{name}"), &read_stripped(path)?)?;
        // `ldd` fails for a static program, which then has no libraries.
        let loaded = host::text(Command::new("ldd").arg(path)).unwrap_or_default();
        for library in libraries(&loaded) {
            let bytes = fs::read(library).map_err(on_file("read", Path::new(library)))?;
            self.file(library.trim_start_matches('/'), &bytes)?;
        }
        Ok(())
    }
}

/// Returns a program without its debugging sections if `strip` is installed, because the archive is kept in the guest's
/// memory.
fn read_stripped(path: &Path) -> Result<Vec<u8>, Error> {
    if let Ok(out) = tempfile::NamedTempFile::new()
        && host::output(Command::new("strip").arg("-o").arg(out.path()).arg(path)).is_ok()
    {
        return fs::read(out.path()).map_err(on_file("read", out.path()));
    }
    fs::read(path).map_err(on_file("read", path))
}

/// Returns the files that `ldd` lists: each line ends in `PATH (ADDRESS)`.
fn libraries(loaded: &str) -> impl Iterator<Item = &str> {
    loaded.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_parsed_from_ldd() {
        let loaded = "\tlinux-vdso.so.1 (0x1)\n\tlibm.so.6 => /lib/libm.so.6 (0x2)\n\t/lib64/ld.so.2 (0x3)\n";
        assert_eq!(libraries(loaded).collect::<Vec<_>>(), ["/lib/libm.so.6", "/lib64/ld.so.2"]);
    }

    #[test]
    fn archive_lists_folders_once_before_their_contents() {
        let file = tempfile::tempfile().unwrap();
        let mut archive = Archive { file: &file, names: BTreeSet::new() };
        archive.file("lib/x86/a", b"1").unwrap();
        archive.file("lib/x86/b", b"2").unwrap();
        newc::trailer(&file).unwrap();
        let mut from = &file;
        io::Seek::rewind(&mut from).unwrap();
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut from, &mut bytes).unwrap();
        let mut names = Vec::new();
        let mut rest = bytes.as_slice();
        loop {
            let reader = newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            names.push(reader.entry().name().to_owned());
            rest = reader.finish().unwrap();
        }
        assert_eq!(names, ["lib", "lib/x86", "lib/x86/a", "lib/x86/b"]);
    }
}
