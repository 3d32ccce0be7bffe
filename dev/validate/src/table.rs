//! Tables of the pages docs/fidelity.md, docs/findings/kernels.md and docs/findings/advice.md. People write the pages; the program writes the
//! tables as CSV files, or prints them.

use std::fs;
use std::path::Path;

use freehold_report::data_table::DataTable;
use freehold_report::origin;
use freehold_report::output::{self, OutputError};

use crate::Args;
use crate::error::Error;

/// Table with the name of its file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NamedTable {
    /// Name of its file, without the extension.
    name: &'static str,
    table: DataTable,
}

impl NamedTable {
    /// Creates a table with these column titles.
    pub(crate) fn new<T: ToString>(
        name: &'static str,
        header: impl IntoIterator<Item = T>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> NamedTable {
        NamedTable { name, table: DataTable::new(header, rows) }
    }

    /// Creates the table of the command and the version of the program.
    pub(crate) fn recipe(command: &str) -> NamedTable {
        let rows = [("command", format!("`{command}`")), ("freehold", origin::Program::this().version())];
        NamedTable::new("recipe", ["item", "value"], rows.map(|(item, value)| vec![item.to_owned(), value]))
    }

    /// Creates the table of loads without results, each with the reason.
    pub(crate) fn failures(failed: impl IntoIterator<Item = (String, String)>) -> NamedTable {
        NamedTable::new("failed", ["name", "reason"], failed.into_iter().map(|(name, reason)| vec![name, reason]))
    }

    fn to_markdown(&self) -> String {
        format!("## {}\n\n{}\n", self.name, self.table.to_markdown())
    }
}

/// Writes the tables as CSV to the folder in `args`, or prints them.
///
/// # Errors
/// Returns an error if a table cannot be written.
pub(crate) fn emit(args: &Args, tables: &[NamedTable]) -> Result<(), Error> {
    match &args.out {
        Some(folder) => tables.iter().try_for_each(|table| write(folder, table)),
        None => {
            Ok(output::print(tables.iter().map(NamedTable::to_markdown).collect::<Vec<_>>().join("\n").as_bytes())?)
        }
    }
}

fn write(folder: &Path, table: &NamedTable) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|source| OutputError::Write { path: folder.to_owned(), source })?;
    Ok(output::write_atomically(&folder.join(table.name).with_extension("csv"), table.table.to_csv().as_bytes())?)
}
