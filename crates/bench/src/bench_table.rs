//! Tables that a benchmark lays out itself: one row a size, say, with a column for each allocator.
//!
//! The same table becomes text for a terminal and Markdown for a page; programs read the bare figures instead.

use freehold_measure::terminal::{Column, Style, Tone, table_text};
use freehold_measure::verdict::Verdict;
use freehold_measure::{markdown, number};

use super::bar::Holding;
use super::contest::duel::Duel;

/// A table with what is to be said above and below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BenchTable {
    /// What it shows.
    pub title: String,
    /// What its columns are, in a sentence or two.
    pub about: String,
    /// Titles of the columns; the first are words, as many as [`words`](Self::words) says.
    pub columns: Vec<String>,
    /// Columns of words; numbers follow.
    pub words: usize,
    /// Its rows.
    pub rows: Vec<Vec<Entry>>,
    /// What follows from it, in sentences.
    pub conclusions: Vec<String>,
}

/// What stands in a place of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    text: String,
    tone: Tone,
}

impl Entry {
    /// Words or a number that call for nothing.
    pub fn plain(text: impl ToString) -> Entry {
        Entry { text: text.to_string(), tone: Tone::Plain }
    }

    /// Something of lesser importance, such as what others published.
    pub fn faint(text: impl ToString) -> Entry {
        Entry { text: text.to_string(), tone: Tone::Faint }
    }

    /// Ticks, or a dash.
    pub fn ticks(ticks: Option<f64>) -> Entry {
        ticks.map_or_else(|| Entry::faint(number::ABSENT), |ticks| Entry::plain(super::report::nanoseconds(ticks)))
    }

    /// The ratio of a duel, with its interval and what that means.
    pub fn duel(duel: Option<&Duel>) -> Entry {
        let Some(duel) = duel else { return Entry::faint(number::ABSENT) };
        let text = format!("{} {}", duel.ratio_text(), duel.verdict.word());
        Entry { text, tone: duel.verdict.tone() }
    }

    /// The bare ratio of a duel, and what it means.
    pub fn ratio(duel: &Duel) -> Entry {
        let text = format!("{} {}", super::report::ratio(duel.estimate.ratio), duel.verdict.word());
        Entry { text, tone: duel.verdict.tone() }
    }

    /// What was promised of a duel and whether it holds, or nothing.
    pub fn bar(duel: Option<&Duel>) -> Entry {
        let tone = match duel.and_then(|duel| duel.bar_holds) {
            Some(Holding::Met) => Tone::Good,
            Some(Holding::Missed) => Tone::Bad,
            Some(Holding::Open) | None => Tone::Faint,
        };
        Entry { text: duel.map_or_else(String::new, Duel::bar_text), tone }
    }
}

impl BenchTable {
    /// For a terminal.
    pub fn text(&self, style: Style) -> String {
        let column = |(at, title)| if at < self.words { Column::Text(title) } else { Column::Number(title) };
        let columns: Vec<Column<'_>> = self.columns.iter().map(String::as_str).enumerate().map(column).collect();
        let mut table = style.table(&columns);
        for row in &self.rows {
            table.add_row(row.iter().map(|entry| style.cell(&entry.text, entry.tone)).collect::<Vec<_>>());
        }
        let heading = style.heading(&self.title);
        let below: String = self.conclusions.iter().map(|sentence| format!("{sentence}\n")).collect();
        format!("{heading}{}\n\n{}\n{below}", self.about, table_text(&table))
    }

    /// For a page, below a heading of the third rank.
    pub fn markdown(&self) -> String {
        let header: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        let cell = |entry: &Entry| match entry.tone {
            Tone::Good | Tone::Bad => format!("**{}**", entry.text),
            Tone::Plain | Tone::Faint => entry.text.clone(),
        };
        let rows = self.rows.iter().map(|row| row.iter().map(cell).collect());
        let table = markdown::table(&header, rows);
        let below: String = self.conclusions.iter().map(|sentence| format!("\n- {sentence}")).collect();
        let below = if below.is_empty() { below } else { format!("\n{below}") };
        format!("### {}\n\n{}\n\n{table}{below}", self.title, self.about)
    }
}

/// How many duels ended how, in words: `better in 3, worse in 1`.
pub fn tally<'d>(duels: impl IntoIterator<Item = &'d Duel>) -> String {
    let duels: Vec<&Duel> = duels.into_iter().collect();
    let found = [Verdict::Better, Verdict::Worse, Verdict::NoDifference, Verdict::Undecided].into_iter().filter_map(
        |verdict| {
            let number = duels.iter().filter(|duel| duel.verdict == verdict).count();
            (number > 0).then(|| format!("{} in {number}", verdict.word()))
        },
    );
    found.collect::<Vec<_>>().join(", ")
}

/// How many bars hold, in words: `met in 8, missed in 1`; nothing if nothing was promised.
pub fn bars<'d>(duels: impl IntoIterator<Item = &'d Duel>) -> String {
    let holdings: Vec<Holding> = duels.into_iter().filter_map(|duel| duel.bar_holds).collect();
    let found = [Holding::Met, Holding::Missed, Holding::Open].into_iter().filter_map(|holding| {
        let number = holdings.iter().filter(|&&found| found == holding).count();
        (number > 0).then(|| format!("{} in {number}", holding.word()))
    });
    found.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_reads_the_same_in_a_terminal_and_on_a_page() {
        let table = BenchTable {
            title: "Pairs".to_owned(),
            about: "Ticks a pair.".to_owned(),
            columns: vec!["size".to_owned(), "ticks".to_owned()],
            words: 1,
            rows: vec![vec![Entry::plain(8), Entry::ticks(Some(2.5))], vec![Entry::plain(16), Entry::ticks(None)]],
            conclusions: vec!["That is all.".to_owned()],
        };
        assert_eq!(
            table.text(Style::PLAIN),
            "Pairs\nTicks a pair.\n\nsize  ticks\n8      2.50\n16        -\n\nThat is all.\n"
        );
        let page =
            "### Pairs\n\nTicks a pair.\n\n| size | ticks |\n|---|---|\n| 8 | 2.50 |\n| 16 | - |\n\n- That is all.";
        assert_eq!(table.markdown(), page);
    }
}
