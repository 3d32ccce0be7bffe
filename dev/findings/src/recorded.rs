//! Pages whose data files another command wrote: `cargo xtask oracle`.

use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::{Args, FOLDER, Page, page_file, regions};
use freehold_report::data_table::DataTable;

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
        let table = read_table(&regions::data_file(name, region)).map_err(|error| failed = Some(error));
        Some(table.unwrap_or_default())
    });
    if let Some(error) = failed {
        return Err(error);
    }
    Ok(Page { name: page_file(name, args), ..files.swap_remove(0) })
}

/// Reads a data file of the folder of the pages.
///
/// # Errors
/// Returns an error if the file cannot be read, or is not a table.
pub(crate) fn read_table(file: &str) -> Result<DataTable, Error> {
    DataTable::from_csv(&read(file)?).map_err(|error| Error::Input(format!("{file}: {error}")))
}

/// Reads a file of the folder of the pages.
fn read(file: &str) -> Result<String, Error> {
    let path = Path::new(FOLDER).join(file);
    fs::read_to_string(&path).map_err(|error| Error::Input(format!("cannot read {}: {error}", path.display())))
}
