//! Pages whose data files another command wrote: `cargo xtask oracle`.

use std::fs;
use std::path::Path;

use crate::data_table::DataTable;
use crate::error::Error;
use crate::{Args, FOLDER, Page, page_file, regions};

/// Name of the page that is not in the folder of the pages.
pub(crate) const FIDELITY: &str = "fidelity";
/// Names of all such pages.
pub(crate) const PAGES: [&str; 3] = ["advice", "kernels", FIDELITY];

/// Returns the page with the tables of its data files in docs/findings/data.
///
/// # Errors
/// Returns an error if the page or a data file cannot be read.
pub(crate) fn refresh(name: &str, args: &Args) -> Result<Page, Error> {
    let path = if name == FIDELITY { format!("../{name}.md") } else { format!("{name}.md") };
    let page = read(&path)?;
    let mut failed = None;
    let mut files = regions::fill(name, &page, |region| {
        let text = read(&regions::data_file(name, region)).map_err(|error| failed = Some(error)).unwrap_or_default();
        Some(DataTable::from_csv(&text))
    });
    if let Some(error) = failed {
        return Err(error);
    }
    Ok(Page { name: page_file(name, args), ..files.swap_remove(0) })
}

/// Reads a file of the folder of the pages.
fn read(file: &str) -> Result<String, Error> {
    let path = Path::new(FOLDER).join(file);
    fs::read_to_string(&path).map_err(|error| Error::Input(format!("cannot read {}: {error}", path.display())))
}
