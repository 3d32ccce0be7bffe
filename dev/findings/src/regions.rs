//! Regions of a page that the program writes. The rest of the page is written by hand.
//!
//! A line `<!-- table: NAME WORDS -->` precedes a table, and the table below it is replaced. Every table is also
//! written as CSV, to `data/PAGE/NAME-WORDS.csv` beside the page. A line `<!-- data: NAME WORDS, NAME WORDS -->` lists
//! tables that are written as CSV only; such lines may follow each other in one block. A line
//! `<!-- plot: NAME WORDS, NAME WORDS -->` precedes the picture of these tables ([`crate::picture`]).
//!
//! A line `<!-- figures: TABLES -->` before a paragraph or list names the tables, by their files, that contain its
//! figures. A line `<!-- derived: FIGURES -->` lists figures that a person computed from tables, such as sums. A test
//! fails if the paragraph contains any other figure, so that a new measurement shows which sentences must change. In
//! the README, a table is named as `PAGE/TABLE`, and `PAGE.md` names the figures in the text of a page.

use freehold_report::markdown::wrapped;

use crate::Page;
use freehold_report::data_table::DataTable;

/// Names of the kinds of regions, as the comments spell them.
const TABLE: &str = "table";
const DATA: &str = "data";
const PLOT: &str = "plot";

/// Name of a table, and its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// Name of the table.
    pub(crate) name: String,
    /// Subject: for example a plan, or a measure.
    pub(crate) words: Vec<String>,
}

impl Region {
    /// Reads `NAME WORDS`. Returns `None` if the text has no words.
    fn parse(text: &str) -> Option<Region> {
        let mut words = text.split_whitespace().map(str::to_owned);
        Some(Region { name: words.next()?, words: words.collect() })
    }

    /// Returns the name of the data file, without its extension.
    fn stem(&self) -> String {
        let words = self.words.iter().map(|word| word.trim_end_matches(".parquet"));
        [self.name.as_str()].into_iter().chain(words).collect::<Vec<_>>().join("-")
    }
}

/// Replaces every table of a page. Returns the page, followed by the data files of its tables.
///
/// # Panics
/// Panics if the page names a table for which `make` returns `None`. Pages are constants, and tests check them.
pub(crate) fn fill(name: &str, page: &str, mut make: impl FnMut(&Region) -> Option<DataTable>) -> Vec<Page> {
    let mut blocks: Vec<String> = Vec::new();
    let mut files = Vec::new();
    let mut is_replaced = false;
    for block in page.trim_end().split("\n\n") {
        if is_replaced && block.starts_with('|') {
            is_replaced = false;
            continue;
        }
        blocks.push(block.to_owned());
        is_replaced = table_region(block).is_some();
        for region in regions(block) {
            let table = make(&region).unwrap_or_else(|| panic!("the page names {region:?}, which does not exist"));
            files.push(Page { name: data_file(name, &region), text: table.to_csv() });
            if is_replaced {
                blocks.push(table.to_markdown());
            }
        }
    }
    let text = wrapped(&(blocks.join("\n\n") + "\n"));
    [Page { name: format!("{name}.md"), text }].into_iter().chain(files).collect()
}

/// Returns the path of a table's data file, from the folder of the pages.
pub(crate) fn data_file(page: &str, region: &Region) -> String {
    format!("data/{page}/{}.csv", region.stem())
}

/// Returns the tables that a block of a page names: the one shown below it, or those written as data files only.
fn regions(block: &str) -> Vec<Region> {
    let data = block.lines().flat_map(|line| listed(line, DATA));
    table_region(block).into_iter().chain(data).collect()
}

/// Returns the table that a block announces and that the page shows below it, if any.
fn table_region(block: &str) -> Option<Region> {
    Region::parse(comment(block, TABLE)?)
}

/// Returns the tables from which the picture of a page is drawn.
pub(crate) fn plotted(page: &str) -> Vec<Region> {
    page.lines().flat_map(|line| listed(line, PLOT)).collect()
}

/// Returns the tables that a line lists, if it is a comment of this kind.
fn listed(line: &str, kind: &str) -> Vec<Region> {
    comment(line, kind).into_iter().flat_map(|list| list.split(',')).filter_map(Region::parse).collect()
}

