//! Widths: lines of at most 160 characters, which fit beside another window. The formatter does not wrap comments and
//! documents, so this check covers them.
//!
//! Some lines may be longer: rows of tables, code blocks in prose, link targets, which cannot be broken, and lines of
//! code that a string literal makes long.

use proc_macro2::{LineColumn, Literal, TokenStream, TokenTree};

use super::tokens;
use super::tree::{Finding, Tree};

/// Maximum characters of a line.
const WIDTH_MAX: usize = 160;

/// Finds lines that are too long.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let rust = tree.ending(".rs").map(|(file, text)| (file, long_in_rust(text)));
    let documents = tree.ending(".md").map(|(file, text)| (file, long_in_prose(text.lines())));
    let tables = tree.ending(".toml").map(|(file, text)| (file, long_in_prose(text.lines())));
    let found = rust.chain(documents).chain(tables);
    let places = found.flat_map(|(file, lines)| lines.into_iter().map(move |line| (file, line)));
    let findings = places.map(|(file, line)| Finding {
        file: file.to_owned(),
        line,
        sentence: format!("break the line; at most {WIDTH_MAX} characters are allowed"),
    });
    findings.collect()
}

/// Returns the numbers of the long lines of prose, except those that may be long.
fn long_in_prose<'t>(lines: impl Iterator<Item = &'t str>) -> Vec<usize> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (at, line) in lines.enumerate() {
        let prose = comment(line).unwrap_or(line).trim_start();
        if prose.starts_with("```") || prose.starts_with("~~~") {
            is_code = !is_code;
        } else if !is_code && !prose.starts_with('|') && width_without_links(line) > WIDTH_MAX {
            found.push(at + 1);
        }
    }
    found
}

/// Returns the numbers of the long lines of a Rust file: all code lines, and comments as prose.
fn long_in_rust(text: &str) -> Vec<usize> {
    if !text.lines().any(is_long) {
        return Vec::new();
    }
    let lines: Vec<&str> = text.lines().collect();
    let prose = long_in_prose(lines.iter().map(|line| comment(line).map_or("", |_| *line)));
    let code = (1..=lines.len()).filter(|line| comment(lines[line - 1]).is_none() && is_long(lines[line - 1]));
    let literals = literals(tokens::parse(text));
    let long = prose.into_iter().chain(code);
    let mut found: Vec<usize> =
        long.filter(|&line| !literals.iter().any(|literal| reaches_border(literal, line))).collect();
    found.sort_unstable();
    found
}

/// Returns whether a line exceeds the maximum.
fn is_long(line: &str) -> bool {
    line.chars().count() > WIDTH_MAX
}

/// Returns the text of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("//").map(|line| line.trim_start_matches(['/', '!']))
}

/// Returns the number of characters of a line, without words that contain link targets.
fn width_without_links(line: &str) -> usize {
    let links: usize = line
        .split(' ')
        .filter(|word| word.contains("](") || word.contains("]: ") || word.contains("://"))
        .map(|word| word.chars().count())
        .sum();
    line.chars().count() - links
}

/// Returns all literals of a file, except those of documentation comments.
fn literals(stream: TokenStream) -> Vec<Literal> {
    let mut found = Vec::new();
    let mut before_group = None;
    for tree in stream {
        match &tree {
            TokenTree::Literal(literal) => found.push(literal.clone()),
            TokenTree::Group(group) if !is_documentation(before_group.as_ref(), group) => {
                found.extend(literals(group.stream()));
            }
            _ => {}
        }
        before_group = Some(tree);
    }
    found
}

/// Returns whether a group is a `[doc = "..."]` made of a documentation comment. Its `#` then has the group's own
/// position.
fn is_documentation(before: Option<&TokenTree>, group: &proc_macro2::Group) -> bool {
    before.is_some_and(|sign| sign.span().start() == group.span().start())
}

/// Returns whether a literal contains the last allowed character of a line and the next one.
fn reaches_border(literal: &Literal, line: usize) -> bool {
    let border = LineColumn { line, column: WIDTH_MAX };
    literal.span().start() < border && border < literal.span().end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(file: &str, text: &str) -> Vec<usize> {
        check(&Tree::from_texts(&[(file, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn long_lines_are_found() {
        let words = "word ".repeat(32);
        for file in ["a.rs", "a.md", "a.toml"] {
            let mark = if file.ends_with(".rs") { "//" } else { "#" };
            assert_eq!(lines(file, &format!("{mark}\n{mark} {words}\n")), [2], "{file}");
            assert_eq!(lines(file, &format!("{mark} {}\n", &words[..158 - mark.len()])), [0; 0], "{file}");
        }
        for comment in ["//!", "///", "    ///", "fn f() {} //"] {
            assert_eq!(lines("a.rs", &format!("\n{comment} {words}\nfn g() {{}}\n")), [2], "{comment}");
        }
        assert_eq!(
            lines("a.rs", &format!("const TEXT: &str = \"short\"; const N: u8 = {}0;\n", "0 + ".repeat(40))),
            [1]
        );
        assert_eq!(lines("a.rs", &format!("// ```\n// {words}\n// ```\n// {words}\n")), [4]);
        assert_eq!(lines("a.md", &format!("See [{words}](b.md).\n")), [1]);
    }

    #[test]
    fn tables_code_links_and_string_literals_are_exempt() {
        let words = "word ".repeat(32);
        assert_eq!(lines("a.md", &format!("| {words} |\n\n```\n{words}\n```\n")), [0; 0]);
        assert_eq!(lines("a.md", &format!("See [this](https://{}).\n", "a/".repeat(90))), [0; 0]);
        assert_eq!(lines("a.rs", &format!("//! | {words} |\n//! ```text\n//! {words}\n//! ```\n")), [0; 0]);
        assert_eq!(lines("a.rs", &format!("const TEXT: &str = \"{words}\";\n")), [0; 0]);
        assert_eq!(lines("a.rs", &format!("const TEXT: &str = \"one\n  {words}\n two\";\n")), [0; 0]);
        assert_eq!(lines("a.yml", &words), [0; 0]);
    }
}
