//! Links of a rendered book. Each must lead to a file of the book, and its anchor to an element of that file.
//!
//! Pages are split into tokens. No tree is built, because the check only needs attributes. Links to other hosts are not
//! followed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Component, Path, PathBuf};

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};

use crate::error::{Error, on_file};

/// Result of following all links.
#[derive(Debug)]
pub(crate) struct LinkReport {
    /// Number of pages.
    pub(crate) pages: usize,
    /// Number of links on them, without links to other hosts.
    pub(crate) links: usize,
    /// Links without an existing target.
    pub(crate) dead: Vec<Dead>,
}

/// Link without an existing target.
#[derive(Debug)]
pub(crate) struct Dead {
    page: PathBuf,
    target: String,
    why: &'static str,
}

impl fmt::Display for Dead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: the link `{}` has no target: {}", self.page.display(), self.target, self.why)
    }
}

/// Anchors and links of a page.
#[derive(Default)]
struct Page {
    ids: BTreeSet<String>,
    targets: Vec<String>,
}

/// Files of a book by their path in the book. Pages are parsed.
type Files = BTreeMap<PathBuf, Option<Page>>;

/// Follows every link of the book in `folder`.
///
/// # Errors
/// Returns an error if a file cannot be read.
pub(crate) fn follow(folder: &Path) -> Result<LinkReport, Error> {
    let mut files = Files::new();
    read(folder, Path::new(""), &mut files)?;
    let mut report = LinkReport { pages: 0, links: 0, dead: Vec::new() };
    for (file, page) in files.iter().filter_map(|(file, page)| Some((file, page.as_ref()?))) {
        report.pages += 1;
        report.links += page.targets.len();
        report.dead.extend(page.targets.iter().filter_map(|target| {
            Some(Dead { page: file.clone(), target: target.clone(), why: wrong(&files, file, target)? })
        }));
    }
    Ok(report)
}

fn read(folder: &Path, inside: &Path, files: &mut Files) -> Result<(), Error> {
    let whole = folder.join(inside);
    for entry in fs::read_dir(&whole).map_err(on_file(&whole))? {
        let entry = entry.map_err(on_file(&whole))?;
        let (file, path) = (inside.join(entry.file_name()), entry.path());
        if path.is_dir() {
            read(folder, &file, files)?;
            continue;
        }
        let is_page = path.extension().is_some_and(|ending| ending == "html");
        let page = is_page.then(|| fs::read_to_string(&path).map(|text| Page::parse(&text))).transpose();
        files.insert(file, page.map_err(on_file(&path))?);
    }
    Ok(())
}

/// Returns the problem with a link on `page`, or `None`.
fn wrong(files: &Files, page: &Path, target: &str) -> Option<&'static str> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = path.split('?').next().unwrap_or_default();
    if path.starts_with('/') {
        return Some("the link is absolute, but the book may be in any folder of a host");
    }
    let file = if path.is_empty() { Some(page.to_owned()) } else { resolved(page, path) };
    let Some(found) = file.and_then(|file| files.get(&file).or_else(|| files.get(&file.join("index.html")))) else {
        return Some("the book does not contain this file");
    };
    let has_anchor = anchor.is_empty() || found.as_ref().is_none_or(|page| page.ids.contains(anchor));
    (!has_anchor).then_some("the page does not have this anchor")
}

/// Resolves `path` relative to `page`. Returns `None` if the result is outside the book.
fn resolved(page: &Path, path: &str) -> Option<PathBuf> {
    let mut file = page.parent()?.to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => file.pop().then_some(())?,
            Component::Normal(name) => file.push(name),
            _ => {}
        }
    }
    Some(file)
}

impl Page {
    fn parse(html: &str) -> Page {
        let input = BufferQueue::default();
        input.push_back(StrTendril::from(html));
        let tokens = Tokenizer::new(Attributes::default(), TokenizerOpts::default());
        let _whole = tokens.feed(&input);
        tokens.end();
        tokens.sink.page.into_inner()
    }
}

/// Token sink that collects attributes.
#[derive(Default)]
struct Attributes {
    page: RefCell<Page>,
}

impl Attributes {
    fn take(&self, tag: &Tag) {
        let mut page = self.page.borrow_mut();
        for attribute in &tag.attrs {
            let value = attribute.value.to_string();
            match &*attribute.name.local {
                "id" => drop(page.ids.insert(value)),
                "href" | "src" if !leaves(&value) => page.targets.push(value),
                _ => {}
            }
        }
    }
}

impl TokenSink for Attributes {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let Token::TagToken(tag) = token else { return TokenSinkResult::Continue };
        if tag.kind == TagKind::EndTag {
            return TokenSinkResult::Continue;
        }
        self.take(&tag);
        // The contents of these elements are not markup.
        match &*tag.name {
            "script" => TokenSinkResult::RawData(RawKind::ScriptData),
            "style" => TokenSinkResult::RawData(RawKind::Rawtext),
            "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
            _ => TokenSinkResult::Continue,
        }
    }
}

/// Returns whether a link leads to another host or program, or contains its own data.
fn leaves(target: &str) -> bool {
    target.starts_with("//") || target.split(['/', '#', '?']).next().is_some_and(|first| first.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_anchors_are_read_only_from_elements() {
        let page = Page::parse(
            "<title><a href=no></title><script>'<a href=\"no\">'</script><h2 id=here>x</h2><!-- <a href=no> -->\
             <a href=\"a.html#b\">&lt;a href=no&gt;</a><img src='c.svg'><a href='https://example.org/'>y</a>",
        );
        assert_eq!(page.targets, ["a.html#b", "c.svg"]);
        assert_eq!(page.ids.iter().collect::<Vec<_>>(), ["here"]);
    }

    #[test]
    fn external_links_are_not_followed() {
        for target in ["https://example.org/x", "mailto:x@example.org", "//example.org", "data:image/svg+xml,x"] {
            assert!(leaves(target), "{target}");
        }
        assert!(!leaves("a.html#b:c") && !leaves("in/a:b.html"));
    }
}