/// Returns the text of a comment of this kind.
fn comment<'t>(block: &'t str, kind: &str) -> Option<&'t str> {
    block.strip_prefix("<!-- ")?.strip_prefix(kind)?.strip_prefix(": ")?.strip_suffix(" -->")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Returns all tables that a page names, shown or not.
    pub(crate) fn tables(page: &str) -> Vec<Region> {
        page.split("\n\n").flat_map(regions).collect()
    }

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|&cell| cell.to_owned()).collect()
    }

    #[test]
    fn tables_are_replaced_and_sentences_kept() {
        let page = "# A\n\n<!-- table: locks purge -->\n\n| old |\n|---|\n\nA sentence.\n";
        let files = fill("a", page, |region| Some(DataTable::new(["x"], [row(&[&region.words[0]])])));
        let expected = "# A\n\n<!-- table: locks purge -->\n\n| x |\n|---|\n| purge |\n\nA sentence.\n";
        assert_eq!(files[0].text, expected);
        assert_eq!(files[1], Page { name: "data/a/locks-purge.csv".to_owned(), text: "x\npurge\n".to_owned() });
    }

    #[test]
    fn data_tables_are_written_and_not_shown() {
        let page = "<!-- data: locks purge, bars -->\n<!-- data: locks build -->\n\n| shown |\n|---|\n";
        let files = fill("a", page, |region| Some(DataTable::new([&region.stem()], [])));
        assert_eq!(files[0].text, page);
        let names: Vec<&str> = files[1..].iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["data/a/locks-purge.csv", "data/a/bars.csv", "data/a/locks-build.csv"]);
    }

    #[test]
    #[should_panic(expected = "which does not exist")]
    fn unknown_table_is_refused() {
        fill("a", "<!-- table: tabel -->\n", |_| None);
    }

    /// Returns the names and texts of the pages whose tables have data files.
    fn pages() -> Vec<(String, String)> {
        let entries = fs::read_dir(Path::new(crate::FOLDER).join("data")).expect("the folder is there");
        let names = entries.map(|entry| entry.expect("it can be read").file_name().to_string_lossy().into_owned());
        names.map(|name| (name.clone(), read_page(&name))).collect()
    }

    fn read_page(name: &str) -> String {
        let parent = if name == crate::recorded::FIDELITY { "../" } else { "" };
        read(&format!("{parent}{name}.md"))
    }

    fn read(file: &str) -> String {
        fs::read_to_string(Path::new(crate::FOLDER).join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    fn table(file: &str) -> DataTable {
        crate::recorded::read_table(file).expect("each data file is a table")
    }

    #[test]
    fn tables_on_pages_match_their_data_files() {
        for (name, text) in pages() {
            let files = fill(&name, &text, |region| Some(table(&data_file(&name, region))));
            for (from_data, on_page) in files[0].text.lines().zip(text.lines()) {
                assert_eq!(from_data, on_page, "{name}.md: a table is not that of its data file");
            }
            assert_eq!(files[0].text.len(), text.len(), "{name}.md");
            let folder = Path::new(crate::FOLDER).join("data").join(&name);
            assert_eq!(
                fs::read_dir(folder).unwrap().count(),
                files.len() - 1,
                "{name}.md does not name all of its data files"
            );
        }
    }

    #[test]
    fn figures_in_sentences_occur_in_the_tables() {
        for (name, text) in pages() {
            let missing = missing_figures(&text, |stem| table(&format!("data/{name}/{stem}.csv")));
            assert!(missing.is_empty(), "{name}.md: {missing:?}");
        }
    }

    #[test]
    fn figures_in_the_readme_occur_in_tables_and_pages() {
        let missing = missing_figures(&read("../../README.md"), |name| match name.strip_suffix(".md") {
            Some(_) => DataTable::new(["text"], [row(&[&read(name)])]),
            None => table(&format!("data/{name}.csv")),
        });
        assert!(missing.is_empty(), "README.md: {missing:?}");
    }

    #[test]
    fn pages_name_the_commit_of_their_recipe() {
        for (name, text) in pages() {
            let recipe = table(&format!("data/{name}/recipe.csv")).filter("item", "freehold");
            for version in recipe.column("value") {
                let commit =
                    version.split_once("commit ").map(|(_, rest)| rest.split([',', ' ']).next().unwrap_or(rest));
                let commit = commit.expect("the version names a commit");
                assert!(text.contains(commit), "{name}.md does not name commit {commit}");
            }
        }
    }

    #[test]
    fn planted_figure_is_found() {
        let table = DataTable::new(["policy", "share"], [row(&["a", "12.5 % [11.0, 1,300]"])]);
        let comments = "<!-- figures: shares -->\n\n<!-- derived: 27 -->\n\n";
        let page = format!("{comments}Of 27, 12.5 % to [1,300](data/99.csv) are `x-9`; 14.5 % not.\n");
        assert_eq!(missing_figures(&page, |_| table.clone()), ["14.5"]);
    }

    /// Returns the figures of text below `<!-- figures: TABLES -->` that are in none of these tables. Figures that a
    /// person computed from a table are listed in `<!-- derived: FIGURES -->`.
    fn missing_figures(page: &str, read_table: impl Fn(&str) -> DataTable) -> Vec<String> {
        let mut missing = Vec::new();
        let mut known: Option<BTreeSet<String>> = None;
        for block in page.split("\n\n") {
            if let Some(stems) = comment(block, "figures") {
                for table in stems.split_whitespace().map(&read_table) {
                    known.get_or_insert_default().extend(table.cells().flat_map(figures));
                }
            } else if let Some(derived) = comment(block, "derived") {
                known.get_or_insert_default().extend(figures(derived));
            } else if let Some(known) = known.take() {
                let text: String = without_link_targets(block).split('`').step_by(2).collect();
                missing.extend(figures(&text).into_iter().filter(|figure| !known.contains(figure)));
            }
        }
        missing
    }

    /// Returns a text without the targets of its links.
    fn without_link_targets(text: &str) -> String {
        let parts = text.split("](").enumerate();
        parts.map(|(at, part)| if at == 0 { part } else { part.split_once(')').map_or(part, |link| link.1) }).collect()
    }

    /// Returns the numbers in a text, without their signs.
    fn figures(text: &str) -> Vec<String> {
        let words = text.split(|letter: char| !letter.is_ascii_digit() && !matches!(letter, ',' | '.'));
        let numbers = words.map(|word| word.trim_matches([',', '.']));
        numbers.filter(|number| number.starts_with(|letter: char| letter.is_ascii_digit())).map(str::to_owned).collect()
    }
}
