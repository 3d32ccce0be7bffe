//! Links, anchors and paths in documents: each must lead to an existing target.
//!
//! A link must name a file or folder of the workspace, relative to its document, and its anchor must be a heading
//! there. A code span that looks like a path of this workspace (`page/zone.rs`, `engine/core/`) must exist too,
//! relative to the document, the root, or the sources of any package. Links to other hosts are not followed.

use super::markdown::Document;
use super::tree::{Finding, Tree, folder_of, join};

/// Extensions of file names that make a code span a path. Kernel sources have other extensions.
const ENDINGS: [&str; 7] = [".rs", ".md", ".toml", ".sh", ".parquet", ".json", ".yml"];
/// Prefix of paths that builds create.
const BUILT: &str = "target/";

/// Finds links and paths whose target does not exist.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.ending(".md") {
        let document = Document::parse(text);
        for (link, line) in &document.links {
            if let Some(sentence) = dead_link(tree, file, link) {
                findings.push(Finding { file: file.to_owned(), line: *line, sentence });
            }
        }
        for (span, line) in &document.spans {
            if looks_like_path(span) && !exists_somewhere(tree, file, span) {
                let sentence = format!("`{span}` names a file that does not exist");
                findings.push(Finding { file: file.to_owned(), line: *line, sentence });
            }
        }
    }
    findings
}

/// Returns the problem with a link, or `None`.
fn dead_link(tree: &Tree, file: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() { Some(file.to_owned()) } else { join(folder_of(file), path) };
    let Some(target) = target.filter(|target| tree.exists(target)) else {
        return Some(format!("the link target `{path}` does not exist"));
    };
    let text = tree.text(&target).filter(|_| !anchor.is_empty() && target.ends_with(".md"))?;
    let found = Document::parse(text).anchors.iter().any(|known| known == anchor);
    (!found).then(|| format!("the link target `#{anchor}` is not a heading of {target}"))
}

/// Returns whether a code span is meant as a path of this workspace: it has a slash, no blanks, and a known extension
/// or a final slash.
fn looks_like_path(span: &str) -> bool {
    let plain = span.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'));
    let ends = ENDINGS.iter().any(|ending| span.ends_with(ending)) || span.ends_with('/');
    plain && ends && span.contains('/') && !span.starts_with('/') && !span.starts_with(BUILT)
}

fn exists_somewhere(tree: &Tree, file: &str, path: &str) -> bool {
    let mut targets = [folder_of(file), ""].into_iter().filter_map(|base| join(base, path));
    targets.any(|target| tree.exists(&target)) || tree.exists_in_sources(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding_lines(document: &str) -> Vec<usize> {
        let tree = Tree::from_texts(&[
            ("docs/a.md", document),
            ("README.md", "# Freehold\n\n## How to read it\n"),
            ("engine/core/src/page/zone.rs", ""),
        ]);
        check(&tree).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn dead_links_anchors_and_paths_are_found() {
        assert_eq!(finding_lines("# A\n\n[x](gone.md)\n"), [3]);
        assert_eq!(finding_lines("# A\n\n[x](../README.md#gone)\n"), [3]);
        assert_eq!(finding_lines("# A\n\n[x](#b)\n"), [3]);
        assert_eq!(finding_lines("# A\n\n`page/gone.rs`\n"), [3]);
        assert_eq!(finding_lines("# A\n\n`lab/gone/`\n"), [3]);
        assert_eq!(finding_lines("# A\n\n[x](../../outside.md)\n"), [3]);
    }

    #[test]
    fn existing_links_are_accepted() {
        assert!(finding_lines("# A\n\n[x](../README.md#how-to-read-it) [y](#a) [z](../engine/core)\n").is_empty());
        assert!(finding_lines("# A\n\n`page/zone.rs` `engine/core/src/page/zone.rs` `engine/core/`\n").is_empty());
        assert!(
            finding_lines("# A\n\n`mm/page_alloc.c` `and/or` `/proc/x.md` `plans/*.toml` <https://example.org/x>\n")
                .is_empty()
        );
    }
}
