//! Parsed Markdown document: its links and code spans, and the anchors that links can name.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// Parts of a document that the link check needs.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// Targets of links and images, with their lines.
    pub(crate) links: Vec<(String, usize)>,
    /// Code spans, with their lines.
    pub(crate) spans: Vec<(String, usize)>,
    /// Anchors of the headings, as code hosts generate them.
    pub(crate) anchors: Vec<String>,
}

impl Document {
    /// Finds the links, headings and code spans of a text.
    pub(crate) fn parse(text: &str) -> Document {
        let mut document = Document::default();
        let mut heading: Option<(HeadingLevel, String)> = None;
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            let line = text[..range.start].matches('\n').count() + 1;
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push((dest_url.into_string(), line));
                }
                Event::Start(Tag::Heading { level, .. }) => heading = Some((level, String::new())),
                Event::End(TagEnd::Heading(_)) => {
                    if let Some((_, title)) = heading.take() {
                        document.add_anchor(&title);
                    }
                }
                Event::Text(words) => extend(&mut heading, &words),
                Event::Code(code) => {
                    extend(&mut heading, &code);
                    document.spans.push((code.into_string(), line));
                }
                _ => {}
            }
        }
        document
    }

    /// Adds the anchor of a heading: lower case, dashes for spaces, no punctuation, and a number if the anchor exists
    /// already.
    fn add_anchor(&mut self, title: &str) {
        let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect();
        let numbered = (1..).map(|count| format!("{anchor}-{count}"));
        let name = [anchor.clone()].into_iter().chain(numbered).find(|name| !self.anchors.contains(name));
        self.anchors.extend(name);
    }
}

fn extend(heading: &mut Option<(HeadingLevel, String)>, words: &str) {
    if let Some((_, title)) = heading {
        title.push_str(words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_match_code_hosts() {
        let document = Document::parse("# What `pcp=merge` does, and why\n\n## Cost\n\n## Cost\n");
        assert_eq!(document.anchors, ["what-pcpmerge-does-and-why", "cost", "cost-1"]);
    }

    #[test]
    fn links_and_spans_record_their_line() {
        let document = Document::parse("# A\n\nSee [b](b.md#c)\nand `x/y.rs`.\n");
        assert_eq!(document.links, [("b.md#c".to_owned(), 3)]);
        assert_eq!(document.spans, [("x/y.rs".to_owned(), 4)]);
    }
}
