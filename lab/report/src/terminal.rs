//! Terminal output: colour, width, and tables.
//!
//! Output for a terminal is limited to its width. In a file or a pipe, tables have at most 120 columns and prose has 80.
//! COLUMNS, if it is set, replaces these widths. In a table that is too wide, words wrap first, numbers never do. If that
//! is not enough, every row is printed as several lines. Colour follows `--color`, then NO_COLOR, then whether stdout is
//! a terminal.

use std::borrow::Cow;
use std::env;
use std::io::{self, IsTerminal};

use clap::ValueEnum;
use comfy_table::{Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, Width, presets};
use freehold_stats::verdict::Verdict;

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

/// Colour and width of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    colored: bool,
    /// Columns of tables.
    table_width: u16,
    /// Columns of prose and pictures.
    prose_width: u16,
}

/// Columns of tables that do not go to a terminal.
const TABLE_WIDTH: u16 = 120;
/// Columns of prose that does not go to a terminal.
const PROSE_WIDTH: u16 = 80;
/// Columns of a terminal that does not report its width.
const USUAL_WIDTH: u16 = 80;

/// Meaning of a cell, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Neutral.
    Plain,
    /// An improvement.
    Good,
    /// A deterioration.
    Bad,
    /// Of lesser importance.
    Faint,
}

impl From<Verdict> for Tone {
    fn from(verdict: Verdict) -> Tone {
        match verdict {
            Verdict::Better => Tone::Good,
            Verdict::Worse => Tone::Bad,
            _ => Tone::Faint,
        }
    }
}

