//! What the terminal can show: colour, width, line drawing.
//!
//! Tables that go to a file or a pipe are plain and as wide as they need to be, so that `grep` and `awk` find whole
//! rows. On a terminal they keep to its width: first words wrap, never a number; where that is not enough, every row
//! becomes a few lines. COLUMNS, where set, is the width. Colour follows `--color`, then NO_COLOR, then whether stdout
//! is a terminal.

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

/// How text is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    colored: bool,
    /// Columns of the terminal; nothing where text goes elsewhere.
    width: Option<u16>,
}

/// Columns of text that does not go to a terminal, where it is prose.
const PROSE_WIDTH: u16 = 80;
/// Columns of a terminal that does not say how many it has.
const USUAL_WIDTH: u16 = 80;

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

impl From<Verdict> for Tone {
    fn from(verdict: Verdict) -> Tone {
        match verdict {
            Verdict::Better => Tone::Good,
            Verdict::Worse => Tone::Bad,
            _ => Tone::Faint,
        }
    }
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
    pub const PLAIN: Style = Style { colored: false, width: None };

    /// What a terminal of so many columns gets, without colour.
    pub fn with_width(columns: u16) -> Style {
        Style { colored: false, width: Some(columns) }
    }

    /// The style for stdout.
    pub fn for_stdout(choice: ColorChoice) -> Style {
        let terminal = io::stdout().is_terminal();
        let colored = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => terminal && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        Style { colored, width: terminal.then(measure_stdout) }
    }

    /// Whether colours are shown.
    pub fn is_colored(self) -> bool {
        self.colored
    }

    /// Columns that a picture made of characters may take.
    pub fn width(self) -> usize {
        usize::from(self.width.unwrap_or(PROSE_WIDTH))
    }

    /// Text in one of a terminal's 256 colours, if colours are shown.
    pub fn colored(self, color: u8, text: &str) -> String {
        if self.colored { format!("\u{1b}[38;5;{color}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// An empty table with these columns.
    pub fn table(self, columns: &[Column]) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        match self.width {
            Some(width) => drop(table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width)),
            None => drop(table.set_content_arrangement(ContentArrangement::Disabled)),
        }
        if self.colored {
            table.enforce_styling();
        } else if self.width.is_none() {
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

    /// A cell in a tone.
    pub fn cell(self, text: impl ToString, tone: Tone) -> Cell {
        let cell = Cell::new(printable(&text.to_string()));
        match (self.colored, tone) {
            (false, _) | (true, Tone::Plain) => cell,
            (true, Tone::Good) => cell.fg(Color::Green),
            (true, Tone::Bad) => cell.fg(Color::Red),
            (true, Tone::Faint) => cell.add_attribute(Attribute::Dim),
        }
    }

    /// A section's heading, on a line of its own.
    pub fn heading(self, text: &str) -> String {
        let text = text.split('\n').map(printable).collect::<Vec<_>>().join("\n");
        if self.colored { format!("\u{1b}[1m{text}\u{1b}[0m\n") } else { format!("{text}\n") }
    }

    fn header(self, column: Column) -> Cell {
        let (Column::Text(title) | Column::Number(title)) = column;
        self.cell(title, Tone::Faint)
    }
}

/// The columns of the terminal that stdout is.
fn measure_stdout() -> u16 {
    let variable = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    if let Some(columns) = variable.filter(|&columns| columns > 0) {
        return columns;
    }
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 => size.ws_col,
        _ => USUAL_WIDTH,
    }
}

/// Characters that are shown of one text.
const LENGTH_MAX: usize = 8192;

/// Text of any origin that can be shown: what would move the cursor, colour, or turn the direction of writing stands as
/// its code, as in `\u{1b}`; what is far too long is cut. A task may call itself anything.
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

/// Prose in lines that fit, each ended by a newline; an item's lines are indented behind its mark.
pub fn wrapped(text: &str, style: Style) -> String {
    let width = style.width.unwrap_or(PROSE_WIDTH);
    let indent = if text.starts_with("- ") { "  " } else { "" };
    let options = textwrap::Options::new(usize::from(width))
        .subsequent_indent(indent)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .break_words(true);
    // A number and its sign stay together.
    textwrap::fill(&printable(text).replace(" %", "\u{a0}%"), options).replace('\u{a0}', " ") + "\n"
}

/// The table's text, ended by a newline and without blanks at the ends of lines.
pub fn table_text(table: &Table) -> String {
    let width = table.width().filter(|_| matches!(table.content_arrangement(), ContentArrangement::Dynamic));
    let text = match width.map(usize::from) {
        Some(width) if widths(table, longest_word).iter().sum::<usize>() > width => stacked(table, width),
        Some(_) => with_whole_words(table.clone()).trim_fmt(),
        None => table.trim_fmt(),
    };
    text + "\n"
}

/// What a cell needs if only words stay whole.
fn longest_word(cell: &Cell) -> usize {
    cell.content().split_whitespace().map(textwrap::core::display_width).max().unwrap_or(0)
}

/// What each column needs: numbers all of their content, words what `of_words` says.
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

/// The table with columns wide enough for whole words, which its width has room for.
fn with_whole_words(mut table: Table) -> Table {
    for (index, width) in widths(&table, longest_word).into_iter().enumerate() {
        let column = table.column_mut(index).expect("it has so many columns");
        if column.constraint().is_none() {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width as u16)));
        }
    }
    table
}

/// The table for a terminal that is too narrow for it: each row as a few lines, the first cell on its own if it is
/// words, and each other one behind the name of its column.
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

/// Wraps a text to a width, all of its lines indented.
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
    fn neither_numbers_nor_words_are_cut_at_any_width() {
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
    fn what_a_name_holds_does_nothing_to_the_terminal() {
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
    fn a_narrow_terminal_gets_a_line_a_cell() {
        let text = table_text(&table(30));
        assert!(text.starts_with("it is so and not so\n    how many 123,456,789\n    said undecided"), "{text}");
    }

    #[test]
    fn what_is_no_terminal_gets_rows_of_any_width() {
        let mut table = Style::PLAIN.table(&[Column::Text("a"), Column::Number("b")]);
        table.add_row(["word ".repeat(60).trim(), NUMBER]);
        assert_eq!(table_text(&table).lines().count(), 2);
        assert_eq!(wrapped(&"word ".repeat(20), Style::PLAIN).lines().count(), 2);
    }
}
