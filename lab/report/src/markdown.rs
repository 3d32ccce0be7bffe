//! Markdown tables, and line wrapping of Markdown paragraphs and list items. Tables, headings, code, HTML and images
//! keep their lines.
//!
//! Generated pages are always wrapped in the same way, so a difference between two versions of a page shows only
//! changed contents.

/// Longest line, in characters.
const WIDTH: usize = 120;

/// A paragraph or a list item that is being collected.
#[derive(Default)]
struct Paragraph {
    /// List mark with its trailing space; empty for a paragraph.
    mark: String,
    text: String,
}

/// Returns the text with its paragraphs and list items wrapped.
pub fn wrapped(text: &str) -> String {
    let mut out = Vec::new();
    let mut paragraph = None;
    let mut in_code = false;
    for line in text.split('\n') {
        let is_fence = line.starts_with("```");
        in_code ^= is_fence;
        let stays = is_fence || in_code || line.trim().is_empty() || line.starts_with(['|', '#', '<', '!']);
        let mark = mark_of(line);
        if stays || !mark.is_empty() {
            finish(&mut paragraph, &mut out);
        }
        if stays {
            out.push(line.to_owned());
            continue;
        }
        let Paragraph { text, .. } =
            paragraph.get_or_insert_with(|| Paragraph { mark: mark.to_owned(), text: String::new() });
        text.push_str(line.strip_prefix(mark).unwrap_or(line).trim());
        text.push(' ');
    }
    finish(&mut paragraph, &mut out);
    out.join("\n")
}

/// Returns the list mark at the start of a line, with its trailing space; empty if the line starts no item.
fn mark_of(line: &str) -> &str {
    let digits = line.len() - line.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let is_numbered = digits > 0 && line[digits..].starts_with(". ");
    match (line.starts_with("- "), is_numbered) {
        (true, _) => &line[..2],
        (_, true) => &line[..digits + 2],
        _ => "",
    }
}

fn finish(paragraph: &mut Option<Paragraph>, out: &mut Vec<String>) {
    let Some(Paragraph { mark, text }) = paragraph.take() else { return };
    let indent = " ".repeat(mark.len());
    let (mut line, mut is_new) = (mark, true);
    for atom in atoms(&text) {
        if !is_new && line.chars().count() + 1 + atom.chars().count() > WIDTH {
            out.push(std::mem::replace(&mut line, indent.clone()));
            is_new = true;
        }
        if !is_new {
            line.push(' ');
        }
        line.push_str(&atom);
        is_new = false;
    }
    out.push(line);
}

/// Splits a text into words for wrapping. A code span is one word. A word that would be a mark at the start of a line
/// is joined to the word before it.
fn atoms(text: &str) -> Vec<String> {
    let mut atoms: Vec<String> = Vec::new();
    let mut is_open = false;
    for word in text.split_whitespace() {
        match atoms.last_mut() {
            Some(last) if is_open || is_mark(word) => *last += &format!(" {word}"),
            _ => atoms.push(word.to_owned()),
        }
        is_open ^= word.matches('`').count() % 2 == 1;
    }
    atoms
}

fn is_mark(word: &str) -> bool {
    let number = word.strip_suffix(['.', ')']).unwrap_or_default();
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    matches!(word, "-" | "+" | "*" | ">" | "|") || word.bytes().all(|byte| byte == b'#') || is_number
}

/// Formats a table in Markdown.
pub fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let rule = format!("|{}", "---|".repeat(header.len()));
    let mut lines = vec![format!("| {} |", header.join(" | ")), rule];
    lines.extend(rows.map(|cells| format!("| {} |", cells.join(" | "))));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paragraphs_and_list_items_are_wrapped() {
        let word = "word ".repeat(30);
        let text = format!("# {word}\n\n{word}\n\n- {word}\n2. {word}\n\n| {word} |\n\n```text\n{word}\n```\n");
        let lines: Vec<String> = wrapped(&text).split('\n').map(str::to_owned).collect();
        let long = lines.iter().filter(|line| line.len() > WIDTH).count();
        assert_eq!(long, 3, "{lines:#?}");
        assert_eq!(lines[2].len(), WIDTH - 1);
        assert!(lines[6].starts_with("  word") && lines[8].starts_with("   word"), "{lines:#?}");
        assert_eq!(wrapped(&lines.join("\n")), lines.join("\n"));
    }

    #[test]
    fn code_spans_stay_whole_and_lines_never_start_with_a_mark() {
        let text = format!("{} `some code` is 3 - 2.", "w".repeat(112));
        assert_eq!(wrapped(&text), format!("{}\n`some code` is 3 - 2.", "w".repeat(112)));
        let text = format!("{} - 2.", "w".repeat(119));
        assert_eq!(wrapped(&text), text);
    }

    #[test]
    fn findings_pages_are_wrapped() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings");
        let entries = std::fs::read_dir(folder).expect("the folder is there");
        let pages = entries.map(|entry| entry.expect("it can be read").path());
        for page in pages.filter(|page| page.extension().is_some_and(|ending| ending == "md")) {
            let text = std::fs::read_to_string(&page).expect("it is text");
            assert!(wrapped(&text) == text, "{} is not wrapped", page.display());
        }
    }
}
