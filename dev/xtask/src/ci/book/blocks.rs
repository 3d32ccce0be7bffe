//! Code blocks of a page, in their order.

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

/// Fenced code block.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    /// Text after the opening fence: the language and further attributes.
    pub(crate) info: String,
    /// Lines of the block.
    pub(crate) text: String,
}

/// Returns all fenced code blocks of a page.
pub(crate) fn parse(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for event in Parser::new(page) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                open = Some(Block { info: info.into_string(), text: String::new() });
            }
            Event::Text(text) => open.iter_mut().for_each(|block| block.text.push_str(&text)),
            Event::End(TagEnd::CodeBlock) => blocks.extend(open.take()),
            _ => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_block(info: &str, text: &str) -> Block {
        Block { info: info.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn code_blocks_have_their_info_and_lines() {
        let page = "# A\n\n```sh root\nls\n\nls -l\n```\n\n    indented\n\n```\nx\n```\n";
        assert_eq!(parse(page), [make_block("sh root", "ls\n\nls -l\n"), make_block("", "x\n")]);
    }
}
