//! Tables whose cells are text, rendered as Markdown on a page and as CSV in a data file.

use std::io;

use crate::report::markdown::format_table;
use crate::report::{Column, Table, Value};

/// Table whose cells are text. Line ends in cells become spaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataTable {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl DataTable {
    /// Creates a table with these column titles.
    pub fn new<T: ToString>(
        header: impl IntoIterator<Item = T>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> DataTable {
        let header = header.into_iter().map(|title| title.to_string()).collect();
        let rows = rows.into_iter().map(|row| row.into_iter().map(|cell| cell.replace('\n', " ")).collect());
        DataTable { header, rows: rows.collect() }
    }

    /// Renders the table in the Markdown of all reports.
    pub fn to_markdown(&self) -> String {
        let columns = self.header.iter().map(|title| Column::words(title.clone())).collect();
        let rows = self.rows.iter().map(|row| row.iter().map(Value::text).collect::<Vec<_>>());
        format_table(&Table::new("", columns, rows))
    }

    /// Renders the table as CSV: a line of titles, and a line for each row. Lines end with a newline.
    ///
    /// # Panics
    /// If a row has more or fewer cells than there are titles.
    pub fn to_csv(&self) -> String {
        let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(Vec::new());
        for row in [&self.header].into_iter().chain(&self.rows) {
            writer.write_record(row).expect("each row has a cell for each title");
        }
        let bytes = writer.into_inner().expect("a write to memory cannot fail");
        String::from_utf8(bytes).expect("the cells are text")
    }

    /// Reads a table from CSV.
    ///
    /// # Errors
    /// Returns an error if the text is not CSV, or if a row has more or fewer cells than there are titles.
    pub fn from_csv(text: &str) -> io::Result<DataTable> {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
        let mut rows = reader.deserialize().collect::<Result<Vec<Vec<String>>, csv::Error>>()?.into_iter();
        Ok(DataTable { header: rows.next().unwrap_or_default(), rows: rows.collect() })
    }

    /// Returns the cells of the first column with a title; none if there is no such column.
    pub fn column(&self, title: &str) -> impl Iterator<Item = &str> {
        let at = self.header.iter().position(|known| known == title);
        self.rows.iter().filter_map(move |row| row.get(at?).map(String::as_str))
    }

    /// Returns the titles of all columns.
    pub fn titles(&self) -> &[String] {
        &self.header
    }

    /// Returns a table of the rows whose cell in a column is `value`.
    #[must_use]
    pub fn filter(&self, title: &str, value: &str) -> DataTable {
        let rows = self.rows.iter().zip(self.column(title)).filter(|(_, cell)| *cell == value);
        DataTable { header: self.header.clone(), rows: rows.map(|(row, _)| row.clone()).collect() }
    }

    /// Returns the titles and the cells.
    pub fn cells(&self) -> impl Iterator<Item = &str> {
        self.header.iter().chain(self.rows.iter().flatten()).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_round_trips() {
        let rows = [vec!["1,5".to_owned(), "a \"b\"".to_owned()], vec![String::new(), "c".to_owned()]];
        let table = DataTable::new(["x", "y, z"], rows);
        assert_eq!(table.to_csv(), "x,\"y, z\"\n\"1,5\",\"a \"\"b\"\"\"\n,c\n");
        assert_eq!(DataTable::from_csv(&table.to_csv()).unwrap(), table);
    }

    #[test]
    fn cells_with_commas_are_quoted() {
        let table = DataTable::new(["x", "y"], [vec!["1,500".to_owned(), "a \"b\"\nc".to_owned()]]);
        assert_eq!(table.to_csv(), "x,y\n\"1,500\",\"a \"\"b\"\" c\"\n");
    }

    #[test]
    fn row_of_another_length_is_an_error() {
        assert!(DataTable::from_csv("x,y\n1\n").is_err());
    }
}
