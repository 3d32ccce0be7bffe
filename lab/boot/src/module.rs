//! Freehold's kernel module, built for one kernel: it makes requests that user space cannot make.
//!
//! Workloads with a line `# needs: module` use it. The kernel's own makefiles build the module with this machine's `gcc`
//! and `make`. For a kernel that [`crate::Store`] fetched, Debian's headers of its release are fetched into a folder
//! beside it. The result is kept there together with its source, and is built again only when the source has changed.
//! For an image in the folder of its build, the module is built from the files of this build, once for each process.
//!
//! Debian's headers may be built with a newer compiler and a newer C library than this machine has. Options that only
//! the newer compiler knows are switched off; none of them changes the layout of a structure. Those programs among the
//! headers that are linked against the C library run with a copy of the library beside them.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::debian::{Debian, Headers};
use crate::error::{Error, on_file};
use crate::host;
use crate::kernel::Kernel;

/// Name of the module, also in the guest.
pub(crate) const NAME: &str = "freehold_load";
/// Source of the module, and the makefile that the kernel's makefiles read.
const SOURCES: [(&str, &str); 2] =
    [("freehold_load.c", include_str!("../module/freehold_load.c")), ("Makefile", include_str!("../module/Makefile"))];
/// Programs among the headers that need the C library beside them.
const WRAPPED: [&str; 2] = ["scripts/mod/modpost.real-lsb-64", "tools/objtool/objtool.real-x86"];
/// Script that runs such a program with the library beside it. Both are in folders of Debian's packages.
const WRAPPER: &str = r#"#!/bin/sh
libraries=$(dirname "$0")/../../../x86_64-linux-gnu
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$0.elf" "$@"
"#;
/// Variables for make. They disable options that an older compiler lacks, and type information, which would need
/// another program.
const OVERRIDES: [&str; 5] =
    ["CC=gcc", "HOSTCC=gcc", "KCFLAGS=-w", "CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT=", "CONFIG_DEBUG_INFO_BTF_MODULES="];

/// Modules of this process by their kernel's image. If several boots run at once, the first one builds.
static BUILT: Mutex<BTreeMap<PathBuf, Vec<u8>>> = Mutex::new(BTreeMap::new());

/// Returns the module for `kernel`, and builds it first if it is missing or outdated. Slow steps are reported to `say`.
///
/// # Errors
/// [`Error::Missing`] if there are neither headers of this kernel nor a build of it, or if this machine cannot build.
pub(crate) fn obtain(kernel: &Kernel, say: &mut dyn FnMut(&str)) -> Result<Vec<u8>, Error> {
    let mut built = BUILT.lock().unwrap_or_else(|poison| poison.into_inner());
    if let Some(module) = built.get(&kernel.image) {
        return Ok(module.clone());
    }
    let module = match (kernel.packages_folder(), kernel.build_folder()) {
        (Some(packages), _) => by_headers(packages, &kernel.release, say)?,
        (None, Some(tree)) => by_tree(&tree, &kernel.release, say)?,
        (None, None) => return Err(no_files(&kernel.release)),
    };
    built.insert(kernel.image.clone(), module.clone());
    Ok(module)
}

/// Returns the error for an image without the files that a module is built from.
fn no_files(release: &str) -> Error {
    let advice = "give the version of a Debian kernel, or the image in the folder in which the kernel was built";
    Error::Missing(format!(
        "the workload needs a module, and the files to build it for {release} are missing; {advice}"
    ))
}

/// Returns the module for a kernel of Debian that is unpacked in `packages`.
fn by_headers(packages: &Path, release: &str, say: &mut dyn FnMut(&str)) -> Result<Vec<u8>, Error> {
    let folder = packages.join("module");
    if !is_current(&folder) {
        find_compiler()?;
        let headers = fetch_headers(packages, release, say)?;
        say(&format!("building the module {NAME} for Linux {release}"));
        build_for_debian(&headers, release, &folder)?;
    }
    read(&folder.join(NAME).with_extension("ko"))
}

