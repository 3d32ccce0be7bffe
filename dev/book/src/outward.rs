//! What leads out of the book, before it is rendered.
//!
//! A link to a file of the repository becomes its text and the file's path, since the file is not in the book. Unless
//! the book has it after all: a page may have the text of such a file, by a line `{{#include ../PATH}}`, and then the
//! link leads to that page. The links of the file itself are relative to where it lies, and are turned to where the
//! page is. A link to something that does not exist stays as it is, for whoever follows links afterwards.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use mdbook_driver::book::{Book, Chapter};
use mdbook_driver::errors::Error as BuilderError;
use mdbook_preprocessor::{Preprocessor, PreprocessorContext};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::error::{Error, on_file};

/// The step that rewrites the pages.
pub(crate) struct Outward {
    /// The folder of the repository.
    root: PathBuf,
    /// The folder of the pages, from there.
    docs: PathBuf,
}

/// On which page of the book the text of a file is, both from the repository's root.
type Included = HashMap<PathBuf, PathBuf>;

/// Where a link leads.
enum Target {
    /// To a file or page of the book, by a path from the repository's root.
    Inside(PathBuf),
    /// To a file that the book does not have.
    Outside(PathBuf),
}

impl Outward {
    /// For the book whose pages are in `docs`, a folder of the repository's.
    pub(crate) fn new(docs: &Path) -> Outward {
        let name = docs.file_name().map(PathBuf::from).unwrap_or_default();
        Outward { root: docs.join(".."), docs: name }
    }

    /// The text of a page for the book.
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

    /// The file that a line of a page stands for.
    fn included(&self, page: &Path, line: &str) -> Option<PathBuf> {
        let path = line.trim().strip_prefix("{{#include ")?.strip_suffix("}}")?;
        join(page.parent()?, Path::new(path.trim()))
    }

    /// The text of `file`, with links that are right on `page`.
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

    /// Where a link in `file` leads, whose text is on `page`; nothing if it may stay as it is.
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

/// A link or an image in a text.
struct Link {
    target: String,
    /// What it begins with: nothing, or the `!` of an image.
    mark: &'static str,
    /// All of it.
    whole: Range<usize>,
    /// What it shows.
    inner: Range<usize>,
}

/// The links and images of a text, in their order; what is inside of another is part of it.
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
                let inner = &mut links.last_mut().expect("one is open").inner;
                *inner = inner.start.min(range.start)..inner.end.max(range.end);
            }
            _ => {}
        }
    }
    links
}

/// A text without the title that it begins with: a page has one of its own.
fn below_title(text: &str) -> &str {
    text.strip_prefix("# ").and_then(|text| text.split_once('\n')).map_or(text, |(_, below)| below)
}

/// What a link in `file` names, from the repository's root; nothing for other hosts, anchors and paths out of it.
fn join_link(file: &Path, target: &str) -> Option<PathBuf> {
    let path = target.split('#').next().unwrap_or_default();
    let is_path = !path.is_empty() && !path.starts_with('/') && !path.contains(':');
    is_path.then(|| join(file.parent()?, Path::new(path))).flatten()
}

/// `path` as seen from `folder`, with `.` and `..` resolved.
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

/// The path to `file` from the folder of `page`; both begin at the same place, and the book has no files above it.
fn relative(page: &Path, file: &Path) -> PathBuf {
    let folder = page.parent().unwrap_or(page);
    let shared = folder.components().zip(file.components()).take_while(|(own, other)| own == other).count();
    let up = folder.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(file.components().skip(shared)).collect()
}

/// A file by its text and its path, which may be the same.
fn named(text: &str, file: &Path) -> String {
    let is_path = file.ends_with(text.trim_matches('`'));
    if is_path { format!("`{}`", file.display()) } else { format!("{text} (`{}`)", file.display()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_know_what_they_show() {
        let text = "| a |\n|---|\n| [`b`](b.md) and ![c *d*](c.svg) |\n\n[![e](e.svg)](f.md)\n[g][h]\n\n[h]: h.md\n";
        let shown: Vec<_> = links(text).into_iter().map(|link| (link.target, text[link.inner].to_owned())).collect();
        let expected = [("b.md", "`b`"), ("c.svg", "c *d*"), ("f.md", "![e](e.svg)"), ("h.md", "g")];
        assert_eq!(shown, expected.map(|(target, inner)| (target.to_owned(), inner.to_owned())));
    }

    #[test]
    fn paths_are_turned() {
        assert_eq!(relative(Path::new("docs/in/b.md"), Path::new("docs/c.md")), PathBuf::from("../c.md"));
        assert_eq!(relative(Path::new("docs/c.md"), Path::new("docs/in/b.md")), PathBuf::from("in/b.md"));
        assert_eq!(join(Path::new("docs/in"), Path::new("../../x/./y")), Some(PathBuf::from("x/y")));
        assert_eq!(join(Path::new("docs"), Path::new("../../x")), None);
        assert_eq!(join_link(Path::new("docs/a.md"), "https://example.org/x"), None);
        assert_eq!(join_link(Path::new("docs/a.md"), "#x"), None);
    }

    #[test]
    fn a_title_is_left_out() {
        assert_eq!(below_title("# A\n\ntext\n"), "\ntext\n");
        assert_eq!(below_title("text\n# A\n"), "text\n# A\n");
    }

    #[test]
    fn a_file_is_named_once() {
        assert_eq!(named("`event.rs`", Path::new("lab/trace/src/event.rs")), "`lab/trace/src/event.rs`");
        assert_eq!(named("the example", Path::new("x/balloon.rs")), "the example (`x/balloon.rs`)");
    }
}
