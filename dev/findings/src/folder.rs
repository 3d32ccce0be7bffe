//! The folder that pages of findings are written to.

use std::fs;
use std::path::Path;

use freehold_report::output::{self, OutputError};

use crate::Page;
use crate::error::Error;

/// Whether pages of these names can be written to the folder, which is there or can be made: before anything is
/// measured, because afterwards is late to hear that it cannot be. Leaves nothing behind, in case
/// the measurement is interrupted.
///
/// # Errors
/// When one of them cannot be made.
pub(crate) fn try_pages<'p>(folder: &Path, names: impl IntoIterator<Item = &'p str>) -> Result<(), Error> {
    let is_new = make_folder(folder)?;
    let tried = names.into_iter().try_for_each(|name| output::try_file(&folder.join(name)));
    if is_new {
        fs::remove_dir(folder).map_err(|source| OutputError::Write { path: folder.to_path_buf(), source })?;
    }
    Ok(tried?)
}

/// Writes these pages, each whole or not at all, and the folder if it is missing.
///
/// # Errors
/// When one cannot be written.
pub(crate) fn write_pages(folder: &Path, pages: &[Page]) -> Result<(), Error> {
    make_folder(folder)?;
    for Page { name, text } in pages {
        let parent = folder.join(name).parent().map(Path::to_path_buf).unwrap_or_default();
        fs::create_dir_all(&parent).map_err(|source| OutputError::Write { path: parent, source })?;
        output::write_atomically(&folder.join(name), text.as_bytes())?;
    }
    Ok(())
}

/// Makes the folder, if only it is missing. Returns whether it was.
fn make_folder(folder: &Path) -> Result<bool, Error> {
    match fs::create_dir(folder) {
        Ok(()) => Ok(true),
        Err(_) if folder.is_dir() => Ok(false),
        Err(source) => Err(OutputError::Write { path: folder.to_path_buf(), source }.into()),
    }
}
