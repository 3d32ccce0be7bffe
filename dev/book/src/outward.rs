//! Rewrites links that leave the book, before the book is rendered.
//!
//! A link to a file of the repository is replaced by its text and the file's path, because the file is not in the book.
//! There is one exception. A page may include the text of such a file by a line `{{#include ../PATH}}`, and then links
//! to the file lead to that page. The links in an included file are relative to the file, so they are rewritten
//! relative to the page. A link to a target that does not exist stays unchanged, so that the link check reports it.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use mdbook_driver::book::{Book, Chapter};
use mdbook_driver::errors::Error as BuilderError;
use mdbook_preprocessor::{Preprocessor, PreprocessorContext};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::error::{Error, on_file};

/// Preprocessor that rewrites the pages.
pub(crate) struct Outward {
    /// Folder of the repository.
    root: PathBuf,
    /// Folder of the pages, relative to the repository.
    docs: PathBuf,
}

/// Files that are included in pages: the file and its page, both relative to the repository's root.
type Included = HashMap<PathBuf, PathBuf>;

/// Target of a link.
enum Target {
    /// File or page of the book, as a path from the repository's root.
    Inside(PathBuf),
    /// File that is not in the book.
    Outside(PathBuf),
}

impl Outward {
    /// Creates a preprocessor for the book whose pages are in `docs`, a folder of the repository.
    pub(crate) fn new(docs: &Path) -> Outward {
        let name = docs.file_name().map(PathBuf::from).unwrap_or_default();
        Outward { root: docs.join(".."), docs: name }
    }

    /// Returns the text of a page for the book.
    fn page(&self, chapter: &Chapter, included: &Included) -> Result<String, Error> {
        let page = self.docs.join(chapter.path.as_deref().unwrap_or(Path::new("")));
        let mut text = String::new();
        let mut own = String::new();
        for line in chapter.content.split_inclusive('\n') {
            match self.included(&page, line) {
                None => own.push_str(line),
                Some(file) => {
                    text += &self.turned(&std::mem::take(&mut own), &page, &page, included);
                    let path = self.root.join(&file);
                    let whole = fs::read_to_string(&path).map_err(on_file(&path))?;
                    text += &self.turned(below_title(&whole), &file, &page, included);
                }
            }
        }
        Ok(text + &self.turned(&own, &page, &page, included))
    }

    /// Returns the file that a line of a page includes, if any.
    fn included(&self, page: &Path, line: &str) -> Option<PathBuf> {
        let path = line.trim().strip_prefix("{{#include ")?.strip_suffix("}}")?;
        join(page.parent()?, Path::new(path.trim()))
    }

    /// Returns the text of `file` with links rewritten for `page`.
    fn turned(&self, text: &str, file: &Path, page: &Path, included: &Included) -> String {
        let mut turned = String::new();
        let mut done = 0;
        for link in links(text) {
            let Some(target) = self.target(&link.target, file, page, included) else { continue };
            let inner = &text[link.inner.clone()];
            turned += &text[done..link.whole.start];
            turned += &match target {
                Target::Inside(to) => {
                    let anchor =
                        link.target.split_once('#').map(|(_, anchor)| format!("#{anchor}")).unwrap_or_default();
                    format!("{}[{inner}]({}{anchor})", link.mark, relative(page, &to).display())
                }
                Target::Outside(to) => named(inner, &to),
            };
            done = link.whole.end;
        }
        turned + &text[done..]
    }

    /// Returns the target of a link in `file`, whose text is on `page`. Returns `None` if the link may stay as it is.
    fn target(&self, link: &str, file: &Path, page: &Path, included: &Included) -> Option<Target> {
        let to = join_link(file, link).filter(|to| self.root.join(to).exists())?;
        match included.get(&to) {
            Some(page) => Some(Target::Inside(page.clone())),
            None if !self.is_inside(&to) => Some(Target::Outside(to)),
            None => (file != page).then_some(Target::Inside(to)),
        }
    }

    fn is_inside(&self, file: &Path) -> bool {
        file.starts_with(&self.docs)
    }
}

impl Preprocessor for Outward {
    fn name(&self) -> &str {
        "outward"
    }

    fn run(&self, _: &PreprocessorContext, mut book: Book) -> Result<Book, BuilderError> {
        let mut included = Included::new();
        for chapter in book.chapters() {
            let page = self.docs.join(chapter.path.as_deref().unwrap_or(Path::new("")));
            let files = chapter.content.lines().filter_map(|line| self.included(&page, line));
            included.extend(files.map(|file| (file, page.clone())));
        }
        let mut outcome = Ok(());
        book.for_each_chapter_mut(|chapter| match self.page(chapter, &included) {
            Ok(text) => chapter.content = text,
            Err(error) => outcome = Err(error.into()),
        });
        outcome.map(|()| book)
    }
}

