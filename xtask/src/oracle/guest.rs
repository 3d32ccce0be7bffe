//! What the guest is made of: the recorder and the load, built statically, and one initramfs.
//!
//! ```text
//! /init                 xtask/oracle/init.sh
//! /bin/busybox          and links to its applets, made by init
//! /bin/freehold         the recorder
//! /bin/load             page traffic that shell loops cannot make
//! /workloads/NAME.sh    the workloads
//! /modules/*.ko         kernel modules, unpacked
//! ```
//!
//! The initramfs stays uncompressed: emulated decompression would cost more than the copy.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::kernel::{MODULES, Tools, on_path};
use super::workload::Workload;
use crate::command;
use crate::error::{Error, on_file};
use crate::workspace;

/// The target triple of static builds: glibc's own, with its startup files linked in.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// Our programs inside the guest.
#[derive(Debug)]
pub struct Programs {
    freehold: PathBuf,
    load: PathBuf,
}

/// Builds our programs for the guest. Seconds when nothing changed; the first time, a whole release build.
pub fn build() -> Result<Programs, Error> {
    println!("oracle: building the recorder and the load, statically");
    command::run(
        workspace::cargo()
            .env("RUSTFLAGS", "-C target-feature=+crt-static")
            .args(["build", "--quiet", "--release", "--target", TRIPLE])
            .args(["--package", "freehold-lab", "--package", "oracle-load"]),
    )?;
    let folder = workspace::target().join(TRIPLE).join("release");
    Ok(Programs { freehold: folder.join("freehold"), load: folder.join("oracle-load") })
}

/// Packs the guest's initramfs into `folder`, and says where it is.
///
/// # Errors
/// [`Error::Missing`] when `workload` needs a program that this machine does not have.
pub fn pack(tools: &Tools, programs: &Programs, workload: &Workload, folder: &Path) -> Result<PathBuf, Error> {
    let staging = tempfile::tempdir_in(folder).map_err(on_file("create", folder))?;
    let root = staging.path();
    for name in ["bin", "workloads", "modules", "proc", "sys", "dev", "tmp", "scratch"] {
        fs::create_dir(root.join(name)).map_err(on_file("create", &root.join(name)))?;
    }
    let own = workspace::root().join("xtask/oracle");
    copy(&own.join("init.sh"), &root.join("init"))?;
    copy(&tools.busybox, &root.join("bin/busybox"))?;
    strip(&programs.freehold, &root.join("bin/freehold"))?;
    strip(&programs.load, &root.join("bin/load"))?;
    for workload in Workload::all()? {
        let name = format!("{}.sh", workload.name);
        copy(&Workload::folder().join(&name), &root.join("workloads").join(&name))?;
    }
    for module in MODULES {
        unpack_module(tools, module, &root.join("modules"))?;
    }
    for program in &workload.needs {
        carry(program, workload, root)?;
    }
    let archive = folder.join("initramfs.cpio");
    archive_folder(tools, root, &archive)?;
    Ok(archive)
}

/// Copies a program without its debugging sections: every byte lives in the guest's memory.
fn strip(from: &Path, to: &Path) -> Result<(), Error> {
    command::run(Command::new("strip").arg("-o").arg(to).arg(from))
}

/// Takes a program of this machine along, with the dynamic libraries it loads.
fn carry(program: &str, workload: &Workload, root: &Path) -> Result<(), Error> {
    let file = on_path(program).ok_or_else(|| {
        let name = &workload.name;
        Error::Missing(format!("the workload {name} needs `{program}`: install the Debian package {program}"))
    })?;
    let loaded = command::text(Command::new("ldd").arg(&file))?;
    copy(&file, &root.join("bin").join(program))?;
    for library in libraries(&loaded) {
        let to = root.join(library.trim_start_matches('/'));
        let folder = to.parent().expect("a library lies in a folder");
        fs::create_dir_all(folder).map_err(on_file("create", folder))?;
        copy(Path::new(library), &to)?;
    }
    Ok(())
}

/// The files that `ldd` names: each line ends in `PATH (ADDRESS)`.
fn libraries(loaded: &str) -> impl Iterator<Item = &str> {
    loaded.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    fs::copy(from, to).map_err(on_file("read", from))?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).map_err(on_file("write", to))
}

fn unpack_module(tools: &Tools, module: &str, folder: &Path) -> Result<(), Error> {
    let packed = tools.modules.join("kernel").join(module);
    let name = packed.file_stem().expect("modules are named after themselves");
    let bytes = command::output(Command::new(&tools.busybox).arg("xzcat").arg(&packed))?;
    let to = folder.join(name);
    fs::write(&to, bytes).map_err(on_file("write", &to))
}

/// Archives everything below `root` in the format the kernel unpacks.
fn archive_folder(tools: &Tools, root: &Path, archive: &Path) -> Result<(), Error> {
    let mut names = String::new();
    list_below(root, Path::new(""), &mut names).map_err(on_file("read", root))?;
    let out = File::create(archive).map_err(on_file("create", archive))?;
    let mut cpio = Command::new(&tools.busybox);
    cpio.args(["cpio", "-o", "-H", "newc", "-R", "0:0"]).current_dir(root);
    cpio.stdin(Stdio::piped()).stdout(out).stderr(Stdio::null());
    let mut child = cpio.spawn().map_err(on_file("read", &tools.busybox))?;
    let mut stdin = child.stdin.take().expect("stdin is piped");
    stdin.write_all(names.as_bytes()).map_err(on_file("write", archive))?;
    drop(stdin);
    let status = child.wait().map_err(on_file("write", archive))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Command { command: command::line(&cpio), outcome: format!("failed ({status})") })
}

/// Lists what lies below `root`, folders before their contents, one name a line.
fn list_below(root: &Path, folder: &Path, names: &mut String) -> std::io::Result<()> {
    let mut entries = fs::read_dir(root.join(folder))?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = folder.join(entry.file_name());
        names.push_str(&name.to_string_lossy());
        names.push('\n');
        if entry.file_type()?.is_dir() {
            list_below(root, &name, names)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_ldd() {
        let loaded = "\tlinux-vdso.so.1 (0x1)\n\tlibm.so.6 => /lib/libm.so.6 (0x2)\n\t/lib64/ld.so.2 (0x3)\n";
        assert_eq!(libraries(loaded).collect::<Vec<_>>(), ["/lib/libm.so.6", "/lib64/ld.so.2"]);
    }

    #[test]
    fn folders_come_before_their_contents() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("bin")).unwrap();
        fs::write(root.path().join("bin/sh"), "").unwrap();
        fs::write(root.path().join("init"), "").unwrap();
        let mut names = String::new();
        list_below(root.path(), Path::new(""), &mut names).unwrap();
        assert_eq!(names, "bin\nbin/sh\ninit\n");
    }
}
