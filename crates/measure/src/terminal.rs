//! What the terminal can show: colour, width, line drawing.
//!
//! Text that goes to a file or a pipe is plain and as wide as it needs to be, so that `grep` and `awk`
//! find whole rows. Colour follows `--color`, then NO_COLOR, then whether stdout is a terminal.

use std::env;
use std::io::{self, IsTerminal};

use clap::ValueEnum;
use comfy_table::{Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, Width, presets};

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// When stdout is a terminal and NO_COLOR is not set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How text is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    colored: bool,
    terminal: bool,
}

/// What a cell means, for its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Nothing to point out.
    Plain,
    /// Good news.
    Good,
    /// Bad news.
    Bad,
    /// Of lesser importance.
    Faint,
}

/// How a column is aligned: words to the left, numbers to the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column<'a> {
    /// Words.
    Text(&'a str),
    /// Numbers.
    Number(&'a str),
}

impl Style {
    /// No colour, no terminal: what files get.
    pub const PLAIN: Style = Style { colored: false, terminal: false };

    /// The style for stdout.
    pub fn of_stdout(choice: ColorChoice) -> Style {
        let terminal = io::stdout().is_terminal();
        let colored = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => terminal && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        Style { colored, terminal }
    }

    /// An empty table with these columns.
    pub fn table(self, columns: &[Column]) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(if self.terminal {
            ContentArrangement::Dynamic
        } else {
            ContentArrangement::Disabled
        });
        if self.colored {
            table.enforce_styling();
        } else if !self.terminal {
            table.force_no_tty();
        }
        table.set_header(columns.iter().map(|column| self.header(*column)));
        for (index, column) in columns.iter().enumerate() {
            let Some(shown) = table.column_mut(index) else { continue };
            shown.set_padding((0, 2));
            if let Column::Number(_) = column {
                shown.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }

    /// A cell in a tone.
    pub fn cell(self, text: impl ToString, tone: Tone) -> Cell {
        let cell = Cell::new(text);
        match (self.colored, tone) {
            (false, _) | (true, Tone::Plain) => cell,
            (true, Tone::Good) => cell.fg(Color::Green),
            (true, Tone::Bad) => cell.fg(Color::Red),
            (true, Tone::Faint) => cell.add_attribute(Attribute::Dim),
        }
    }

    /// A section's heading, on a line of its own.
    pub fn heading(self, text: &str) -> String {
        if self.colored { format!("\u{1b}[1m{text}\u{1b}[0m\n") } else { format!("{text}\n") }
    }

    fn header(self, column: Column) -> Cell {
        let (Column::Text(title) | Column::Number(title)) = column;
        self.cell(title, Tone::Faint)
    }
}

/// The table's text, ended by a newline and without blanks at the ends of lines.
pub fn table_text(table: &Table) -> String {
    let mut text = with_whole_words(table.clone()).trim_fmt();
    text.push('\n');
    text
}

/// The table with columns too wide to break a word, if the terminal has room for that.
fn with_whole_words(mut table: Table) -> Table {
    let longest_word = |cell: &Cell| cell.content().split_whitespace().map(|word| word.chars().count()).max();
    let width_min = |column: &comfy_table::Column| {
        let cells = table.column_cells_with_header_iter(column.index).flatten();
        cells.filter_map(longest_word).max().unwrap_or(0) + usize::from(column.padding_width())
    };
    let widths: Vec<usize> = table.column_iter().map(width_min).collect();
    let is_room = table.width().is_some_and(|width| widths.iter().sum::<usize>() <= usize::from(width));
    if is_room {
        table.set_constraints(
            widths.into_iter().map(|width| ColumnConstraint::LowerBoundary(Width::Fixed(width as u16))),
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole_where_there_is_room() {
        let style = Style { colored: false, terminal: true };
        let table = |width| {
            let mut table = style.table(&["a", "b", "c", "d", "e"].map(Column::Text));
            table.set_width(width);
            let words = "it is so and not so";
            table.add_row([words, words, words, words, "undecided and undecided"]);
            table
        };
        let (roomy, narrow) = (table(45), table(20));
        assert!(!roomy.trim_fmt().contains("undecided"), "by itself the library gives every column the same room");
        let text = table_text(&roomy);
        assert!(text.contains("undecided") && text.lines().all(|line| line.len() <= 45), "{text}");
        assert!(table_text(&narrow).lines().all(|line| line.len() <= 20), "{}", table_text(&narrow));
    }
}