/// Returns the module for the kernel that was built in `tree`.
fn by_tree(tree: &Path, release: &str, say: &mut dyn FnMut(&str)) -> Result<Vec<u8>, Error> {
    find_compiler()?;
    if !tree.join("scripts/module.lds").is_file() {
        let tree = tree.display();
        return Err(Error::Missing(format!("{tree} cannot build modules yet; run `make modules_prepare` there")));
    }
    say(&format!("building the module {NAME} for Linux {release} from {}", tree.display()));
    let work = tempfile::tempdir().map_err(on_file("create", &env::temp_dir()))?;
    let mut command = make(work.path());
    // A build of the image alone has no list of exported symbols, which are then not checked here but in the guest.
    command.arg("-C").arg(tree).args(["KBUILD_MODPOST_WARN=1", "KCFLAGS=-w", "modules"]);
    read(&build(command, work.path(), release)?)
}

fn find_compiler() -> Result<(), Error> {
    ["gcc", "make"].into_iter().try_for_each(|program| host::find(program, program).map(drop))
}

fn read(file: &Path) -> Result<Vec<u8>, Error> {
    fs::read(file).map_err(on_file("read", file))
}

/// Returns whether the module in `folder` was built from the current source.
fn is_current(folder: &Path) -> bool {
    let is_same =
        SOURCES.iter().all(|(name, text)| fs::read(folder.join(name)).is_ok_and(|bytes| bytes == text.as_bytes()));
    is_same && folder.join(NAME).with_extension("ko").is_file()
}

/// Returns the folder of the release's headers, and fetches them first if it does not exist.
fn fetch_headers(packages: &Path, release: &str, say: &mut dyn FnMut(&str)) -> Result<PathBuf, Error> {
    let headers = packages.join("headers");
    let store = packages.parent().unwrap_or(packages);
    if !headers.is_dir() {
        say("reading Debian's package lists");
        let debian = Debian::read(&store.join(".apt"))?;
        let names = debian.headers(release)?;
        say(&format!("fetching the headers of Linux {release}"));
        let programs = Path::new("usr/lib").join(Headers::for_release(release)?.kbuild);
        debian.unpack(&names, &headers, |root| {
            WRAPPED.iter().try_for_each(|program| wrap(&root.join(&programs).join(program)))
        })?;
    }
    Ok(headers)
}

/// Replaces `program` by the wrapper.
fn wrap(program: &Path) -> Result<(), Error> {
    let mut real = program.as_os_str().to_owned();
    real.push(".elf");
    fs::rename(program, real).map_err(on_file("rename", program))?;
    fs::write(program, WRAPPER).map_err(on_file("write", program))?;
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).map_err(on_file("write", program))
}

/// Builds the module with these headers and moves it, with its source, to `folder`.
fn build_for_debian(headers: &Path, release: &str, folder: &Path) -> Result<(), Error> {
    let packages = folder.parent().unwrap_or(folder);
    let temporary = tempfile::tempdir_in(packages).map_err(on_file("create", packages))?;
    let (work, done) = (temporary.path().join("work"), temporary.path().join("done"));
    for place in [&work, &done] {
        fs::create_dir(place).map_err(on_file("create", place))?;
    }
    write_sources(&done)?;
    let built = build(make_with_headers(headers, release, &work)?, &work, release)?;
    let kept = done.join(NAME).with_extension("ko");
    fs::rename(&built, &kept).map_err(on_file("create", &kept))?;
    replace_folder(&done, folder)
}

fn write_sources(folder: &Path) -> Result<(), Error> {
    SOURCES.iter().try_for_each(|(name, text)| fs::write(folder.join(name), text).map_err(on_file("write", folder)))
}

