//! The folder that pages of findings are written to.

use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::output;

/// Whether the folder is there or can be made: before anything is measured, because afterwards is late to hear that it
/// cannot be. Leaves nothing behind, in case the measurement is interrupted.
///
/// # Errors
/// When it cannot be made.
pub fn try_folder(folder: &Path) -> Result<(), Error> {
    if make_folder(folder)? {
        fs::remove_dir(folder).map_err(|source| Error::Write { path: folder.to_path_buf(), source })?;
    }
    Ok(())
}

/// Writes pages of these names and texts, each whole or not at all, and the folder if it is missing.
///
/// # Errors
/// When one cannot be written.
pub fn write_pages<'p>(folder: &Path, pages: impl IntoIterator<Item = (&'p str, &'p str)>) -> Result<(), Error> {
    make_folder(folder)?;
    pages.into_iter().try_for_each(|(name, text)| output::write_atomically(&folder.join(name), text.as_bytes()))
}

/// Makes the folder, if only it is missing. Returns whether it was.
fn make_folder(folder: &Path) -> Result<bool, Error> {
    match fs::create_dir(folder) {
        Ok(()) => Ok(true),
        Err(_) if folder.is_dir() => Ok(false),
        Err(source) => Err(Error::Write { path: folder.to_path_buf(), source }),
    }
}
