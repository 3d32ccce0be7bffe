//! Tables of the pages docs/fidelity.md, docs/findings/kernels.md and docs/findings/advice.md. People write the pages; the program writes the
//! tables as CSV files, or prints them.

use std::fs;
use std::path::Path;

use freehold_report::output::{self, OutputError};
use freehold_report::{markdown, origin};

use crate::Args;
use crate::error::Error;

/// Table whose cells are text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TextTable {
    /// Name of its file, without the extension.
    name: &'static str,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// Creates a table with these column titles.
    pub(crate) fn new<T: ToString>(
        name: &'static str,
        header: impl IntoIterator<Item = T>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> TextTable {
        let header = header.into_iter().map(|title| title.to_string()).collect();
        TextTable { name, header, rows: rows.into_iter().collect() }
    }

    /// Creates the table of the command and the version of the program.
    pub(crate) fn recipe(command: &str) -> TextTable {
        let rows = [("command", format!("`{command}`")), ("freehold", origin::Program::this().version())];
        TextTable::new("recipe", ["item", "value"], rows.map(|(item, value)| vec![item.to_owned(), value]))
    }

    /// Creates the table of loads without results, each with the reason.
    pub(crate) fn failures(failed: impl IntoIterator<Item = (String, String)>) -> TextTable {
        TextTable::new("failed", ["name", "reason"], failed.into_iter().map(|(name, reason)| vec![name, reason]))
    }

    fn to_csv(&self) -> String {
        let mut text = String::new();
        for row in [&self.header].into_iter().chain(&self.rows) {
            text += &row.iter().map(|cell| quote(cell)).collect::<Vec<_>>().join(",");
            text.push('\n');
        }
        text
    }

    fn to_markdown(&self) -> String {
        let header: Vec<&str> = self.header.iter().map(String::as_str).collect();
        format!("## {}\n\n{}\n", self.name, markdown::table(&header, self.rows.iter().cloned()))
    }
}

/// Formats a cell of CSV, in quotes if necessary. Line ends become spaces.
fn quote(cell: &str) -> String {
    let cell = cell.replace('\n', " ");
    if cell.contains([',', '"']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

/// Writes the tables as CSV to the folder in `args`, or prints them.
///
/// # Errors
/// Returns an error if a table cannot be written.
pub(crate) fn emit(args: &Args, tables: &[TextTable]) -> Result<(), Error> {
    match &args.out {
        Some(folder) => tables.iter().try_for_each(|table| write(folder, table)),
        None => Ok(output::print(tables.iter().map(TextTable::to_markdown).collect::<Vec<_>>().join("\n").as_bytes())?),
    }
}

fn write(folder: &Path, table: &TextTable) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|source| OutputError::Write { path: folder.to_owned(), source })?;
    Ok(output::write_atomically(&folder.join(table.name).with_extension("csv"), table.to_csv().as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_commas_are_quoted() {
        let table = TextTable::new("some", ["x", "y"], [vec!["1,500".to_owned(), "a \"b\"\nc".to_owned()]]);
        assert_eq!(table.to_csv(), "x,y\n\"1,500\",\"a \"\"b\"\" c\"\n");
    }
}
