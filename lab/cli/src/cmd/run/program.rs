//! The program that is to be run: reasons for which it keeps its own malloc, read from its file.
//!
//! The file is found as `execvp` finds it, and the interpreter of a script in its place. Only the ELF headers, the
//! dynamic section, the dynamic symbols, the mode and the attribute of capabilities are read. A file that cannot be
//! read gives no reason: the system reports why it cannot be run.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

use object::elf::ELFMAG;
use rustix::fs::getxattr;
use rustix::process::{getegid, geteuid};

use super::image;
use super::obstacle::Obstacle;

/// Bytes of a file that contain its class and processor, or the interpreter of a script.
const HEAD: usize = 256;
/// Position of the class in an ELF header, and of the processor.
const CLASS: usize = 4;
const MACHINE: std::ops::Range<usize> = 18..20;
/// Bits of a file's mode. linux: include/uapi/linux/stat.h
const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2010;
/// Attribute with the capabilities that a file's program gets. linux: include/uapi/linux/xattr.h
const CAPABILITIES: &str = "security.capability";

/// Returns the reason for which a program keeps its own malloc, if its file gives one.
pub(super) fn find_obstacle(program: &OsStr) -> Option<Obstacle> {
    let path = find(program)?;
    let head = Head::read(&path)?;
    if let Some(interpreter) = head.interpreter() {
        return examine(&interpreter, &Head::read(&interpreter)?);
    }
    examine(&path, &head)
}

/// Searches a program as `execvp` does.
fn find(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(program.into());
    }
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.mode() & 0o111 != 0)
}

/// First bytes of a file.
struct Head(Vec<u8>);

impl Head {
    fn read(path: &Path) -> Option<Head> {
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(HEAD as u64).read_to_end(&mut bytes).ok()?;
        Some(Head(bytes))
    }

    /// Returns the interpreter of a script.
    fn interpreter(&self) -> Option<PathBuf> {
        let line = self.0.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
        let word = line.split(|byte| b" \t".contains(byte)).find(|word| !word.is_empty())?;
        Some(OsStr::from_bytes(word).into())
    }

    /// Returns the class and the processor; `None` if the file is not ELF.
    fn kind(&self) -> Option<(u8, &[u8])> {
        self.0.starts_with(&ELFMAG).then(|| Some((*self.0.get(CLASS)?, self.0.get(MACHINE)?)))?
    }
}

fn examine(path: &Path, head: &Head) -> Option<Obstacle> {
    let (class, processor) = head.kind()?;
    let own = Head::read(Path::new("/proc/self/exe"))?;
    let (own_class, own_processor) = own.kind()?;
    if class != own_class {
        return Some(Obstacle::Width);
    }
    if processor != own_processor {
        return Some(Obstacle::Processor);
    }
    let file = File::open(path).ok()?;
    let gets_rights = gets_rights(path, &file.metadata().ok()?);
    let obstacle = image::find_obstacle(file).ok()?;
    if gets_rights && obstacle != Some(Obstacle::Static) { Some(Obstacle::Rights) } else { obstacle }
}

/// Returns whether the program runs with rights that its user does not have. linux: fs/exec.c:bprm_fill_uid
fn gets_rights(path: &Path, file: &Metadata) -> bool {
    let user = file.mode() & SET_USER == SET_USER && file.uid() != geteuid().as_raw();
    let group = file.mode() & SET_GROUP == SET_GROUP && file.gid() != getegid().as_raw();
    let has_capabilities = !geteuid().is_root() && getxattr(path, CAPABILITIES, &mut [0_u8; 64]).is_ok();
    user || group || has_capabilities
}