/// Link or image in a text.
struct Link {
    target: String,
    /// Mark at the start: empty, or the `!` of an image.
    mark: &'static str,
    /// Range of the whole link.
    whole: Range<usize>,
    /// Range of the text or image that the link shows.
    inner: Range<usize>,
}

/// Returns the links and images of a text in their order. A link or image inside another is part of the outer one.
fn links(text: &str) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    let mut depth = 0;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Link { ref dest_url, .. } | Tag::Image { ref dest_url, .. }) if depth == 0 => {
                let mark = if matches!(event, Event::Start(Tag::Image { .. })) { "!" } else { "" };
                let inner = range.end..range.start;
                links.push(Link { target: dest_url.to_string(), mark, whole: range, inner });
                depth = 1;
            }
            Event::End(TagEnd::Link | TagEnd::Image) => depth -= 1,
            other if depth > 0 => {
                depth += i32::from(matches!(other, Event::Start(Tag::Link { .. } | Tag::Image { .. })));
                let inner = &mut links.last_mut().expect("a link is open").inner;
                *inner = inner.start.min(range.start)..inner.end.max(range.end);
            }
            _ => {}
        }
    }
    links
}

/// Returns a text without its title, because the page has its own title.
fn below_title(text: &str) -> &str {
    text.strip_prefix("# ").and_then(|text| text.split_once('\n')).map_or(text, |(_, below)| below)
}

/// Returns the path that a link in `file` names, from the repository's root. Returns `None` for other hosts, anchors,
/// and paths outside the repository.
fn join_link(file: &Path, target: &str) -> Option<PathBuf> {
    let path = target.split('#').next().unwrap_or_default();
    let is_path = !path.is_empty() && !path.starts_with('/') && !path.contains(':');
    is_path.then(|| join(file.parent()?, Path::new(path))).flatten()
}

/// Resolves `path` relative to `folder`, including `.` and `..`.
fn join(folder: &Path, path: &Path) -> Option<PathBuf> {
    let mut joined = PathBuf::new();
    for part in folder.components().chain(path.components()) {
        match part {
            Component::ParentDir => joined.pop().then_some(())?,
            Component::Normal(name) => joined.push(name),
            _ => {}
        }
    }
    Some(joined)
}

/// Returns the path of `file` relative to the folder of `page`. Both paths have the same base, and the book has no
/// files above it.
fn relative(page: &Path, file: &Path) -> PathBuf {
    let folder = page.parent().unwrap_or(page);
    let shared = folder.components().zip(file.components()).take_while(|(own, other)| own == other).count();
    let up = folder.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(file.components().skip(shared)).collect()
}

/// Formats a file as its text and its path. The text is left out if it is the end of the path.
fn named(text: &str, file: &Path) -> String {
    let is_path = file.ends_with(text.trim_matches('`'));
    if is_path { format!("`{}`", file.display()) } else { format!("{text} (`{}`)", file.display()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_contain_their_shown_text() {
        let text = "| a |\n|---|\n| [`b`](b.md) and ![c *d*](c.svg) |\n\n[![e](e.svg)](f.md)\n[g][h]\n\n[h]: h.md\n";
        let shown: Vec<_> = links(text).into_iter().map(|link| (link.target, text[link.inner].to_owned())).collect();
        let expected = [("b.md", "`b`"), ("c.svg", "c *d*"), ("f.md", "![e](e.svg)"), ("h.md", "g")];
        assert_eq!(shown, expected.map(|(target, inner)| (target.to_owned(), inner.to_owned())));
    }

    #[test]
    fn relative_paths_are_converted() {
        assert_eq!(relative(Path::new("docs/in/b.md"), Path::new("docs/c.md")), PathBuf::from("../c.md"));
        assert_eq!(relative(Path::new("docs/c.md"), Path::new("docs/in/b.md")), PathBuf::from("in/b.md"));
        assert_eq!(join(Path::new("docs/in"), Path::new("../../x/./y")), Some(PathBuf::from("x/y")));
        assert_eq!(join(Path::new("docs"), Path::new("../../x")), None);
        assert_eq!(join_link(Path::new("docs/a.md"), "https://example.org/x"), None);
        assert_eq!(join_link(Path::new("docs/a.md"), "#x"), None);
    }

    #[test]
    fn title_is_removed() {
        assert_eq!(below_title("# A\n\ntext\n"), "\ntext\n");
        assert_eq!(below_title("text\n# A\n"), "text\n# A\n");
    }

    #[test]
    fn link_text_contains_the_file_once() {
        assert_eq!(named("`event.rs`", Path::new("lab/trace/src/event.rs")), "`lab/trace/src/event.rs`");
        assert_eq!(named("the example", Path::new("x/balloon.rs")), "the example (`x/balloon.rs`)");
    }
}