/// A column with its alignment: words to the left, numbers to the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column<'a> {
    /// Words.
    Text(&'a str),
    /// Numbers.
    Number(&'a str),
}

impl Style {
    /// Style of files: no colour and no terminal.
    pub const PLAIN: Style = Style { colored: false, table_width: TABLE_WIDTH, prose_width: PROSE_WIDTH };

    /// Returns the style of a terminal of this many columns, without colour.
    pub fn with_width(columns: u16) -> Style {
        Style { colored: false, table_width: columns, prose_width: columns }
    }

    /// Returns the style for stdout.
    pub fn for_stdout(choice: ColorChoice) -> Style {
        let terminal = io::stdout().is_terminal();
        let colored = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => terminal && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        let columns = columns_variable().or_else(|| terminal.then(measure_stdout));
        Style { colored, ..columns.map_or(Style::PLAIN, Style::with_width) }
    }

    /// Returns whether colours are shown.
    pub fn is_colored(self) -> bool {
        self.colored
    }

    /// Returns the width of pictures made of characters, in columns.
    pub fn width(self) -> usize {
        usize::from(self.prose_width)
    }

    /// Formats text in one of a terminal's 256 colours, if colours are shown.
    pub fn colored(self, color: u8, text: &str) -> String {
        if self.colored { format!("\u{1b}[38;5;{color}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Creates an empty table with these columns.
    pub fn table(self, columns: &[Column]) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(self.table_width);
        if self.colored {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        table.set_header(columns.iter().map(|column| self.header(*column)));
        for (index, column) in columns.iter().enumerate() {
            let Some(shown) = table.column_mut(index) else { continue };
            shown.set_padding((0, if index + 1 == columns.len() { 0 } else { 2 }));
            if let Column::Number(_) = column {
                shown.set_cell_alignment(CellAlignment::Right);
                shown.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        table
    }

    /// Creates a cell in a tone.
    pub fn cell(self, text: impl ToString, tone: Tone) -> Cell {
        let cell = Cell::new(printable(&text.to_string()));
        match (self.colored, tone) {
            (false, _) | (true, Tone::Plain) => cell,
            (true, Tone::Good) => cell.fg(Color::Green),
            (true, Tone::Bad) => cell.fg(Color::Red),
            (true, Tone::Faint) => cell.add_attribute(Attribute::Dim),
        }
    }

    /// Formats the heading of a section, on a line of its own.
    pub fn heading(self, text: &str) -> String {
        let text = text.split('\n').map(printable).collect::<Vec<_>>().join("\n");
        if self.colored { format!("\u{1b}[1m{text}\u{1b}[0m\n") } else { format!("{text}\n") }
    }

    fn header(self, column: Column) -> Cell {
        let (Column::Text(title) | Column::Number(title)) = column;
        self.cell(title, Tone::Faint)
    }
}

/// Returns the number of columns that the environment variable COLUMNS requests.
fn columns_variable() -> Option<u16> {
    env::var("COLUMNS").ok()?.parse().ok().filter(|&columns| columns > 0)
}

/// Returns the width of the terminal behind stdout, in columns.
fn measure_stdout() -> u16 {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 => size.ws_col,
        _ => USUAL_WIDTH,
    }
}

/// Most characters of one text that are shown.
const LENGTH_MAX: usize = 8192;

/// Makes untrusted text safe to print, since a task may have any name. Control characters and characters that change
/// the direction of writing are replaced by their escapes, as in `\u{1b}`. Text longer than 8192 characters is cut.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.len() <= LENGTH_MAX && text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    let mut letters = text.chars();
    for letter in letters.by_ref().take(LENGTH_MAX) {
        match is_harmless(letter) {
            true => shown.push(letter),
            false => shown.extend(letter.escape_default()),
        }
    }
    shown.extend(letters.next().map(|_| '\u{2026}'));
    Cow::Owned(shown)
}

fn is_harmless(letter: char) -> bool {
    let turns =
        matches!(letter, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}');
    !letter.is_control() && !turns && letter != '\u{feff}'
}

/// Wraps prose to the width of the style, with a newline at the end of each line. The lines of a list item are indented
/// after its mark.
pub fn wrapped(text: &str, style: Style) -> String {
    let indent = if text.starts_with("- ") { "  " } else { "" };
    let options = textwrap::Options::new(style.width())
        .subsequent_indent(indent)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .break_words(true);
    // A number and its percent sign stay on the same line.
    textwrap::fill(&printable(text).replace(" %", "\u{a0}%"), options).replace('\u{a0}', " ") + "\n"
}

/// Formats a table, with a newline at the end and without trailing blanks in its lines.
pub fn table_text(table: &Table) -> String {
    let text = match table.width().map(usize::from) {
        Some(width) if widths(table, longest_word).iter().sum::<usize>() > width => stacked(table, width),
        Some(_) => with_whole_words(table.clone()).trim_fmt(),
        None => table.trim_fmt(),
    };
    text + "\n"
}

/// Returns the width of the longest word of a cell.
fn longest_word(cell: &Cell) -> usize {
    cell.content().split_whitespace().map(textwrap::core::display_width).max().unwrap_or(0)
}

/// Returns the width that each column needs: that of the whole content for numbers, and that given by `of_words` for
/// words.
fn widths(table: &Table, of_words: fn(&Cell) -> usize) -> Vec<usize> {
    let mut widths = Vec::new();
    for column in table.column_iter() {
        let measure = if column.constraint().is_some() { whole_cell } else { of_words };
        let cells = table.column_cells_with_header_iter(column.index).flatten();
        widths.push(cells.map(measure).max().unwrap_or(0) + usize::from(column.padding_width()));
    }
    widths
}

/// Returns the width of all of a cell's content.
fn whole_cell(cell: &Cell) -> usize {
    textwrap::core::display_width(&cell.content())
}

/// Widens the columns so that no word is broken. The width of the table has room for that.
fn with_whole_words(mut table: Table) -> Table {
    for (index, width) in widths(&table, longest_word).into_iter().enumerate() {
        let column = table.column_mut(index).expect("`widths` has one entry for each column of the table");
        if column.constraint().is_none() {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width as u16)));
        }
    }
    table
}

/// Formats a table for a terminal that is too narrow: each row as several lines. A first cell of words has its own
/// line; each other cell follows the name of its column.
fn stacked(table: &Table, width: usize) -> String {
    let names: Vec<String> = table.header().into_iter().flat_map(|row| row.cell_iter()).map(Cell::content).collect();
    let begins_with_words = table.column(0).is_none_or(|column| column.constraint().is_none());
    let mut lines = Vec::new();
    for row in table.row_iter() {
        for (index, (cell, name)) in row.cell_iter().map(Cell::content).zip(&names).enumerate() {
            match index {
                _ if cell.trim().is_empty() => {}
                0 if begins_with_words => lines.push(fill(&cell, width, "")),
                0 => lines.push(fill(&format!("{name} {cell}"), width, "")),
                _ => lines.push(fill(&format!("{name} {cell}"), width, "    ")),
            }
        }
    }
    lines.join("\n")
}

/// Wraps a text to a width, with the same indentation for all lines.
fn fill(text: &str, width: usize, indent: &str) -> String {
    textwrap::fill(text, textwrap::Options::new(width).initial_indent(indent).subsequent_indent(indent))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: &str = "123,456,789";

    fn table(width: u16) -> Table {
        let style = Style::with_width(width);
        let columns = [Column::Text("what"), Column::Number("how many"), Column::Text("said"), Column::Text("of")];
        let mut table = style.table(&columns);
        table.add_row(["it is so and not so", NUMBER, "undecided and undecided", "a b c d e f g h i j"]);
        table.add_row(["\u{4f4e}\u{5730}\u{5740}", "-1,118 %", "", "x"]);
        table
    }

    #[test]
    fn numbers_and_words_are_not_cut_at_any_width() {
        for width in [30, 40, 60, 80, 200] {
            let text = table_text(&table(width));
            assert!(
                text.contains(NUMBER) && text.contains("undecided") && text.contains("-1,118 %"),
                "{width}:\n{text}"
            );
            let widest = text.lines().map(textwrap::core::display_width).max().unwrap();
            assert!(widest <= usize::from(width), "{width}:\n{text}");
        }
    }

    #[test]
    fn hostile_names_are_escaped_on_a_terminal() {
        let hostile = "a\u{1b}[2J\r\nb\u{202e}c";
        let shown = r"a\u{1b}[2J\r\nb\u{202e}c";
        let mut table = Style::PLAIN.table(&[Column::Text("task")]);
        table.add_row([Style::PLAIN.cell(hostile, Tone::Plain)]);
        assert_eq!(table_text(&table), format!("task\n{shown}\n"));
        assert_eq!(wrapped(hostile, Style::PLAIN), format!("{shown}\n"));
        assert_eq!(printable(&"ab".repeat(LENGTH_MAX)).chars().count(), LENGTH_MAX + 1);
        assert_eq!(printable("\u{4f4e}\u{5730} and \u{fc}"), "\u{4f4e}\u{5730} and \u{fc}");
    }

    #[test]
    fn narrow_terminal_shows_a_line_per_cell() {
        let text = table_text(&table(30));
        assert!(text.starts_with("it is so and not so\n    how many 123,456,789\n    said undecided"), "{text}");
    }

    #[test]
    fn output_without_a_terminal_has_at_most_120_columns() {
        for words in [20, 60] {
            let mut table = Style::PLAIN.table(&[Column::Text("a"), Column::Number("b")]);
            table.add_row(["word ".repeat(words).trim(), NUMBER]);
            let text = table_text(&table);
            assert!(text.lines().all(|line| line.len() <= 120), "{text}");
            assert_eq!(text.lines().count() == 2, words == 20, "{text}");
        }
        assert_eq!(wrapped(&"word ".repeat(20), Style::PLAIN).lines().count(), 2);
    }
}
