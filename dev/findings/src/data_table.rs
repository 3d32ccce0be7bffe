//! Tables of the pages, rendered as Markdown on the page and as CSV in a separate file.

use freehold_report::number;
use freehold_report::report::markdown::format_table;
use freehold_report::report::{Column, Table, Value};
use freehold_sim::measure::Unit;
use freehold_sim::report::measures::Measure;

/// Table whose cells are text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DataTable {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl DataTable {
    /// Creates a table with these column titles.
    pub(crate) fn new(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> DataTable {
        let header = header.iter().map(|&title| title.to_owned()).collect();
        DataTable { header, rows: rows.into_iter().collect() }
    }

    /// Renders the table in the Markdown of all reports.
    pub(crate) fn to_markdown(&self) -> String {
        let columns = self.header.iter().map(|title| Column::words(title.clone())).collect();
        format_table(&Table::new(
            "",
            columns,
            self.rows.iter().map(|row| row.iter().map(Value::text).collect::<Vec<_>>()),
        ))
    }

    /// Renders the table as CSV: a line of titles, and a line for each row.
    pub(crate) fn to_csv(&self) -> String {
        let mut text = String::new();
        for row in [&self.header].into_iter().chain(&self.rows) {
            let cells: Vec<String> = row.iter().map(|cell| quote(cell)).collect();
            text += &cells.join(",");
            text.push('\n');
        }
        text
    }

    /// Returns the cells of the first column with a title; none if there is no such column.
    pub(crate) fn column(&self, title: &str) -> impl Iterator<Item = &str> {
        let at = self.header.iter().position(|known| known == title);
        self.rows.iter().filter_map(move |row| row.get(at?).map(String::as_str))
    }

    /// Returns the titles of all columns.
    pub(crate) fn titles(&self) -> &[String] {
        &self.header
    }

    /// Returns a table of the rows whose cell in a column is `value`.
    pub(crate) fn filter(&self, title: &str, value: &str) -> DataTable {
        let rows = self.rows.iter().zip(self.column(title)).filter(|(_, cell)| *cell == value);
        DataTable { header: self.header.clone(), rows: rows.map(|(row, _)| row.clone()).collect() }
    }

    /// Reads a table written by [`DataTable::to_csv`]. Cells must not contain line ends.
    pub(crate) fn from_csv(text: &str) -> DataTable {
        let mut rows: Vec<Vec<String>> = text.lines().map(split_line).collect();
        let header = if rows.is_empty() { Vec::new() } else { rows.remove(0) };
        DataTable { header, rows }
    }

    /// Returns the titles and the cells.
    #[cfg(test)]
    pub(crate) fn cells(&self) -> impl Iterator<Item = &str> {
        self.header.iter().chain(self.rows.iter().flatten()).map(String::as_str)
    }
}

/// Formats a cell of CSV, in quotes if necessary.
fn quote(cell: &str) -> String {
    if cell.contains([',', '"']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}

/// Splits a line of CSV into cells.
fn split_line(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let cell = cells.last_mut().expect("there is a cell from the start");
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            letter => cell.push(letter),
        }
    }
    cells
}

/// Formats a difference computed by `judge::difference`: in points for shares, relative for other units.
pub(crate) fn difference_text(measure: &Measure, difference: f64) -> String {
    match measure.unit {
        Unit::Share => format!("{:+.1} points", difference * 100.0),
        _ if difference.is_infinite() => "from none".to_owned(),
        _ => number::change(Some(difference)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_round_trips() {
        let rows = [vec!["1,5".to_owned(), "a \"b\"".to_owned()], vec![String::new(), "c".to_owned()]];
        let table = DataTable::new(&["x", "y, z"], rows);
        assert_eq!(table.to_csv(), "x,\"y, z\"\n\"1,5\",\"a \"\"b\"\"\"\n,c\n");
        assert_eq!(DataTable::from_csv(&table.to_csv()), table);
    }
}