/// Builds the module in `work` by `make`, and returns the file.
fn build(mut make: Command, work: &Path, release: &str) -> Result<PathBuf, Error> {
    write_sources(work)?;
    host::text(&mut make).map_err(|error| build_error(&error, release))?;
    let built = work.join(NAME).with_extension("ko");
    host::text(Command::new("strip").arg("--strip-debug").arg(&built))?;
    Ok(built)
}

/// Returns the command that builds in `work` by Debian's headers.
fn make_with_headers(headers: &Path, release: &str, work: &Path) -> Result<Command, Error> {
    let (sources, names) = (headers.join("usr/src"), Headers::for_release(release)?);
    let configured = sources.join(&names.configured);
    let mut command = make(work);
    command.arg("-C").arg(&configured);
    // The makefile in the configured headers refers to the common makefile by its path in an installation.
    command.arg("-f").arg(sources.join(&names.common).join("Makefile"));
    command.arg(format!("KBUILD_OUTPUT={}", configured.display()));
    command.args(OVERRIDES).arg("modules");
    Ok(command)
}

/// Returns a command of make for a module in `work`. Variables of a surrounding make do not affect it.
fn make(work: &Path) -> Command {
    let mut command = Command::new("make");
    command.arg("--silent").arg(format!("M={}", work.display()));
    command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").env("LC_ALL", "C");
    command
}

/// Returns the error for a failed build, with the first of its error lines.
fn build_error(error: &Error, release: &str) -> Error {
    let message = error.to_string();
    let first = message.lines().find(|line| line.contains("rror:") || line.contains("not found"));
    let reason = first.or(message.lines().next()).unwrap_or_default().trim();
    Error::Missing(format!("cannot build the module {NAME} for Linux {release} on this machine: {reason}"))
}

/// Moves the folder `from` to `to`, replacing an older one.
fn replace_folder(from: &Path, to: &Path) -> Result<(), Error> {
    if to.is_dir() {
        fs::remove_dir_all(to).map_err(on_file("remove", to))?;
    }
    fs::rename(from, to).map_err(on_file("create", to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_of_changed_sources_is_not_current() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_current(folder.path()));
        for (name, text) in SOURCES {
            fs::write(folder.path().join(name), text).unwrap();
        }
        assert!(!is_current(folder.path()));
        fs::write(folder.path().join("freehold_load.ko"), "module").unwrap();
        assert!(is_current(folder.path()));
        fs::write(folder.path().join("freehold_load.c"), "int x;").unwrap();
        assert!(!is_current(folder.path()));
    }

    #[test]
    fn build_without_prepared_modules_is_named() {
        let tree = tempfile::tempdir().unwrap();
        let sentence = by_tree(tree.path(), "6.12.9", &mut |_| {}).unwrap_err().to_string();
        assert!(sentence.ends_with("run `make modules_prepare` there"), "{sentence}");
    }

    #[test]
    fn wrapped_program_runs_by_its_loader() {
        let folder = tempfile::tempdir().unwrap();
        let (program, libraries) = (folder.path().join("kbuild/a/b/true"), folder.path().join("x86_64-linux-gnu"));
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::create_dir(&libraries).unwrap();
        fs::write(&program, "program").unwrap();
        let loader = libraries.join("ld-linux-x86-64.so.2");
        fs::write(&loader, "#!/bin/sh\necho \"$3 $4\"\n").unwrap();
        fs::set_permissions(&loader, fs::Permissions::from_mode(0o755)).unwrap();
        wrap(&program).unwrap();
        let printed = host::text(Command::new(&program).arg("word")).unwrap();
        assert_eq!(printed.trim(), format!("{}.elf word", program.display()));
    }

    #[test]
    fn build_error_reports_the_first_compiler_error() {
        let error = Error::Command {
            command: "make".to_owned(),
            outcome: "failed (exit status: 2): warning: old\ngcc: error: no such option\nmake: *** Error 1".to_owned(),
        };
        let sentence = build_error(&error, "6.12.9").to_string();
        assert!(sentence.ends_with("machine: gcc: error: no such option"), "{sentence}");
    }
}
