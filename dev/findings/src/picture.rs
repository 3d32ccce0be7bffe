//! Picture of a page, drawn from its tables.
//!
//! The line `<!-- plot: NAME WORDS, NAME WORDS -->` names the tables, and the file is `PAGE.svg` beside the page. A
//! test of the program draws every picture from the data files and compares it with the file, so that a picture never
//! differs from the tables.

use freehold_report::report::plot::{self, Plot};

use crate::Page;
use crate::regions::{self, Region};
use freehold_report::data_table::DataTable;

/// Picture of a page.
pub(crate) struct Picture {
    /// Title above the plots.
    pub(crate) title: &'static str,
    /// Function that returns the plots of one table.
    pub(crate) plots: fn(&DataTable) -> Vec<Plot>,
}

impl Picture {
    /// Draws the tables that the plot region of a page names.
    ///
    /// # Panics
    /// Panics if the page names a table for which `make` returns `None`. Pages are constants, and tests check them.
    pub(crate) fn draw(&self, name: &str, page: &str, make: impl Fn(&Region) -> Option<DataTable>) -> Page {
        let tables = regions::plotted(page).into_iter().map(|region| {
            make(&region).unwrap_or_else(|| panic!("the picture needs {region:?}, which does not exist"))
        });
        let plots: Vec<Plot> = tables.flat_map(|table| (self.plots)(&table)).collect();
        Page { name: format!("{name}.svg"), text: plot::svg(self.title, &plots) }
    }
}

/// Returns a point for each row of a table: the number of the row, and the value in a column.
pub(crate) fn points_by_row(table: &DataTable, column: &str) -> Vec<(f64, f64)> {
    let values = table.column(column).enumerate().filter_map(|(row, cell)| Some((row as f64, value(cell)?)));
    values.collect()
}

/// Returns the points whose places and values are in two columns of a table.
pub(crate) fn points(table: &DataTable, along: &str, column: &str) -> Vec<(f64, f64)> {
    let cells = table.column(along).zip(table.column(column));
    cells.filter_map(|(place, cell)| Some((value(place)?, value(cell)?))).collect()
}

/// Returns the first number of a cell; a percentage as a share.
fn value(cell: &str) -> Option<f64> {
    let mut words = cell.split_whitespace();
    let number: f64 = words.next()?.replace(',', "").parse().ok()?;
    Some(if words.next() == Some("%") { number / 100.0 } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_values() {
        assert_eq!(
            ["1,673", "25.0 %", "0.0 % (0.0 % to 4.2 %)", "-"].map(value),
            [Some(1673.0), Some(0.25), Some(0.0), None]
        );
    }
}
