//! Writes the copy: the packages that are needed, with every drawn mutant in the library's sources.
//!
//! The copy is a workspace of its own below the build folder. A file is written only if it changes, so that cargo does
//! not rebuild unchanged mutants.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::render::{self, Stretch};
use super::runtime;
use super::site::{Edit, Site};
use super::source::Source;
use super::subject::Subject;
use crate::error::{Error, on_file};
use crate::workspace;

/// Sites in the copy: stretches of files, by the file's path from the copy's root.
pub(crate) type Places = BTreeMap<String, Vec<Stretch>>;

/// Writes the copy with these mutants, given by number.
///
/// # Errors
/// Returns an error if a file cannot be read or written.
pub(crate) fn write(subject: &Subject, sources: &[Source], mutants: &BTreeMap<u32, &Site>) -> Result<Places, Error> {
    let (mut wanted, mut places) = (BTreeMap::new(), Places::new());
    let members = workspace::with_dependencies(&subject.root, subject.members)?;
    for member in &members {
        take(subject, Path::new(member), &mut wanted)?;
    }
    for source in sources {
        let edits: Vec<(u32, &Edit)> = of_file(&source.file, mutants).collect();
        let mut rendered = render::render(&source.text, &edits);
        if source.file == subject.library {
            rendered.text = format!("{}{}{}", runtime::FEATURES, rendered.text, runtime::DECLARATION);
            for placed in &mut rendered.placed {
                placed.range.start += runtime::FEATURES.len();
                placed.range.end += runtime::FEATURES.len();
            }
        }
        wanted.insert(PathBuf::from(&source.file), rendered.text.into_bytes());
        places.insert(source.file.clone(), rendered.placed);
    }
    let count = mutants.keys().max().map_or(1, |most| *most as usize + 1);
    wanted.insert(subject.sources().join("mutant.rs"), runtime::module(count).into_bytes());
    wanted.insert(PathBuf::from("Cargo.toml"), workspace::manifest_of(&subject.root, &members)?.into_bytes());
    // A test compares an example with `docs/kernel.md`.
    for file in ["Cargo.lock", "rust-toolchain.toml", "docs/kernel.md"] {
        let path = subject.root.join(file);
        if path.is_file() {
            wanted.insert(PathBuf::from(file), fs::read(&path).map_err(on_file("read", &path))?);
        }
    }
    put(&subject.copy(), &wanted)?;
    Ok(places)
}

/// Returns the edits of one file, with the numbers of their mutants.
fn of_file<'m>(file: &'m str, mutants: &'m BTreeMap<u32, &Site>) -> impl Iterator<Item = (u32, &'m Edit)> {
    mutants.iter().flat_map(move |(id, site)| {
        site.edits.iter().filter(move |edit| edit.file == file).map(move |edit| (*id, edit))
    })
}

/// Reads all files below a folder, except tests that are left out and build folders.
fn take(subject: &Subject, folder: &Path, wanted: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<(), Error> {
    for file in list_files(&subject.root.join(folder))? {
        let Some(name) = file.file_name() else { continue };
        let short = folder.join(name);
        let text = format!("{}{}", short.display(), if file.is_dir() { "/" } else { "" });
        let is_left_out = subject.left_out.iter().any(|begin| text.starts_with(begin));
        if name == "target" || is_left_out {
            continue;
        }
        if file.is_dir() {
            take(subject, &short, wanted)?;
        } else {
            wanted.insert(short, fs::read(&file).map_err(on_file("read", &file))?);
        }
    }
    Ok(())
}

fn list_files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(folder).map_err(on_file("read", folder))?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(on_file("read", folder))).collect()
}

/// Makes `root` contain exactly these files. An existing `Cargo.lock` stays as it is, because cargo may have removed
/// entries that the copy does not need.
fn put(root: &Path, wanted: &BTreeMap<PathBuf, Vec<u8>>) -> Result<(), Error> {
    for (file, bytes) in wanted {
        let path = root.join(file);
        let is_there = fs::read(&path).is_ok_and(|old| old == *bytes || file == Path::new("Cargo.lock"));
        if !is_there {
            let folder = path.parent().unwrap_or(root);
            fs::create_dir_all(folder).map_err(on_file("create", folder))?;
            fs::write(&path, bytes).map_err(on_file("write", &path))?;
        }
    }
    let wanted: BTreeSet<PathBuf> = wanted.keys().map(|file| root.join(file)).collect();
    remove_others(root, &wanted)
}

fn remove_others(folder: &Path, wanted: &BTreeSet<PathBuf>) -> Result<(), Error> {
    for path in list_files(folder)? {
        if path.is_dir() {
            remove_others(&path, wanted)?;
        } else if !wanted.contains(&path) {
            fs::remove_file(&path).map_err(on_file("remove", &path))?;
        }
    }
    Ok(())
}
