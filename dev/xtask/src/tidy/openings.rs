//! Openings: every file must open with prose, so that a reader learns its purpose before the first line of code.

use super::tokens;
use super::tree::{Finding, Tree};

/// Minimum number of words in an opening.
const WORDS_MIN: usize = 5;

/// Finds files without an opening.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let rust = tree.ending(".rs").filter_map(|(file, text)| complain(file, rust_opening(text), RUST));
    let shell = tree.ending(".sh").filter_map(|(file, text)| complain(file, shell_opening(text), SHELL));
    let documents = tree.ending(".md").filter_map(|(file, text)| complain(file, document_opening(text), DOCUMENT));
    rust.chain(shell).chain(documents).collect()
}

const RUST: &str = "begin the file with `//!` and its purpose";
const SHELL: &str = "begin the script, after the interpreter line, with a comment about its purpose";
const DOCUMENT: &str = "begin the document with a `# ` heading and a paragraph of prose";

fn complain(file: &str, opening: String, advice: &str) -> Option<Finding> {
    let poor = tokens::words(&opening) < WORDS_MIN;
    poor.then(|| Finding { file: file.to_owned(), line: 1, sentence: advice.to_owned() })
}

/// Returns the comment block at the top of a Rust file.
fn rust_opening(text: &str) -> String {
    let block = text.lines().take_while(|line| line.starts_with("//!"));
    block.map(|line| line.trim_start_matches("//!").to_owned() + " ").collect()
}

/// Returns the comment block at the top of a script, after the interpreter's line.
fn shell_opening(text: &str) -> String {
    let mut lines = text.lines();
    if !lines.next().is_some_and(|line| line.starts_with("#!")) {
        return String::new();
    }
    lines.take_while(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').to_owned() + " ").collect()
}

/// Returns the first paragraph under a document's heading.
fn document_opening(text: &str) -> String {
    let mut lines = text.lines();
    if !lines.next().is_some_and(|line| line.starts_with("# ")) {
        return String::new();
    }
    let mut paragraph = lines.skip_while(|line| line.trim().is_empty()).take_while(|line| !line.trim().is_empty());
    let first = paragraph.next().unwrap_or_default();
    if first.starts_with(['#', '-', '|', '`', '<']) {
        return String::new();
    }
    paragraph.fold(first.to_owned(), |text, line| text + " " + line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_found(file: &str, text: &str) -> bool {
        !check(&Tree::from_texts(&[(file, text)])).is_empty()
    }

    #[test]
    fn files_without_an_opening_are_found() {
        assert!(is_found("a.rs", "fn main() {}\n"));
        assert!(is_found("a.rs", "//!\nfn main() {}\n"));
        assert!(is_found("a.rs", "//! Utils.\nfn main() {}\n"));
        assert!(is_found("a.rs", "\n//! The story comes after a blank line.\n"));
        assert!(is_found("a.sh", "#!/bin/sh\nset -e\n"));
        assert!(is_found("a.md", "A document without any heading at all.\n"));
        assert!(is_found("a.md", "# Heading\n\n- a list is no prose\n"));
    }

    #[test]
    fn empty_openings_are_found() {
        for opening in [
            "//!",
            "//!\n//!\n//!",
            "//! Four words are few.",
            "//! Some\n//!\n//! more.",
            "//! . . . . .",
            "//! | - | - |",
        ] {
            assert!(is_found("a.rs", &format!("{opening}\n\nfn main() {{}}\n")), "{opening}");
        }
        assert!(is_found("a.sh", "#!/bin/sh\n#\n"));
        assert!(is_found("a.md", "# Heading\n\nFour words are few.\n"));
    }

    #[test]
    fn prose_openings_are_accepted() {
        assert!(!is_found("a.rs", "//! Says what this is for.\n//!\n\nfn main() {}\n"));
        assert!(!is_found("a.sh", "#!/bin/sh\n# Says what this is for.\n"));
        assert!(!is_found("a.md", "# Heading\n\nA paragraph\nof some prose.\n"));
    }
}
