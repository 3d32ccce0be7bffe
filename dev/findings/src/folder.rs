//! Folder that receives the pages of findings.

use std::fs;
use std::path::Path;

use freehold_report::output::{self, OutputError};

use crate::Page;
use crate::error::Error;

/// Checks that files with these names can be written to the folder, which exists or can be created.
///
/// This runs before the measurements, so that an error is reported at once and not after hours. It leaves no files
/// behind, in case the measurement is interrupted.
///
/// # Errors
/// Returns an error if a file or the folder cannot be created.
pub(crate) fn try_pages<'p>(folder: &Path, names: impl IntoIterator<Item = &'p str>) -> Result<(), Error> {
    let is_new = make_folder(folder)?;
    let tried = names.into_iter().try_for_each(|name| output::try_file(&folder.join(name)));
    if is_new {
        fs::remove_dir(folder).map_err(|source| OutputError::Write { path: folder.to_path_buf(), source })?;
    }
    Ok(tried?)
}

/// Writes these pages, each completely or not at all. Creates the folder if it is missing.
///
/// # Errors
/// Returns an error if a page cannot be written.
pub(crate) fn write_pages(folder: &Path, pages: &[Page]) -> Result<(), Error> {
    make_folder(folder)?;
    for Page { name, text } in pages {
        let parent = folder.join(name).parent().map(Path::to_path_buf).unwrap_or_default();
        fs::create_dir_all(&parent).map_err(|source| OutputError::Write { path: parent, source })?;
        output::write_atomically(&folder.join(name), text.as_bytes())?;
    }
    Ok(())
}

/// Creates the folder if it is missing but its parent exists. Returns whether it was missing.
fn make_folder(folder: &Path) -> Result<bool, Error> {
    match fs::create_dir(folder) {
        Ok(()) => Ok(true),
        Err(_) if folder.is_dir() => Ok(false),
        Err(source) => Err(OutputError::Write { path: folder.to_path_buf(), source }.into()),
    }
}
