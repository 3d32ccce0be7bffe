//! What the terminal can show: colour, width, line drawing.
//!
//! Text that goes to a file or a pipe is plain and as wide as it needs to be, so that `grep` and `awk`
//! find whole rows. Colour follows `--color`, then NO_COLOR, then whether stdout is a terminal.

use std::env;
use std::io::{self, IsTerminal};

use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};

use crate::cli::ColorChoice;

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
    #[cfg(test)]
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
    let mut text = table.trim_fmt();
    text.push('\n');
    text
}
